"""The six ends of a job, on each kind of host, against what the injector knows."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from small_hosts import KINDS, small
from waiting import awaited

from labkit import job as detached
from labkit.errors import HostError, Unknown
from labkit.job import JobLimits, State

pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/job/", "labkit/transports/"),
]

HANGS = {
    "sleeps": "sleep 1000",
    "ignores": "trap '' TERM; while :; do sleep 0.1; done",
    "stopped": "kill -STOP $$; sleep 1000",
    "family": "setsid sleep 1000 & sh -c 'sleep 1000 & sleep 1000'",
}


# Those that take seconds to end, begun together.
LONG = {
    **{f"hang-{name}": (script, {"seconds": 2}) for name, script in HANGS.items()},
    "left": ("sleep 1000", {"seconds": 3}),
    "leaves": ("(sleep 2; echo late) & echo early; exit 4", {}),
}


@pytest.fixture(params=KINDS, scope="module")
def place(request, tmp_path_factory):
    place = small(request.param, tmp_path_factory.mktemp(request.param))
    yield place
    for process in processes(place, ""):
        os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="module")
def long(place):
    jobs = {key: begin(place, key, script, **limits) for key, (script, limits) in LONG.items()}
    orphan(place, "left")
    return jobs


def begin(place, key, script, seconds=60, **limits):
    limits = JobLimits(seconds, grace=1, **limits)
    words = ["sh", "-c", script]
    return detached.start(place.host, words, key=key, limits=limits, spool=place.spool)


def orphan(place, key):
    awaited(lambda: processes(place, key))
    os.kill(int((place.seen / key / "sup.pid").read_text().split()[0]), signal.SIGKILL)


# Of this machine's processes, whatever the host's own view of /proc: the job's name is in them.
def processes(place, key):
    mark, found = os.path.join(f"LABKIT_JOB={place.spool}", key, "").encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (path / "environ").read_bytes() and lives_in(place, path):
                found.append(int(path.name))
    return found


def lives_in(place, path):
    return place.host.name != "bare" or (path / "root").readlink() == place.seen.parent


@pytest.mark.parametrize("code", [0, 3, 255])
def test_a_job_that_ends_by_itself_is_finished_with_its_code(place, code):
    status = begin(place, f"code-{code}", f"echo out; echo err >&2; exit {code}").wait(30)
    assert (status.state, status.code, status.signal) == (State.FINISHED, code, "")
    assert (status.out.size, status.err.size, status.alive) == (4, 4, False)


@pytest.mark.parametrize("name", ["KILL", "SEGV", "ABRT"])
def test_a_job_that_a_signal_ended_is_killed_by_it(place, name):
    status = begin(place, f"by-{name.lower()}", f"kill -{name} $$").wait(30)
    assert (status.state, status.code, status.signal) == (State.KILLED, None, name)
    assert ("cannot say" in status.why) == (place.host.name != "usual")


def test_code_137_is_told_from_signal_9_where_there_is_perl(place):
    status = begin(place, "code-137", "exit 137").wait(30)
    if place.host.name == "usual":
        assert (status.state, status.code, status.why) == (State.FINISHED, 137, "")
    else:
        assert "ended with code 137" in status.why


@pytest.mark.parametrize("name", HANGS)
def test_what_hangs_is_gone_by_deadline_and_grace(place, long, name):
    status = long[f"hang-{name}"].wait(30)
    assert (status.state, status.alive) == (State.TIMED_OUT, False)
    # The host's own time: seconds, grace, and what a busy machine adds.
    assert 2 <= status.seconds < 2 + 1 + 5
    # Without /proc a host shows only the first process of a job and its group.
    if place.host.name != "bare":
        assert processes(place, f"hang-{name}") == []


def test_what_a_command_leaves_behind_is_part_of_the_job(place, long):
    status = long["leaves"].wait(30)
    assert (status.state, status.code) == (State.FINISHED, 4)
    assert long["leaves"].output() == b"early\nlate\n"


def test_a_job_without_its_supervisor_is_orphaned_and_then_lost(place):
    job = begin(place, "orphan", "echo begun; sleep 1000")
    awaited(lambda: job.output() == b"begun\n")
    orphan(place, "orphan")
    awaited(lambda: job.status().state is State.ORPHANED)
    assert job.wait(30).state is State.ORPHANED and processes(place, "orphan")
    for process in processes(place, "orphan"):
        os.kill(process, signal.SIGKILL)
    awaited(lambda: job.status().state is State.LOST)
    assert "supervisor was killed" in job.status().why
    assert job.output() == b"begun\n"


def test_an_orphan_can_be_cancelled(place):
    job = begin(place, "adopted", "sleep 1000")
    orphan(place, "adopted")
    job.cancel(1)
    awaited(lambda: job.status().state is State.KILLED)
    assert processes(place, "adopted") == []


def test_an_orphan_meets_its_deadline(place, long):
    awaited(lambda: long["left"].status().state is State.TIMED_OUT, 15)
    assert processes(place, "left") == []


def test_cancel_ends_the_whole_tree_and_says_so(place):
    job = begin(place, "cancelled", HANGS["family"])
    awaited(lambda: len(processes(place, "cancelled")) >= 3)
    job.cancel(1)
    # Without /proc the dead count as alive until their parent has looked at them.
    awaited(lambda: job.status().state is State.KILLED)
    assert job.status().why == "it was cancelled"
    if place.host.name != "bare":
        assert processes(place, "cancelled") == []


def test_a_command_that_answers_a_cancel_with_a_code_was_cancelled_all_the_same(place):
    job = begin(place, "answers", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    awaited(lambda: job.output() == b"ready\n")
    job.cancel(5)
    awaited(lambda: job.status().over)
    status = job.status()
    assert (status.state, status.why, status.ok) == (State.KILLED, "it was cancelled", False)


def test_a_spool_that_was_removed_is_said_and_the_work_can_still_be_ended(place):
    job = begin(place, "removed", "sleep 1000")
    awaited(lambda: processes(place, "removed"))
    for path in sorted((place.seen / "removed").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (place.seen / "removed").rmdir()
    status = job.wait(30)
    assert (status.state, "nothing is kept in" in status.why) == (State.LOST, True)
    if place.host.name != "bare":
        job.cancel(1)
        assert processes(place, "removed") == []


def test_cancelling_what_is_over_changes_nothing(place):
    job = begin(place, "over", "exit 3")
    status = job.wait(30)
    assert job.cancel(1) == status and status.why == ""


def test_a_start_that_was_cut_short_is_said_and_frees_its_key(place):
    (place.seen / "short").mkdir(parents=True, mode=0o700)
    (job,) = [one for one in detached.listed(place.host, place.spool) if one.key == "short"]
    assert "nothing of it ran" in detached.listed(place.host, place.spool)[job].why
    job.forget()
    assert begin(place, "short", "exit 0").wait(30).ok


def test_a_job_that_is_over_is_forgotten_and_one_that_runs_is_not(place):
    job = begin(place, "kept", "sleep 1000")
    with pytest.raises(HostError, match="cannot forget job kept"):
        job.forget()
    job.cancel(1)
    job.forget()
    assert not (place.seen / "kept").exists()
    assert begin(place, "kept", "exit 0").wait(30).ok


def test_the_spool_of_root_is_on_disk_and_nobody_elses(place):
    if place.host.name != "bare":
        pytest.skip("a host with a root of its own")
    job = detached.start(place.host, ["true"], key="default", limits=JobLimits(9))
    assert job.folder == "/var/lib/labkit/jobs/default" and job.wait(30).ok
    for folder in ("var/lib/labkit/jobs", "var/lib/labkit/jobs/default"):
        assert (place.seen.parent / folder).stat().st_mode & 0o777 == 0o700


def test_all_jobs_are_listed_and_attached_to_by_key(place):
    job = begin(place, "listed", "echo 'two  words'; exit 1")
    job.wait(30)
    listed = detached.listed(place.host, place.spool)
    assert listed[job].code == 1
    assert detached.attach(place.host, "listed", place.spool) == job
    with pytest.raises(Unknown, match=r"(?s)known: .*listed"):
        detached.attach(place.host, "absent", place.spool)
