"""A process of labkit, known beyond its machine: who runs it, where, and whether it still runs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from labkit.machine import account

BOOT = Path("/proc/sys/kernel/random/boot_id")
NO_PROCESS, NOT_SEEN = "0", "?"
"""Instead of when a process began: there is none; there may be one, which we cannot look at."""


@dataclass(frozen=True)
class LabkitProcess:
    """A process by its user, machine, number and beginning."""

    name: str = NOT_SEEN
    controller: str = NOT_SEEN
    pid: str = NOT_SEEN
    started: str = NOT_SEEN
    boot: str = NOT_SEEN

    @classmethod
    def me(cls) -> LabkitProcess:
        """The current one."""
        pid = str(os.getpid())
        return cls(account.name(), platform.node(), pid, _start_of(pid), _boot())

    @classmethod
    def told(cls, words: Sequence[str]) -> LabkitProcess:
        """The process of these words; what is missing is `?`."""
        return cls(*map(unquote, words[:5]))

    @property
    def words(self) -> str:
        """The same as words in one line."""
        return " ".join(quote(word, safe="") for word in astuple(self))

    @property
    def ended(self) -> bool:
        """Whether it ran on this very machine and runs no more, as far as can be seen."""
        same_machine = (self.controller, self.boot) == (platform.node(), _boot())
        return same_machine and _start_of(self.pid) not in (self.started, NOT_SEEN)

    def __str__(self) -> str:
        return f"{self.name} on {self.controller} (process {self.pid})"


# A container may have this machine's name and boot, but its processes have numbers of their own.
def _boot() -> str:
    if not BOOT.exists():
        return "0"
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = NOT_SEEN
    return f"{BOOT.read_text().strip()} {processes}"


# In ticks since the machine's start, so that a new process of the same number is another one.
def _start_of(pid: str) -> str:
    try:
        state, *words = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
        return NO_PROCESS if state in "ZX" else words[18]
    except (OSError, LookupError, ValueError):
        return _probe(pid)


# /proc can be mounted so that it hides what others run (hidepid); a signal finds them all the same.
def _probe(pid: str) -> str:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return NO_PROCESS
    except (PermissionError, ValueError):
        pass
    return NOT_SEEN
