"""Jobs: what the locks and records prove, and one job after another over a real sshd."""

import itertools
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import BadInput, HostError, Unknown
from labkit.job import JobLimits, Printed, State
from labkit.job.facts import Part, read
from labkit.job.state import Facts, judged

BORN = Facts("/spool/key", boot="b1", born_boot="b1", begun=1000, now=1500)
ALL = frozenset({"sup", "work", "out"})
EXIT, SIGNAL = ("exit", 3), ("signal", 9)
ODD = [
    "a b", "'", '"', "\\", "$HOME", "`id`", "$(id)", "a\nb\n", "*", "~", ";", "-n", "%s", "", "é漢",
    "\udcff\udc80",
]  # fmt: skip

# --- what is known, from what was seen ------------------------------------------------------


@pytest.mark.parametrize("facts, state, why", [
    (replace(BORN, held=ALL), State.RUNNING, ""),
    (replace(BORN, held=frozenset({"sup"})), State.RUNNING, ""),
    (replace(BORN, held=frozenset({"out"}), end=EXIT), State.RUNNING, "left behind"),
    (replace(BORN, end=EXIT), State.FINISHED, ""),
    (replace(BORN, end=SIGNAL), State.KILLED, ""),
    (replace(BORN, end=SIGNAL, guessed=True), State.KILLED, "ended with code 137"),
    (replace(BORN, end=SIGNAL, oom=True, guessed=True), State.KILLED, "for want of memory"),
    (replace(BORN, end=SIGNAL, cause="cancel"), State.KILLED, "cancelled"),
    (replace(BORN, end=EXIT, cause="cancel"), State.KILLED, "cancelled"),
    (replace(BORN, end=SIGNAL, cause="deadline"), State.TIMED_OUT, "deadline"),
    (replace(BORN, end=EXIT, cause="deadline"), State.TIMED_OUT, "deadline"),
    (replace(BORN, held=frozenset({"work", "out"})), State.ORPHANED, "goes on without"),
    (replace(BORN, held=frozenset({"out"})), State.ORPHANED, "goes on without"),
    (replace(BORN, cause="deadline"), State.TIMED_OUT, "supervisor was killed before"),
    (BORN, State.LOST, "its work has ended too"),
    (replace(BORN, boot="b2"), State.LOST, "the host rebooted 15 s ago"),
    (replace(BORN, boot="b2", end=EXIT), State.FINISHED, ""),
    (replace(BORN, born_boot=""), State.LOST, "nothing of it ran"),
    (Facts("/spool/key", gone=True), State.LOST, "nothing is kept in /spool/key"),
])  # fmt: skip
def test_the_state_is_what_the_facts_prove(facts, state, why):
    status = judged(facts)
    assert status.state is state
    assert (why in status.why) if why else not status.why


def test_no_facts_are_without_a_state_and_only_a_record_gives_a_code():
    locks = [
        frozenset(combination) for n in range(4) for combination in itertools.combinations(ALL, n)
    ]
    causes = ["", "deadline", "cancel"]
    for held, end, cause in itertools.product(locks, [None, EXIT, SIGNAL], causes):
        status = judged(replace(BORN, held=held, end=end, cause=cause))
        assert (status.code, status.signal) == {
            None: (None, ""), EXIT: (3, ""), SIGNAL: (None, "KILL"),
        }[end]  # fmt: skip
        assert status.alive == bool(held - {"sup"})
        if status.state is State.FINISHED:
            assert end == EXIT and not status.alive


def test_durations_are_by_the_hosts_clock():
    assert judged(replace(BORN, held=ALL)).seconds == 5.0
    assert judged(replace(BORN, end=EXIT, ended=1234)).seconds == 2.34


@pytest.mark.parametrize("answer", ["", "\n", "labkit-job n", "labkit-job other /f\ngone\n\n"])
def test_an_answer_that_was_cut_short_is_no_answer(answer):
    with pytest.raises(ValueError):
        read(answer.encode(), "nonce")


def test_what_a_login_script_prints_is_passed_over():
    answer = "Welcome!\nlabkit-job nonce /spool/key\ngone\n\n"
    assert read(answer.encode(), "nonce") == [(Facts("/spool/key", gone=True), Part())]


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


@pytest.mark.parametrize("key", ["", "A", "a b", "../a", "a/b", "é", "a" * 65, "a\n"])
def test_a_key_is_a_plain_word(ssh, key):
    with pytest.raises(BadInput, match="cannot be a key"):
        ssh.start("true", key=key, seconds=1)


@pytest.mark.parametrize("words", [(), ("-x",), ("echo", "a\0b"), ("a", "\ud800")], ids=ascii)
def test_what_cannot_be_a_command_is_refused(ssh, words):
    with pytest.raises(BadInput, match="cannot be a command"):
        ssh.start(*words, key="a", seconds=1)


@pytest.mark.parametrize("limits", [
    {"seconds": 0}, {"seconds": float("nan")}, {"seconds": 1e10},
    {"seconds": 1, "cap": 100},
])  # fmt: skip
def test_limits_are_refused_before_anything_is_sent(limits):
    with pytest.raises(BadInput):
        JobLimits(**limits)


def test_a_spool_is_a_whole_path(ssh):
    with pytest.raises(BadInput, match="cannot be a spool"):
        ssh.start("true", key="a", seconds=1, spool="jobs")


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
