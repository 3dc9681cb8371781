"""The points that may run side by side, by what a lab needs for itself and who holds it."""

from __future__ import annotations

import fcntl
import hashlib
import heapq
import ipaddress
import os
import time
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from labkit.campaign.asked import CampaignPoint
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
def held(folder: Path, needs: Needs, waiting: Callable[[str], None]) -> Iterator[tuple[int, ...]]:
    """Hold the folder of a point and all that it needs, once nobody else does.

    The locks are given as descriptors. A kernel that inherits them keeps them until its own end,
    also where the process that has started it was killed: so a point is at work as long as its
    folder is locked, whatever machine shares that.
    """
    hosts = account.state() / "held"
    files = {folder / "held": "process {} of an earlier run"}
    for host in sorted(needs.hosts):  # in one order, so that no two wait for each other
        name = hashlib.sha256(host.encode()).hexdigest()[:16]
        files[hosts / name] = f"{host}, which another campaign uses"
    with ExitStack() as locks:
        numbers = []
        for file, holder in files.items():
            numbers.append(_take(file, holder, waiting))
            locks.callback(os.close, numbers[-1])
        yield tuple(numbers)


def _take(file: Path, holder: str, waiting: Callable[[str], None]) -> int:
    is_announced = False
    while True:
        with suppress(BlockingIOError):
            return _lock(file)
        if not is_announced:
            waiting(f"{WAITS} for {holder.format(_holder(file))}")
        is_announced = True
        time.sleep(LOOK_SECONDS)


@contextmanager
def holding(file: Path, title: str) -> Iterator[None]:
    """Hold a lock, so that no other process does the same; it says which one does."""
    try:
        number = _lock(file)
    except BlockingIOError:
        problem = f"{title} is at work already, in process {_holder(file)}"
        raise Busy(problem, hint="wait") from None
    try:
        yield
    finally:
        os.close(number)


def _holder(file: Path) -> str:
    return file.read_text("ascii", "replace").strip() or "?"


# The kernel takes it from a process which ends, however it ends.
def _lock(file: Path) -> int:
    file.parent.mkdir(parents=True, exist_ok=True)
    number = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(number, 0)
        os.pwrite(number, str(os.getpid()).encode(), 0)
    except BaseException:
        os.close(number)
        raise
    return number


@dataclass
class Waiting:
    """A point that is to be begun, and not before some time."""

    point: CampaignPoint
    needs: Needs
    after: float = 0.0
    seconds: float = 0.0
    """Seconds that it will take."""


@dataclass
class Queue:
    """Points that wait; of those that need the same hosts, only the first may begin."""

    _by: dict[Needs, list[Waiting]] = field(default_factory=lambda: defaultdict(list))

    def add(self, waiting: Waiting) -> None:
        """Have it wait at its place in the order."""
        insort(self._by[waiting.needs], waiting, key=_number)

    def take(self, waiting: Waiting) -> None:
        """It waits no more."""
        self._by[waiting.needs].remove(waiting)

    def clear(self) -> None:
        """None waits any more."""
        self._by.clear()

    def __len__(self) -> int:
        return sum(map(len, self._by.values()))

    def heads(self, limit: int) -> Iterator[Waiting]:
        """The points that may be next, in their order."""
        queues = (islice(queue, 1 if needs.hosts else limit) for needs, queue in self._by.items())
        return heapq.merge(*queues, key=_number)

    def left(self) -> list[tuple[Needs, float]]:
        """The seconds of all that wait, by what they need."""
        return [(needs, sum(w.seconds for w in queue)) for needs, queue in self._by.items()]


def _number(waiting: Waiting) -> int:
    return waiting.point.number


@dataclass
class Taken:
    """The resources that points at work have for themselves."""

    at_most: int = AT_MOST
    stored_at_most: int = field(default_factory=lambda: os.cpu_count() or 1)
    hosts: set[str] = field(default_factory=set)
    many: int = 0
    stored: int = 0
    alone: bool = False

    def take(self, needs: Needs) -> None:
        """One more is at work."""
        self.hosts |= needs.hosts
        self.many += 1
        self.stored += needs.stored
        self.alone = self.alone or needs.alone

    def leaves(self, needs: Needs) -> bool:
        """Whether another one may begin beside them."""
        if not self.many:
            return True
        if self.alone or needs.alone or self.many >= self.at_most:
            return False
        if needs.stored and self.stored >= self.stored_at_most:
            return False
        return not self.hosts & needs.hosts


def to_begin(
    waiting: Iterable[Waiting], working: Sequence[Needs], moment: float, room: Taken | None = None
) -> list[Waiting]:
    """Choose what may be begun now, in order: none overtakes another that waits for its lab."""
    room, choice, claims = room or Taken(), [], set[str]()
    for needs in working:
        room.take(needs)
    for head in waiting:
        if room.many >= room.at_most:
            break
        due = moment >= head.after
        if due and room.leaves(head.needs) and not claims & head.needs.hosts:
            room.take(head.needs)
            choice.append(head)
        elif due and head.needs.alone:
            break
        claims |= head.needs.hosts
    return choice
