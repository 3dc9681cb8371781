"""Commands of this machine that make a box and look at it, and the sure end of a process."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress

from labkit.box.needs import SEARCH_PATH
from labkit.errors import BoxError

PROGRAMS = ("nsenter",)

ENVIRONMENT = {"PATH": SEARCH_PATH, "LC_ALL": "C"}


def run(words: Sequence[str], text: str = "", within: Sequence[str] = ()) -> str:
    """Run a command `within` what starts it, to its end; it must succeed."""
    result = subprocess.run(
        [*within, *words], input=text, capture_output=True, text=True, env=ENVIRONMENT
    )
    if result.returncode:
        problem = f"`{' '.join(words)}` ended with code {result.returncode}"
        raise BoxError(problem, said=result.stderr)
    return result.stdout


def network_of(pid: int) -> list[str]:
    """The words that start a command in the network of a process."""
    return ["nsenter", "-t", str(pid), "-n"]


# The descriptor stands for one process for good; the number alone may be another's by now.
def kill(pid: int, is_meant: Callable[[], bool]) -> None:
    """End the process of this number, if it is still the one that is meant."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            if is_meant():
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
