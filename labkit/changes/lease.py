"""The right to change a host, held by one process at a time, known by name."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labkit.machine import account

BOOT = Path("/proc/sys/kernel/random/boot_id")
GONE, UNSEEN = "0", "?"
"""Instead of when a process began: there is none; there may be one, which we cannot look at."""


@dataclass(frozen=True)
class Owner:
    """A process that changes hosts; `token` is what a host knows its lease by."""

    name: str
    controller: str
    pid: str
    started: str
    boot: str
    study: str
    token: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)

    @classmethod
    def me(cls, study: str) -> Owner:
        """The current process, at work on `study`."""
        pid = str(os.getpid())
        return cls(account.name(), platform.node(), pid, _started(pid), _boot(), study)


@dataclass(frozen=True)
class Lease:
    """A host's record of its owner; `since` is by the host's clock."""

    token: str
    name: str
    controller: str
    pid: str
    started: str
    boot: str
    since: str
    study: str
    host_boot: str

    @classmethod
    def told(cls, fields: Sequence[str]) -> Lease:
        """The lease of an answer; what a torn line lacks is `?`."""
        return cls(*(*fields, *"?????????")[:9])

    @property
    def ended(self) -> bool:
        """Whether its process ran on this very machine and runs no more, as far as can be seen."""
        here = (self.controller, self.boot) == (platform.node(), _boot())
        return here and _started(self.pid) not in (self.started, UNSEEN)

    def __str__(self) -> str:
        where = f"{self.name} on {self.controller} (process {self.pid})"
        return f"{where} since {self.since}, for {self.study}"


# A container may have this machine's name and boot, but its processes have numbers of their own.
def _boot() -> str:
    if not BOOT.exists():
        return "0"
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = UNSEEN
    return f"{BOOT.read_text().strip()} {processes}"


# In ticks since the machine's start, so that a new process of the same number is another one.
def _started(pid: str) -> str:
    try:
        state, *words = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
        return GONE if state in "ZX" else words[18]
    except (OSError, LookupError, ValueError):
        return _unseen(pid)


# /proc can be mounted so that it hides what others run (hidepid); a signal finds them all the same.
def _unseen(pid: str) -> str:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return GONE
    except (PermissionError, ValueError):
        pass
    return UNSEEN
