"""A job is followed while its connection is cut at random moments: no gap, no duplicate, once."""

import contextlib
import random
import signal
import socket
import threading
import time

import pytest
from sshd import reached, tell
from wire import DOWN, UP, Wire

HOW = ("reset", "close", "freeze", "half", "session")


@contextlib.contextmanager
def relayed(server):
    """The address of an sshd through a wire, and the wire."""
    with Wire(server.port) as wire:
        yield server.behind(wire.port), wire


def cut(wire, how, pick):
    if how == "freeze":  # nothing passes, and nobody is told
        with wire.silent():
            time.sleep(1)
    if how == "half":  # one way only
        for far in wire.ends[1::2]:
            with contextlib.suppress(OSError):
                far.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
    wire.reset = how in ("reset", "freeze")
    if how in ("reset", "close") and (size := pick.choice([0, pick.randrange(1, 3000)])):
        wire.cut_after(pick.choice([UP, DOWN]), size, wire.reset)  # inside of a packet
    else:
        wire.part_all()


@contextlib.contextmanager
def cutting(wire, sessions, moments, seed):
    """Cut at these moments (seconds from now), each time another way; yields what was done."""
    pick, done, stop = random.Random(seed), [], threading.Event()

    def cut_all():
        start = time.monotonic()
        for moment in moments:
            if stop.wait(max(0.0, start + moment - time.monotonic())):
                return
            how = pick.choice(HOW)
            if how == "session":
                sessions()
            else:
                cut(wire, how, pick)
            done.append(how)

    cutter = threading.Thread(target=cut_all)
    cutter.start()
    try:
        yield done
    finally:
        stop.set()
        cutter.join()


pytestmark = pytest.mark.slow

SEED = 20261121


def numbered(seconds, log):
    loop = "while [ $i -lt $1 ]; do echo line $i; i=$((i + 1)); sleep 0.05; done"
    return ("sh", "-c", f'echo ran >>"$0"; i=0; {loop}', str(log), str(seconds * 20))


def followed(server, tmp_path, seconds, cuts, seed):
    """Start and follow a job under cuts; what was told, the cuts, and how many connections."""
    key, log, told = f"cut-{seed}", tmp_path / f"log-{seed}", []
    pick = random.Random(seed)
    moments = sorted(pick.uniform(0.0, seconds) for _ in range(cuts))
    with relayed(server) as (address, relay), reached(address) as host:

        def kill_sessions():
            tell(server.processes(), signal.SIGKILL)

        with cutting(relay, kill_sessions, moments, seed) as done:
            job = host.start(
                *numbered(seconds, log), key=key, seconds=600,
                spool=str(tmp_path / "spool"), tell=told.append,
            )  # fmt: skip
            text = b"".join(job.follow(tell=told.append))
        assert job.wait(30).ok
    assert text == b"".join(b"line %d\n" % n for n in range(seconds * 20))
    assert log.read_text() == "ran\n"
    return told, done, relay.connections


def test_no_gap_and_no_duplicate_whatever_becomes_of_the_connection(server, tmp_path):
    told, done, connections = followed(server, tmp_path, seconds=6, cuts=6, seed=SEED)
    assert len(done) == 6 and connections > 3
    assert any("reconnecting (1)" in line for line in told)


@pytest.mark.torture
def test_a_hundred_cuts_in_jobs_of_a_minute(server, tmp_path, capsys):
    begun, told, done, connections = time.monotonic(), [], [], 0
    for turn in range(4):
        more = followed(server, tmp_path, seconds=60, cuts=25, seed=SEED + turn)
        told, done, connections = told + more[0], done + more[1], connections + more[2]
    assert len(done) == 100 and set(done) == set(HOW) and connections > 50
    with capsys.disabled():
        ways = ", ".join(f"{done.count(how)} {how}" for how in HOW)
        print(f"\n{len(done)} cuts ({ways}); {connections} connections, {len(told)} commands "
              f"asked again, {time.monotonic() - begun:.0f} s")  # fmt: skip
