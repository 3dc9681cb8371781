"""The example of a document of others is a folder as a user has one, and is judged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
FOLDER = HOME / "data/documents"
JUDGED = """
import json
from labkit import find_study, judge, study_results
study = find_study("gvisor")
results = study_results(study, None, "recorded")
told = {v.claim: [v.verdict, v.effect, v.blocks] for v in judge(study, results)}
print(json.dumps({"lab": results.asked["lab"]["tier"], "verdicts": told}))
"""
pytestmark = pytest.mark.slow


def ran(tmp_path, *words):
    env = {**os.environ, "LABKIT_PATH": str(FOLDER), "LABKIT_OUT": str(tmp_path)}
    words = (sys.executable, *words)
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_claims_and_the_study_of_the_example_can_be_read(tmp_path):
    check = ran(tmp_path, "-m", "labkit", "claims", "check", str(FOLDER / "published/gvisor.toml"))
    assert "3 claims can be read." in check
    study = json.loads(ran(tmp_path, "-m", "labkit", "studies", "gvisor", "--json"))
    assert len(study["conditions"]) == 6 and study["claims"] == [f"gvisor-0{n}" for n in (1, 2, 3)]


def test_the_recorded_run_of_the_example_is_real_and_decides_claims(tmp_path):
    told = json.loads(ran(tmp_path, "-c", JUDGED))
    assert told["lab"] == "hosts"
    verdicts = {claim: verdict for claim, (verdict, *_) in told["verdicts"].items()}
    assert verdicts["gvisor-01"] == "contradicted" and verdicts["gvisor-03"] == "holds"
    _, effect, blocks = told["verdicts"]["gvisor-01"]
    assert blocks == 7 and effect == pytest.approx(123, rel=0.01), told
