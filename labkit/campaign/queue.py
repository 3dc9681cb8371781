"""The points that wait, in their order and by what they need: few are looked at, however many."""

import heapq
import os
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
