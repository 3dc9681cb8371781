"""Jobs: what the locks and records prove, and one job after another over a real sshd."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import BadInput, HostError, Unknown
from labkit.job import JobLimits, Printed, State
from labkit.job.state import read

LOCKS, EXIT, SIGNAL = ("sup", "work", "out"), "exit 3 1500", "signal 9 1500"
ODD = [
    "a b", "'", '"', "\\", "$HOME", "`id`", "$(id)", "a\nb\n", "*", "~", ";", "-n", "%s", "", "é漢",
    "\udcff\udc80",
]  # fmt: skip

# --- what is known, from what was seen ------------------------------------------------------


def status(**facts):
    """The status that the lines of an answer prove; the job began five seconds ago."""
    usual = {"now": "b1 1500", "born": "b1 1000 0 flock perl"}
    usual |= dict.fromkeys(("held", "main", "why", "full"), "")
    lines = "".join(f"{name} {words}\n" for name, words in {**usual, **facts}.items())
    (answer,) = read(f"labkit-job n /spool/key\n{lines}part 0 0\n\n".encode(), "n")
    return answer.status


@pytest.mark.parametrize("facts, state, why", [
    ({"held": "work out sup"}, State.RUNNING, ""),
    ({"held": "sup"}, State.RUNNING, ""),
    ({"held": "out", "main": EXIT}, State.RUNNING, "left behind"),
    ({"main": EXIT}, State.FINISHED, ""),
    ({"main": SIGNAL}, State.KILLED, ""),
    ({"main": "code 137 1500"}, State.KILLED, "ended with code 137"),
    ({"main": "code 137 1500 oom"}, State.KILLED, "for want of memory"),
    ({"main": SIGNAL, "why": "cancel"}, State.KILLED, "cancelled"),
    ({"main": EXIT, "why": "cancel"}, State.KILLED, "cancelled"),
    ({"main": SIGNAL, "why": "deadline"}, State.TIMED_OUT, "deadline"),
    ({"main": EXIT, "why": "deadline"}, State.TIMED_OUT, "deadline"),
    ({"held": "work out"}, State.ORPHANED, "goes on without"),
    ({"held": "out"}, State.ORPHANED, "goes on without"),
    ({"why": "deadline"}, State.TIMED_OUT, "supervisor was killed before"),
    ({}, State.LOST, "its work has ended too"),
    ({"now": "b2 1500"}, State.LOST, "the host rebooted 15 s ago"),
    ({"now": "b2 1500", "main": EXIT}, State.FINISHED, ""),
    ({"born": ""}, State.LOST, "nothing of it ran"),
])  # fmt: skip
def test_the_state_is_what_the_facts_prove(facts, state, why):
    found = status(**facts)
    assert found.state is state
    assert (why in found.why) if why else not found.why


def test_no_facts_are_without_a_state_and_only_a_record_gives_a_code():
    locks = [" ".join(some) for n in range(4) for some in itertools.combinations(LOCKS, n)]
    causes = ["", "deadline", "cancel"]
    for held, main, cause in itertools.product(locks, ["", EXIT, SIGNAL], causes):
        found = status(held=held, main=main, why=cause)
        assert (found.code, found.signal) == {
            "": (None, ""), EXIT: (3, ""), SIGNAL: (None, "KILL"),
        }[main]  # fmt: skip
        assert found.alive == bool({*held.split()} - {"sup"})
        if found.state is State.FINISHED:
            assert main == EXIT and not found.alive


def test_durations_are_by_the_hosts_clock():
    assert status(held="work out sup").seconds == 5.0
    assert status(main="exit 3 1234").seconds == 2.34


@pytest.mark.parametrize("answer", ["", "\n", "labkit-job n", "labkit-job other /f\ngone\n\n"])
def test_an_answer_that_was_cut_short_is_no_answer(answer):
    with pytest.raises(ValueError):
        read(answer.encode(), "nonce")


def test_what_a_login_script_prints_is_passed_over():
    answer = "Welcome!\nlabkit-job nonce /spool/key\ngone\n\n"
    (found,) = read(answer.encode(), "nonce")
    assert found.folder == "/spool/key" and found.content == b""
    assert found.status.state is State.LOST and "nothing is kept in /spool/key" in found.status.why


@pytest.mark.slow
@given(st.text(), st.integers(0, 400))
def test_no_answer_does_harm(noise, cut):
    text = (
        "labkit-job n /f\nnow b1 5\nborn b1 1 2 flock perl\nheld work\nmain exit 3 4\nwhy\nfull\n"
        f"file out 0 3\npart 0 3\n\nhi\n\n{noise}"
    )
    for answer in (noise, text[:cut], text[:cut] + noise + text[cut:]):
        with suppress(ValueError):
            read(answer.encode(), "n")


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize("words, how, said", [
    *((["true"], {"key": key}, "a key")
      for key in ("", "A", "a b", "../a", "a/b", "é", "a" * 65, "a\n")),
    *((words, {}, "a command") for words in ([], ["-x"], ["echo", "a\0b"], ["a", "\ud800"])),
    (["true"], {"spool": "jobs"}, "a spool"),
], ids=ascii)  # fmt: skip
def test_what_cannot_be_a_key_a_command_or_a_spool_is_refused(ssh, words, how, said):
    with pytest.raises(BadInput, match=f"cannot be {said}"):
        ssh.start(*words, **{"key": "a", "seconds": 1, **how})


@pytest.mark.parametrize("limits", [
    {"seconds": 0}, {"seconds": float("nan")}, {"seconds": 1e10},
    {"seconds": 1, "cap": 100},
])  # fmt: skip
def test_limits_are_refused_before_anything_is_sent(limits):
    with pytest.raises(BadInput):
        JobLimits(**limits)


def test_a_spool_that_cannot_be_made_is_named(ssh):
    with pytest.raises(HostError, match=r"job a was not started(.|\n)*/proc"):
        ssh.start("true", key="a", seconds=1, spool="/proc/none/jobs")


# --- over a real sshd -----------------------------------------------------------------------


@pytest.fixture
def spool(tmp_path):
    return str(tmp_path / "spool")


@pytest.mark.slow
def test_a_job_runs_is_followed_and_ends_with_its_code(ssh, spool):
    script = "echo one; echo wrong >&2; sleep 0.2; echo two; exit 4"
    job = ssh.start("sh", "-c", script, key="run-1", seconds=30, spool=spool)
    assert b"".join(job.follow()) == b"one\ntwo\n"
    status = job.wait(10)
    assert str(status) == "finished with code 4"
    assert (status.out, status.err) == (Printed(8, 8), Printed(6, 6))
    assert job.output(stream="err") == b"wrong\n" and job.output(4) == b"two\n"
    assert 0.2 <= status.seconds < 10


@pytest.mark.slow
def test_a_key_is_started_once_and_attached_to_ever_after(ssh, spool, tmp_path):
    words = ("sh", "-c", f"echo ran >>{tmp_path}/log")
    for _ in range(3):
        job = ssh.start(*words, key="once", seconds=30, spool=spool)
        assert job.wait(10).ok
    assert (tmp_path / "log").read_text() == "ran\n"
    assert ssh.job("once", spool) == job and list(ssh.jobs(spool)) == [job]
    with pytest.raises(BadInput, match="key once belongs to another job"):
        ssh.start("true", key="once", seconds=30, spool=spool)
    with pytest.raises(Unknown, match="did you mean 'once'"):
        ssh.job("onec", spool)


@pytest.mark.slow
def test_every_word_arrives_byte_for_byte_and_binary_output_too(ssh, spool):
    job = ssh.start("printf", r"%s\377\0\n", *ODD, key="words", seconds=30, spool=spool)
    assert job.wait(10).ok
    expected = b"".join(word.encode("utf-8", "surrogateescape") + b"\xff\0\n" for word in ODD)
    assert job.output() == expected


@pytest.mark.slow
def test_an_absent_program_is_code_127_and_says_which(ssh, spool):
    job = ssh.start("no-such-program", key="absent", seconds=30, spool=spool)
    assert job.wait(10).code == 127
    assert b"no-such-program" in job.output(stream="err")


@pytest.mark.slow
def test_waiting_no_longer_than_asked_leaves_it_running_until_it_is_cancelled(ssh, spool):
    job = ssh.start("sleep", "60", key="long", seconds=90, spool=spool)
    assert job.wait(0.1).state is State.RUNNING
    assert str(job.cancel()) == "killed by signal TERM: it was cancelled"


@pytest.mark.slow
def test_a_job_knows_its_name_and_nothing_of_its_start(ssh, spool):
    script = "echo $LABKIT_JOB; umask; ls -l /proc/$$/fd | grep -c lock; cat"
    job = ssh.start("sh", "-c", script, key="name", seconds=30, spool=spool)
    assert job.wait(10).ok
    assert job.output().split() == [f"{spool}/name/".encode(), b"0022", b"1"]
