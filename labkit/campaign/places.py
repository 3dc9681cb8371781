"""The points that may run side by side, by what a lab needs for itself and who holds it."""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import Busy
from labkit.lab import Lab
from labkit.machine import account
from labkit.running.open_lab import file_of, is_stored

MACHINE = "this machine"
WAITS = "waits"
"""The first word that a point says while somebody else has its lab."""
LOOK_SECONDS = 0.2
USUAL_PORT = 22
AT_MOST = 8
"""The most points that run side by side; each has a kernel, which needs some 300 MB."""


@dataclass(frozen=True)
class Needs:
    """The needs of a running point: hosts for itself, or all of this machine `alone`."""

    hosts: frozenset[str] = frozenset()
    alone: bool = False
    stored: bool = False

    @classmethod
    def of(cls, lab: str) -> Needs:
        """The needs of a place; a box has its hosts on this machine, whose CPUs it measures."""
        if is_stored(lab):
            return cls(stored=True)
        if lab == "box":
            return cls(frozenset({MACHINE}), alone=True)
        read = Lab.read(file_of(lab))
        hosts = frozenset(_address(host) for host in read.hosts.values())
        if read.emulated or MACHINE in hosts:
            return cls(hosts | {MACHINE}, alone=True)
        return cls(hosts)


# What two lab files may call by two names is one host.
def _address(host: object) -> str:
    at = getattr(getattr(host, "transport", None), "at", None)
    if at is None or at.control.casefold() == "localhost":
        return MACHINE
    with suppress(ValueError):  # a name is no address
        if ipaddress.ip_address(at.control).is_loopback:
            return MACHINE
    return f"{at.control.casefold()} {at.port or USUAL_PORT}"


@contextmanager
def held(needs: Needs, waiting: Callable[[str], None]) -> Iterator[tuple[int, ...]]:
    """Hold all that a point needs, once nobody else of this account does.

    The locks are given as descriptors. A kernel that inherits them keeps them until its own end,
    also where the process that has started it was killed.
    """
    with ExitStack() as locks:
        numbers = []
        for host in sorted(needs.hosts):  # in one order, so that no two wait for each other
            numbers.append(_take(host, waiting))
            locks.callback(os.close, numbers[-1])
        yield tuple(numbers)


def _take(host: str, waiting: Callable[[str], None]) -> int:
    file = account.state() / "held" / hashlib.sha256(host.encode()).hexdigest()[:16]
    is_announced = False
    while True:
        with suppress(BlockingIOError):
            return _lock(file)
        if not is_announced:
            waiting(f"{WAITS} for {host}, which another campaign uses")
        is_announced = True
        time.sleep(LOOK_SECONDS)


@contextmanager
def holding(file: Path, title: str) -> Iterator[None]:
    """Hold a lock, so that no other process does the same; it says which one does."""
    try:
        number = _lock(file)
    except BlockingIOError:
        by = file.read_text("ascii", "replace").strip() or "another process"
        raise Busy(f"{title} is at work already, in process {by}", hint="wait") from None
    try:
        os.ftruncate(number, 0)
        os.pwrite(number, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(number)


# The kernel takes it from a process which ends, however it ends.
def _lock(file: Path) -> int:
    file.parent.mkdir(parents=True, exist_ok=True)
    number = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(number)
        raise
    return number
