"""The points that wait, in their order and by what they need: few are looked at, however many."""

import heapq
import os
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from labkit.campaign.places import AT_MOST, Needs
from labkit.campaign.points import CampaignPoint


@dataclass
class Waiting:
    """A point that is to be begun, and not before some time."""

    point: CampaignPoint
    needs: Needs
    after: float = 0.0
    seconds: float = 0.0
    """Seconds that it will take."""
    place: int = 0
    """Its place among all that wait."""


@dataclass
class Queue:
    """Points that wait; of those that need the same hosts, only the first may begin."""

    _by: dict[Needs, deque[Waiting]] = field(default_factory=lambda: defaultdict(deque))
    _seconds: dict[Needs, float] = field(default_factory=lambda: defaultdict(float))
    _first: int = 0
    _last: int = 0
    _many: int = 0

    def add(self, waiting: Waiting) -> None:
        """Have it wait behind all others."""
        self._last += 1
        waiting.place = self._last
        self._by[waiting.needs].append(waiting)
        self._count(waiting, 1)

    def put_first(self, waiting: Waiting) -> None:
        """Have it wait before all others."""
        self._first -= 1
        waiting.place = self._first
        self._by[waiting.needs].appendleft(waiting)
        self._count(waiting, 1)

    def take(self, waiting: Waiting) -> None:
        """It waits no more."""
        self._by[waiting.needs].remove(waiting)
        self._count(waiting, -1)

    def _count(self, waiting: Waiting, number: int) -> None:
        self._many += number
        self._seconds[waiting.needs] += number * waiting.seconds

    def clear(self) -> None:
        """None waits any more."""
        self._by.clear()
        self._seconds.clear()
        self._many = 0

    def __len__(self) -> int:
        return self._many

    def heads(self, limit: int) -> Iterator[Waiting]:
        """The points that may be next, in their order."""
        queues = (
            islice(queue, 1 if needs.hosts else limit) for needs, queue in self._by.items() if queue
        )
        return heapq.merge(*queues, key=lambda waiting_point: waiting_point.place)

    def left(self) -> list[tuple[Needs, float]]:
        """The seconds of all that wait, by what they need."""
        return [*self._seconds.items()]


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
        if self.alone or needs.alone or self.full:
            return False
        if needs.stored and self.stored >= self.stored_at_most:
            return False
        return not self.hosts & needs.hosts

    @property
    def full(self) -> bool:
        """Whether there are as many at work as there may be."""
        return self.many >= self.at_most


def to_begin(
    waiting: Iterator[Waiting] | Sequence[Waiting], working: Sequence[Needs], moment: float,
    room: Taken | None = None,
) -> list[Waiting]:  # fmt: skip
    """Choose what may be begun now, in order: none overtakes another that waits for its lab."""
    room, choice, claims = room or Taken(), [], set[str]()
    for needs in working:
        room.take(needs)
    for head in waiting:
        if room.full:
            break
        due = moment >= head.after
        if due and room.leaves(head.needs) and not claims & head.needs.hosts:
            room.take(head.needs)
            choice.append(head)
        elif due and head.needs.alone:
            break
        claims |= head.needs.hosts
    return choice
