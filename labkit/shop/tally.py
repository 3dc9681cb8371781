"""Orders done in each whole second, and in all the measured ones together; the sums agree."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

Write = Callable[[str], None]
Ended = Callable[[], bool]


def never() -> bool:
    """For what lasts as long as was asked."""
    return False


@dataclass
class Tally:
    """The orders done in a second, or in all of the measured time."""

    orders: int = 0
    short: int = 0
    slowest: float = 0.0
    spent: float = 0.0
    times: Counter[int] = field(default_factory=Counter)

    def add(self, seconds: float, short: bool) -> None:
        """Count one order, and how long it took."""
        self.orders += 1
        self.short += short
        self.spent += seconds
        self.slowest = max(self.slowest, seconds)

    def line(self, when: float, retries: int) -> str:
        """The second that ended at `when`: orders, short ones, mean and slowest in us, retries."""
        mean = self.spent / self.orders if self.orders else 0.0
        return (f"s {when:.3f} {self.orders} {self.short} {mean * 1e6:.0f} "
                f"{self.slowest * 1e6:.0f} {retries}")  # fmt: skip


class Seconds:
    """A line for each second of the warm-up, then for each one that is measured.

    Seconds are counted from the beginning of each of the two, not from when somebody looked. Part
    of a second at the end of the warm-up has no line; the measured time has whole seconds only. An
    order belongs to the second in which it ended. It is over at the first whole one with `ended`.
    """

    def __init__(
        self, begun: float, warm_up: float, seconds: int, write: Write, ended: Ended = never
    ) -> None:
        self.begun, self.lasts, self.seconds, self.write = begun, warm_up, seconds, write
        self.ended = ended
        self.nth = 1
        self.measuring, self.over = False, False
        self.all, self.second = Tally(), Tally()
        self.retries = 0
        self.end = begun + warm_up + seconds

    @property
    def edge(self) -> float:
        """End of the current second, or of the warm-up if it ends with a part of a second."""
        return self.begun + min(self.nth, self.lasts)

    def reach(self, now: float) -> None:
        """Write the lines of all seconds that have ended by now."""
        while not self.over and now >= self.edge:
            if self.nth <= self.lasts:
                self._line(now)
            if self.nth > self.lasts and now >= self.begun + self.lasts:
                self._next_part(now)

    def add(self, now: float, seconds: float, short: bool) -> None:
        """Count an order that ended now."""
        self.reach(now)
        self.second.add(seconds, short)
        if self.measuring:
            self.all.add(seconds, short)
            self.all.times[bucket(int(seconds * 1e6))] += 1

    def _line(self, now: float) -> None:
        kind = "" if self.measuring else "warm "
        when = time.time() - (now - self.edge)
        self.write(kind + self.second.line(when, self.retries))
        self.second = Tally()
        if self.measuring and self.ended():
            self.lasts = self.nth
        self.nth += 1

    def _next_part(self, now: float) -> None:
        self.second = Tally()
        if self.measuring:
            self.measuring, self.over = False, True
            return
        self.begun += self.lasts
        self.measuring, self.nth, self.lasts = True, 1, self.seconds
        self.write(f"measuring {time.time() - (now - self.begun):.3f}")


def bucket(value: int) -> int:
    """Microseconds with 8 significant bits: off by 0.2 % at most, and so by its middle."""
    shift = max(0, value.bit_length() - 9)
    return (value >> shift << shift) + (1 << shift >> 1)
