"""An sshd whose connections are cut, frozen or broken off at chosen moments."""

import contextlib
import random
import socket
import threading
import time

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
