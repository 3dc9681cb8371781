"""What only SSH has: a wire that breaks, an sshd that is short of sessions, shells of all kinds."""

import os
import resource
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sshd import gone_soon, reached, serving, written
from waiting import awaited
from wire import DOWN, UP, Wire

from labkit.errors import HostError, OutcomeUnknown, TimedOut, Unreachable
from labkit.fleet.fleet import Fleet
from labkit.ssh import sessions

pytestmark = pytest.mark.slow
MIB = 1 << 20


# --- one shell for many commands --------------------------------------------------------------


def test_a_hundred_commands_need_one_shell_and_one_session(ssh):
    parents = {ssh.check("sh", "-c", "echo $PPID") for _ in range(100)}
    assert len(parents) == 1


def test_commands_in_turn_take_one_round_trip_each(server):
    with Wire(server.port, delay=0.05) as wire, reached(server.behind(wire.port)) as host:
        host.check("true")
        before = wire.turns
        for _ in range(5):
            host.check("true")
    assert wire.turns - before in (5, 6)  # a keepalive may come between


@pytest.mark.when_changed("labkit/ssh/", "labkit/transports/")
def test_ten_thousand_commands_of_eight_threads_all_answer_rightly(ssh, server):
    def work(thread):
        for turn in range(1250):
            done = ssh.run("sh", "-c", f"echo {thread}-{turn}; echo e{turn} >&2; exit {turn % 7}")
            assert (done.stdout, done.stderr) == (f"{thread}-{turn}\n", f"e{turn}\n")
            assert done.code == turn % 7 and not done.left_behind

    before = set(server.sessions())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(set(server.sessions()) - before) <= 1


def test_a_gigabyte_of_output_cost_the_controller_no_more_than_the_cap(ssh):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = ssh.run("head", "-c", str(1024 * MIB), "/dev/zero", seconds=120)
    assert done.stdout_size == 1024 * MIB and len(done.stdout_bytes) == 64 * MIB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


# --- shells of all kinds ----------------------------------------------------------------------


@pytest.fixture(params=["dash perl", "bash perl", "busybox", "busybox perl"])
def other(request, server, tmp_path):
    """A host whose `sh` is another shell; without perl, each command has one of its own."""
    shell, *perl = request.param.split()
    program = shutil.which(shell)
    if not program:
        pytest.skip(f"no {shell}")
    folder = tmp_path / "bin"
    folder.mkdir()
    # A shell that is called sh behaves as sh; busybox goes by the name, too.
    (folder / "sh").symlink_to(program)
    for name in ["cat", "echo", "env", "kill", "ls", "printf", "setsid", "sleep", "true", *perl]:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    config = tmp_path / "sshd"
    config.mkdir()
    with (
        serving(config, extra=[f"SetEnv HOME={config} PATH={folder}:{tmp_path}/later"]) as found,
        reached(found.address()) as host,
    ):
        yield host


def test_every_shell_keeps_the_promises(other):
    assert Path(other.check("sh", "-c", "echo $PPID").strip()) and other.run("true").ok
    done = other.run("sh", "-c", "printf 'o\\000\\377'; printf e >&2; exit 3")
    assert (done.code, done.stdout_bytes, done.stderr_bytes) == (3, b"o\0\xff", b"e")
    assert other.run("sh", "-c", "kill -9 $$").signal == "KILL"
    word = os.fsdecode(bytes(range(1, 256)))
    for stdin in (b"", b"given"):
        assert other.run("printf", "%s", word, stdin=stdin).stdout_bytes == os.fsencode(word)
    assert other.run("cat", stdin=bytes(range(256)) * 99).stdout_bytes == bytes(range(256)) * 99
    assert other.run("no-such-program").code == 127
    assert other.run("-c", "true").code in (125, 126, 127)
    assert other.check("sh", "-c", "echo $A", env={"A": "x y"}) == "x y\n"
    done = other.run("sh", "-c", "setsid sh -c 'sleep 1; echo LATE' & exit 0")
    assert done.left_behind and other.run("echo", "next").stdout == "next\n"
    with pytest.raises(TimedOut):
        other.run("sleep", "60", seconds=0.3)
    with pytest.raises(OutcomeUnknown):
        other.run("sh", "-c", "kill -9 $PPID; sleep 1")


