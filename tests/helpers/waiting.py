"""Waits that end as soon as what they are for is so, processes that end, and free ports."""

import socket
import subprocess
import time
from contextlib import contextmanager


def awaited(truth, seconds=60.0, why="it did not come about in time", pause=0.02):
    """What `truth` gives once that is something; after so many seconds the test fails.

    `why` is what it then says, or gives what it says.
    """
    end = time.monotonic() + seconds
    while not (found := truth()):
        if time.monotonic() >= end:
            raise AssertionError(why() if callable(why) else why)
        time.sleep(pause)
    return found


def free_port():
    """A port of this machine that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def alive(words, **how):
    """A process of these words, which is killed at the end of the block."""
    with subprocess.Popen(words, **how) as process:
        try:
            yield process
        finally:
            process.kill()
