"""A run that lasts is a job: a study whose process was killed goes on with the run under way."""

import multiprocessing
import os
import shutil
import signal
import time

import pytest

from labkit.claim import Ratio
from labkit.condition import Condition
from labkit.errors import CommandFailed, TimedOut
from labkit.host import Host
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import loop
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workloads import _lasting
from labkit.workloads._lasting import checked, key_of
from labkit.workloads.ping import Ping

PROGRAMS = ("ping",)

pytestmark = pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")
SECONDS = 9
CLAIM = Ratio("c", "s", "nowhere", percentile=50, over="a", under="a", published=1, within=9)
STUDY = Study(
    name="lat_ping", title="t", question="q", source="s",
    workload=Ping(count=SECONDS * 10, interval=0.1), conditions=(Condition("a", "a", "a"),),
    claims=(CLAIM,),
    metric="round trip", unit="us",
)  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    host = Host("here", "127.0.0.1", Local("here"), measuring=key_of(str(tmp_path), ""))
    yield host
    for job in host.jobs():
        job.cancel()
        job.forget()


def begun(here, count):
    until = time.monotonic() + 60
    while len(here.jobs()) < count:
        assert time.monotonic() < until
        time.sleep(0.1)
    return [job.key for job in here.jobs()]


def measure(path):
    transport = Local("here")
    hosts = {role: Host(role, "127.0.0.1", transport) for role in ("client", "server")}
    lab = Lab("loopback", hosts, tier="loopback")
    results = Results.begin(path, {"study": "lat_ping", "seed": 1, "refused": {}})
    loop.run(STUDY, lab, results, repeats=1)


def test_a_study_whose_process_was_killed_goes_on_with_the_run_that_is_still_running(
    here, tmp_path
):
    path = tmp_path / "results"
    first = multiprocessing.get_context("fork").Process(target=measure, args=(path,))
    first.start()
    keys = begun(here, 1)
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    time.sleep(2)
    measure(path)
    (run,) = Results.begin(path, {"study": "lat_ping", "seed": 1, "refused": {}}).finished()
    assert keys[0] in run.text("under_way.txt")
    assert run.text("ping.txt").count(" bytes from ") == SECONDS * 10
    assert run.measured_seconds < SECONDS - 1.5
    assert here.jobs() == {}


def test_a_command_of_a_run_is_started_once_however_often_it_is_asked_for(here, tmp_path):
    words = ("sh", "-c", f"echo once >> {tmp_path}/started; sleep 2; echo done")
    gone = multiprocessing.get_context("fork").Process(
        target=checked, args=(here, *words), kwargs={"seconds": 30}
    )
    gone.start()
    begun(here, 1)
    os.kill(gone.pid, signal.SIGKILL)
    gone.join()
    assert checked(here, *words, seconds=30) == "done\n"
    assert (tmp_path / "started").read_text() == "once\n"


def test_what_a_try_of_the_run_under_other_changes_left_is_ended_first(here, tmp_path):
    other = key_of(str(tmp_path), "other changes")
    left = here.start("sleep", "100", key=f"{other}-{_lasting.digest('x')}", seconds=200)
    assert checked(here, "echo", "new", seconds=30) == "new\n"
    assert left.key not in [job.key for job in here.jobs()]


def test_a_job_of_a_run_fails_as_any_command_does(here):
    with pytest.raises(CommandFailed, match="code 3") as failed:
        checked(here, "sh", "-c", "echo why >&2; exit 3", seconds=30)
    assert "why" in str(failed.value)
    with pytest.raises(TimedOut, match="had not ended"):
        checked(here, "sleep", "50", seconds=1)
    assert here.jobs() == {}