def test_a_name_is_a_program_of_the_path_as_it_is_now_and_no_word_of_the_shell(other, tmp_path):
    for name in ("cd", "exit", "eval", "hash", "labkit_a"):
        assert {other.run(name, "3").code for _ in range(3)} == {127}, name
    first, later = tmp_path / "bin/tool", tmp_path / "later/tool"
    later.parent.mkdir()
    for path in (later, first, None):
        if path:
            path.write_text("#!/bin/sh\necho $0\n")
            path.chmod(0o755)
            assert {other.check("tool") for _ in range(3)} == {f"{path}\n"}
        else:
            first.unlink()
            assert other.check("tool") == f"{later}\n"
            later.unlink()
            assert {other.run("tool").code for _ in range(3)} == {127}


def test_without_perl_and_python_each_command_has_a_shell_of_its_own(server, tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, "SESSIONS", 1)
    (tmp_path / "bin").mkdir()
    for name in ("sh", "echo", "touch"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    (tmp_path / "sshd").mkdir()
    path = f"SetEnv HOME={tmp_path} PATH={tmp_path / 'bin'}"
    with serving(tmp_path / "sshd", extra=[path]) as found, reached(found.address()) as host:
        assert len({host.check("sh", "-c", "echo $PPID") for _ in range(3)}) == 3


def test_what_a_login_says_first_belongs_to_no_command(server, tmp_path):
    forced = 'ForceCommand echo hello; echo oops >&2; eval "$SSH_ORIGINAL_COMMAND"'
    with serving(tmp_path, extra=[forced]) as found, reached(found.address()) as host:
        for _ in range(2):
            result = host.run("sh", "-c", "echo out; echo err >&2", stdin=b"x")
            assert (result.stdout, result.stderr) == ("out\n", "err\n")
            result = host.run("sh", "-c", "echo out; echo err >&2")
            assert (result.stdout, result.stderr) == ("out\n", "err\n")
        for size in (5, 3 << 20):
            content = os.urandom(size)
            host.put(content, f"{tmp_path}/{size}")
            assert host.get(f"{tmp_path}/{size}") == content
        job = host.start("echo", "out", key="noisy", seconds=20, spool=f"{tmp_path}/jobs")
        assert job.wait(20).code == 0 and job.output() == b"out\n"
        started = Fleet.of([host])
        assert abs(started.clocks().check()["box1"].offset) < 60
        with started.together({"box1": ["echo", "out"]}) as line:
            assert line.go(seconds=20).check()["box1"].stdout == b"out\n"


def test_an_account_without_a_shell_is_named_and_nothing_was_run(server, tmp_path):
    forced = "ForceCommand echo This account is not available.; exit 1"
    with serving(tmp_path, extra=[forced]) as found, reached(found.address()) as host:
        with pytest.raises(HostError, match="so it was not run") as error:
            host.run("true")
        assert "This account is not available." in str(error.value)
        assert "ForceCommand" in error.value.hint
        assert not isinstance(error.value, OutcomeUnknown)


# --- a host that is short of sessions ---------------------------------------------------------


def test_with_one_session_a_connection_a_stream_and_commands_both_go_on(server, tmp_path):
    with serving(tmp_path, extra=["MaxSessions 1"]) as found, reached(found.address()) as host:
        host.check("true")
        script = "while :; do echo tick; sleep 0.05; done"
        with host.stream("sh", "-c", script) as running:
            ticks = iter(running)
            for n in range(5):
                assert next(ticks).text == "tick"
                assert host.check("echo", str(n)) == f"{n}\n"
        with pytest.raises(TimedOut) as late:
            host.run("sleep", "60", seconds=0.3)
        assert "was stopped" in late.value.hint
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda n: host.check("echo", str(n)), range(24))) == [
                f"{n}\n" for n in range(24)
            ]


# --- a wire that breaks -----------------------------------------------------------------------


