"""A study in the box whose process is killed in the middle of a run goes on with that run."""

import os
import signal
import subprocess
import sys
import time

import pytest

from labkit.results import Results

pytestmark = [pytest.mark.box, pytest.mark.slow]

STUDY = """\
import sys
from pathlib import Path
from labkit.claim import Ratio
from labkit.condition import Condition
from labkit.lab import opened
from labkit.results import Results
from labkit.running import loop
from labkit.settings.mtu import Mtu
from labkit.study import Study
from labkit.workloads.ping import Ping

path, changes = Path(sys.argv[2]), sys.argv[3] == "changes"
claim = Ratio("c", "s", "nowhere", percentile=50, over="a", under="a", published=1, within=9)
condition = Condition("a", "a", "a", settings=(Mtu(1400),) if changes else ())
study = Study(
    name="lat_ping", title="t", question="q", source="s", workload=Ping(count=150, interval=0.1),
    conditions=(condition,), claims=(claim,), metric="round trip", unit="us",
)
results = Results.begin(path, {"study": "lat_ping", "seed": 1, "refused": {}})
with opened(Path(sys.argv[1])) as lab:
    loop.run(study, lab, results, repeats=1)
"""


def study(lab_file, path, what):
    words = [sys.executable, "-c", STUDY, str(lab_file), str(path), what]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


def jobs(host):
    return {job.key: job for job in host.jobs()}


def killed_in_the_middle(lab, lab_file, path, what):
    """The keys of the jobs that a study's process leaves on the client when it is killed."""
    first, until = study(lab_file, path, what), time.monotonic() + 120
    while not (found := jobs(lab.host("client"))):
        assert first.poll() is None, first.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.2)
    time.sleep(3)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    return list(found)


def test_a_study_in_the_box_goes_on_with_the_run_that_is_still_running(lab, lab_file, tmp_path):
    path = tmp_path / "results"
    (key,) = killed_in_the_middle(lab, lab_file, path, "nothing")
    again = study(lab_file, path, "nothing")
    assert again.communicate(timeout=120)[1] == "" and again.returncode == 0
    (run,) = Results.open(path).finished()
    assert key in run.text("under_way.txt"), "it was found, not started again"
    assert run.text("ping.txt").count(" bytes from ") == 150
    assert run.measured_seconds < 15 - 2
    assert jobs(lab.host("client")) == {}


@pytest.mark.torture
def test_a_run_under_changes_that_its_process_made_is_ended_and_made_again(lab, lab_file, tmp_path):
    path = tmp_path / "results"
    killed_in_the_middle(lab, lab_file, path, "changes")
    words = [sys.executable, "-m", "labkit", "restore", "server", "--lab", str(lab_file)]
    subprocess.run(words, check=True, capture_output=True)
    again = study(lab_file, path, "changes")
    said = again.communicate(timeout=120)[1]
    assert again.returncode == 0, said
    (run,) = Results.open(path).finished()
    assert "under_way.txt" not in run.raw and run.measured_seconds > 14
    assert jobs(lab.host("client")) == {}
