"""Many at once on one host, and connections that break: nothing is run twice, nothing hangs."""

import multiprocessing
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from sshd import reached, serving, tell
from stubs import Stub, stub
from waiting import awaited
from wire import UP, Wire

from labkit.errors import HostError, OutcomeUnknown, TimedOut, Unreachable
from labkit.files.pipe import Gone
from labkit.ssh import client, sessions, way

pytestmark = pytest.mark.slow
MIB = 1 << 20


def test_a_session_that_never_has_room_for_input_is_given_up(server, monkeypatch):
    with reached(server.address()) as host:
        host.round_trip()
        monkeypatch.setattr(sessions, "CONNECT_SECONDS", 0.5)
        with closing(host.transport._all.open(10)) as session:
            stopped = server.processes()
            tell(stopped, signal.SIGSTOP)
            try:
                session.start("exec sh")
                with pytest.raises(Gone):
                    session.send(b"echo no\n")
            finally:
                tell(stopped, signal.SIGCONT)
        assert host.check("echo", "yes") == "yes\n"


def test_output_that_a_lost_connection_cut_off_is_never_taken_for_all_of_it(server):
    with reached(server.address()) as host:
        before = set(server.processes())
        with host.raw("sh", "-c", "echo first; sleep 60 & exit 0") as pipe:
            assert pipe.recv() == b"first\n"
            # What was received may have brought it along.
            awaited(lambda: pipe._errors or pipe.channel.channel.recv_stderr_ready())
            tell(set(server.processes()) - before, signal.SIGKILL)
            with pytest.raises(OutcomeUnknown, match="connection was lost"):
                pipe.ended()


def test_a_command_waits_for_its_turn_within_its_own_seconds(server, monkeypatch, tmp_path):
    monkeypatch.setattr(sessions, "SESSIONS", 1)
    mark = str(tmp_path / "begun")
    with reached(server.address()) as host:
        with host.stream("sleep", "60"):
            for asked in (
                lambda: host.run("touch", mark, seconds=0.2),
                lambda: host.run("touch", mark, stdin=b"x", seconds=0.2),
                lambda: host.stream("touch", mark, seconds=0.2).__enter__(),
                lambda: host.raw("touch", mark, seconds=0.2).__enter__(),
            ):
                with pytest.raises(TimedOut, match=r"was not started within 0\.2 s"):
                    asked()
        assert not (tmp_path / "begun").exists()
        assert host.check("echo", "room") == "room\n"
        with ThreadPoolExecutor(1) as pool:
            with host.transport._all.turn(1):
                start = time.monotonic()
                waits = pool.submit(host.run, "sleep", "60", seconds=2.5)
                time.sleep(1.5)
            with pytest.raises(TimedOut, match=r"had not ended after 2\.5 s"):
                waits.result()
        assert time.monotonic() - start < 4, "the wait was counted"


def _echoes(host, who, count):
    return [host.check("echo", f"{who} {turn}") for turn in range(count)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_fork_connects_for_itself_and_gets_no_answer_of_its_parents(ssh, server):
    assert _echoes(ssh, "before", 1) == ["before 0\n"]
    ours, fork = set(server.sessions()), multiprocessing.get_context("fork")
    reads, writes = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: writes.send((_echoes(ssh, "child", 20), ssh.close())))
    child.start()
    assert _echoes(ssh, "parent", 50) == [f"parent {turn}\n" for turn in range(50)]
    assert reads.poll(60) and reads.recv()[0] == [f"child {turn}\n" for turn in range(20)]
    child.join(30)
    assert _echoes(ssh, "after", 1) == ["after 0\n"] and ours <= set(server.sessions())


def test_to_a_host_that_rests_nothing_is_sent_until_the_next_command(server, monkeypatch):
    monkeypatch.setattr(client, "ALIVE_SECONDS", 0.2)
    monkeypatch.setattr(sessions, "ALIVE_SECONDS", 0.2)
    monkeypatch.setattr(way, "QUIET_SECONDS", 0.05)
    with Wire(server.port) as wire, reached(server.behind(wire.port)) as host:
        host.check("true")
        came_through(wire)
        host.rest()
        time.sleep(0.1)
        before = list(wire.passed)
        time.sleep(1)
        assert wire.passed == before
        host.check("true")
        came_through(wire)
        assert len(wire.ends) == 2, "it is the same connection"


def test_what_came_before_the_connection_was_lost_is_read_to_its_last_byte(ssh):
    opened = ssh.transport._all.open(5.0)
    buffer = opened.channel.in_buffer
    opened.start(f"exec 2>&-; head -c {MIB} /dev/zero; sleep 60")
    awaited(lambda: len(buffer) >= MIB)
    opened.connection.client.sock.shutdown(socket.SHUT_WR)  # what it says next is refused
    assert sum(len(opened.recv(0.0)[0]) for _ in range(3)) == MIB


def came_through(wire):
    """Wait for bytes that nobody asked for."""
    before = wire.passed[UP]
    awaited(lambda: wire.passed[UP] != before, 10)


@contextmanager
def hung(pids):
    tell(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        tell(pids, signal.SIGCONT)


def test_how_long_a_connection_took_to_be_lost_is_no_round_trip(server):
    with Wire(server.port) as wire, reached(server.behind(wire.port)) as host:
        host.transport._all.usable()
        with ThreadPoolExecutor(1) as pool:
            with wire.silent():
                asked = pool.submit(host.round_trip)
                time.sleep(1)
                wire.part_all()
            assert asked.result() < 0.5


def test_a_connection_that_hangs_is_replaced_as_nothing_ran_on_it(server, monkeypatch):
    monkeypatch.setattr("labkit.transports.ssh.IDLE_SECONDS", 0)
    before = set(server.processes())
    with reached(server.address()) as host:
        host.check("true")
        with hung(set(server.processes()) - before):
            start = time.monotonic()
            assert host.check("echo", "new", seconds=60) == "new\n"
            assert time.monotonic() - start < 30


def test_a_host_that_opens_no_session_is_named_and_so_is_the_step(tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", 0.5)
    with serving(tmp_path, extra=["MaxSessions 0"]) as found, reached(found.address()) as host:
        for asked in (host.run, lambda *words: host.run(*words, stdin=b"x")):
            with pytest.raises(Unreachable, match="box1: the host is there but opens no session"):
                asked("true")


def test_a_host_that_starts_no_shell_has_run_nothing_and_its_connection_is_not_lost(
    own, tmp_path, monkeypatch, state
):
    # As sshd does where it cannot fork any more.
    monkeypatch.setattr(Stub, "check_channel_exec_request", lambda *_: False)
    with stub(tmp_path) as (port, served):
        at = own.address(port=port, known_hosts=(str(tmp_path / "stubknown"),))
        with reached(at) as host:
            for _ in range(2):
                with pytest.raises(HostError, match="so it was not run") as error:
                    host.run("true")
                assert not isinstance(error.value, OutcomeUnknown)
            assert len(served) == 1 and served[0].is_active()