def cut_once(server, tmp_path, way, size, reset=False):
    """One command whose wire is cut after `size` bytes; how often it ran, and what was said."""
    counter = tmp_path / f"count-{way}-{size}-{reset}"
    with Wire(server.port) as wire, reached(server.behind(wire.port)) as host:
        host.check("true")
        before = list(wire.passed)
        wire.cut_after(way, size, reset)
        try:
            said = host.run("sh", "-c", f"echo ran >>{counter}; echo out; exit 3", seconds=20)
            assert (said.code, said.stdout, said.stderr) == (3, "out\n", "")
        except Unreachable as error:
            said = error
        used = wire.passed[way] - before[way]
        if not isinstance(said, Unreachable):
            wire.left = [None, None]
        time.sleep(0.1)
        assert host.check("echo", "again") == "again\n"
    ran = counter.read_text().count("ran") if counter.exists() else 0
    assert ran <= 1
    if not isinstance(said, Unreachable):
        assert ran == 1
    else:
        assert isinstance(said, OutcomeUnknown) and "connection was lost" in str(said)
        assert "box1" in str(said) and "look on the host" in said.hint
    return ran, isinstance(said, Unreachable), used


def every(server, tmp_path, step):
    outcomes = set()
    for way in (UP, DOWN):
        *_, whole = cut_once(server, tmp_path, way, 1 << 20)
        assert 50 < whole < 2000
        for size in [*range(0, whole, step), whole]:
            outcomes.add(cut_once(server, tmp_path, way, size, reset=size % 2 == 1)[:2])
    return outcomes


def test_a_cut_at_some_bytes_of_a_command_leaves_it_run_once_or_not_at_all(server, tmp_path):
    assert every(server, tmp_path, 23) == {(0, True), (1, True), (1, False)}


@pytest.mark.torture
def test_a_cut_at_every_byte_of_a_command_leaves_it_run_once_or_not_at_all(server, tmp_path):
    assert every(server, tmp_path, 1) == {(0, True), (1, True), (1, False)}


def test_a_silent_wire_costs_no_more_than_the_deadline_and_the_error_says_what_is_unknown(server):
    with Wire(server.port) as wire, reached(server.behind(wire.port)) as host:
        host.check("true")
        start = time.monotonic()
        with wire.silent(), pytest.raises(TimedOut, match="had not ended after") as late:
            host.run("true", seconds=0.5)
        assert time.monotonic() - start < 8
        assert "may still run" in late.value.hint
        assert host.check("echo", "again") == "again\n"


def test_an_idle_shell_that_the_wire_lost_is_asked_first_and_replaced(server, monkeypatch):
    with Wire(server.port) as wire, reached(server.behind(wire.port)) as host:
        host.check("true")
        wire.part_all()
        time.sleep(0.2)
        assert host.check("echo", "new") == "new\n"
        monkeypatch.setattr("labkit.transports.ssh.IDLE_SECONDS", 0)
        assert host.check("echo", "asked first") == "asked first\n"


def test_many_who_wait_for_one_login_that_fails_share_its_error(server, monkeypatch):
    tried, real = [], sessions.connect

    def counted(at, seconds):
        tried.append(at)
        time.sleep(0.5)
        return real(at, seconds)

    monkeypatch.setattr(sessions, "connect", counted)
    with reached(server.address(port=1)) as host, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(host.run, "true") for _ in range(8)]
        failed = [one.exception() for one in asked]
    assert all(isinstance(one, Unreachable) and one.hint for one in failed)
    assert len(tried) < 8


def test_ctrl_c_ends_the_command_and_the_host_goes_on(interruptible, ssh, tmp_path):
    pid = tmp_path / "pid"

    def interrupt():
        written(pid)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        ssh.run("sh", "-c", f"echo $$ >{pid}; exec sleep 60")
    gone_soon(int(pid.read_text()))
    assert ssh.check("echo", "on") == "on\n"


def test_closing_while_a_command_runs_leaves_its_end_unknown(ssh):
    threading.Timer(0.3, ssh.close).start()
    with pytest.raises(OutcomeUnknown):
        ssh.run("sleep", "5")
    assert ssh.check("echo", "on") == "on\n"


def test_no_session_and_no_shell_is_left_behind(server):
    before = set(server.sessions())
    with reached(server.address()) as host:
        host.check("true")
        with host.stream("yes") as running:
            next(iter(running))
        with pytest.raises(TimedOut):
            host.run("sleep", "60", seconds=0.2)
    awaited(lambda: not set(server.sessions()) - before)
