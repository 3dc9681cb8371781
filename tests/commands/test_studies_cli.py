"""`labkit studies STUDY` shows one, `--write` writes the tables again, `remove` takes one away."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import studies

HOME = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "out", "__pycache__", ".*_cache", "tests")
TABLES = ("README.md", "data/published/SOURCES.md", "notebooks/docs/proof/claims.md")


def labkit(*words, cwd):
    env = {**os.environ, "LABKIT_OUT": str(cwd / "out")}
    words = (sys.executable, "-m", "labkit", *words)
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)


def test_one_study_is_shown_in_80_columns(typed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    output = typed("studies", "lat-ping")
    assert {"VM-SRIOV", "lat-ping-07", "count"} <= {line.split()[0] for line in output.splitlines()
                                                    if line.strip()}  # fmt: skip
    words = [line for line in output.splitlines() if len(line) > 80 and "/" not in line]
    assert not words
    assert typed("studies", "lat_ping", "--json")["name"] == "lat_ping"
    assert "lat_ping" in typed("studies", "lat_pong", code=2)


def test_conditions_that_only_a_long_run_has_are_told_and_no_two_are_told_alike(typed):
    assert "every=true: VM [rtt=25ms]; VM [rtt=150ms]." in typed("studies", "ld_vmotion")
    for name in ("hadoop_v6", "vsan_sapiq"):
        means = [condition.means for condition in studies.find(name).conditions]
        assert len({*means}) == len(means)
    assert all(
        len(line) <= 80 or "/" in line for line in typed("studies", "docker_stream").splitlines()
    )


@pytest.mark.slow
def test_a_study_of_a_folder_of_ones_own_is_listed_first_and_then_removed(tmp_path):
    assert labkit("new", "study", "disk_cache", "--in", ".", cwd=tmp_path).returncode == 0
    files = {path for path in tmp_path.rglob("*") if path.is_file() and "out" not in path.parts}
    listed = labkit("remove", "study", "disk_cache", cwd=tmp_path)
    assert "would remove studies/disk_cache.py" in listed.stdout and all(map(Path.exists, files))
    result = labkit("remove", "study", "disk-cache", "--yes", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    left = {path.name for path in files if path.exists() and path.suffix != ".pyc"}
    assert left == {"labkit.toml"}
    again = labkit("remove", "study", "disk_cache", "--yes", cwd=tmp_path)
    assert again.returncode == 2 and "unknown study 'disk_cache'" in again.stderr


@pytest.mark.slow
def test_what_new_study_writes_into_a_checkout_goes_without_a_trace(tmp_path):
    copy = tmp_path / "labkit"
    shutil.copytree(HOME, copy, ignore=LEFT_OUT, symlinks=True)
    before = [(copy / name).read_text() for name in TABLES]
    words = ("new", "study", "tried_cache", "--document", "Caches That Tests Try")
    assert labkit(*words, cwd=copy).returncode == 0
    written = [(copy / name).read_text() for name in TABLES]
    assert all("tried_cache" in text or "tried-cache" in text for text in written)
    (copy / "README.md").write_text(before[0])
    assert labkit("studies", "--write", cwd=copy).returncode == 0
    assert (copy / "README.md").read_text() == written[0]
    result = labkit("remove", "study", "tried_cache", "--yes", cwd=copy)
    assert result.returncode == 0, result.stderr
    assert [(copy / name).read_text() for name in TABLES] == before
    assert not [path for path in copy.rglob("*tried*cache*") if path.suffix != ".pyc"]
