"""`labkit run` and `labkit report` on real hosts, by their lab.toml as on hosts of one's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.box, pytest.mark.slow]
SHORT = ("-p", "repeats=3", "-p", "count=300")


@pytest.fixture
def labkit(tmp_path):
    def call(*words):
        return subprocess.run(
            [sys.executable, "-m", "labkit.cli", *words],
            capture_output=True, text=True, env={**os.environ, "LABKIT_OUT": str(tmp_path)},
        )  # fmt: skip

    return call


def test_a_study_runs_by_its_lab_file_and_its_report_can_be_written_again(labkit, lab_file):
    done = labkit("run", "lat_ping", "--where", str(lab_file), *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {row["condition"] for row in answer["rows"] if row["n"] == 900} == {
        "Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV",
    }  # fmt: skip
    assert answer["note"].startswith("Emulated")
    runs = [json.loads((Path(run) / "run.json").read_text()) for run in answer["runs"]]
    finished = [run for run in runs if run["state"] != "invalid"]
    assert len(finished) == 12
    assert all(run["state"] == "finished" and not run["rows"][0]["lost"] for run in finished)
    for named in (answer["results"], answer["runs"][3], "lat_ping"):
        again = labkit("report", named, "--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["verdicts"] == answer["verdicts"]


def test_a_lab_without_guests_measures_what_it_can_and_says_what_it_cannot(
    labkit, lab_file, tmp_path
):
    own = lab_file.read_text().split("[hosts.guest]")[0].split("[box]")
    own = own[0] + "[hosts" + own[1].split("[hosts", 1)[1]
    own = own.replace('"known_hosts"', f'"{lab_file.parent}/known_hosts"')
    own = own.replace('key = "key"', f'key = "{lab_file.parent}/key"')
    # Both share this machine's CPUs with whatever else runs on it.
    shared = 'tolerates = ["load generator", "foreign load", "throttling", "steal"]\n'
    (tmp_path / "mine.toml").write_text(shared + own)
    done = labkit("run", "lat_ping", "--where", str(tmp_path / "mine.toml"), *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {row["condition"] for row in answer["rows"]} == {"Native"}
    assert {v["verdict"] for v in answer["verdicts"]} == {"not testable here"}
    assert answer["note"] == ""
    (order,) = [v for v in answer["verdicts"] if v["claim"] == "lat-ping-01"]
    assert "no host for it" in order["why"]
