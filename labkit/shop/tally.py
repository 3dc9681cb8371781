"""Orders done in each whole second, and in all the measured ones together; the sums agree."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

Write = Callable[[str], None]
HasEnded = Callable[[], bool]


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

    def line(self, end: float, retries: int) -> str:
        """The second that ended at `end`: orders, short ones, mean and slowest in us, retries."""
        mean = self.spent / self.orders if self.orders else 0.0
        return (f"s {end:.3f} {self.orders} {self.short} {mean * 1e6:.0f} "
                f"{self.slowest * 1e6:.0f} {retries}")  # fmt: skip


class Seconds:
    """A line for each second of the warm-up, then for each one that is measured.

    Seconds are counted from the beginning of each of the two, not from when somebody looked. Part
    of a second at the end of the warm-up has no line; the measured time has whole seconds only. An
    order belongs to the second in which it ended. It is over at the first whole one with `ended`.
    """

    def __init__(
        self, start: float, warm_up: float, seconds: int, write: Write, has_ended: HasEnded
    ) -> None:
        self.begun, self.lasts, self.seconds, self.write = start, warm_up, seconds, write
        self.ended = has_ended
        self.nth = 1
        self.measuring, self.over = False, False
        self.all, self.second = Tally(), Tally()
        self.retries = 0
        self.end = start + warm_up + seconds

    @property
    def edge(self) -> float:
        """End of the current second, or of the warm-up if it ends with a part of a second."""
        return self.begun + min(self.nth, self.lasts)

    def reach(self, moment: float) -> None:
        """Write the lines of all seconds that have ended by now."""
        while not self.over and moment >= self.edge:
            if self.nth <= self.lasts:
                self._line(moment)
            if self.nth > self.lasts and moment >= self.begun + self.lasts:
                self._next_part(moment)

    def add(self, moment: float, seconds: float, short: bool) -> None:
        """Count an order that ended now."""
        self.reach(moment)
        self.second.add(seconds, short)
        if self.measuring:
            self.all.add(seconds, short)
            self.all.times[bucket(int(seconds * 1e6))] += 1

    def _line(self, moment: float) -> None:
        kind = "" if self.measuring else "warm "
        time_of_line = time.time() - (moment - self.edge)
        self.write(kind + self.second.line(time_of_line, self.retries))
        self.second = Tally()
        if self.measuring and self.ended():
            self.lasts = self.nth
        self.nth += 1

    def _next_part(self, moment: float) -> None:
        self.second = Tally()
        if self.measuring:
            self.measuring, self.over = False, True
            return
        self.begun += self.lasts
        self.measuring, self.nth, self.lasts = True, 1, self.seconds
        self.write(f"measuring {time.time() - (moment - self.begun):.3f}")


def bucket(value: int) -> int:
    """Microseconds with 8 significant bits: off by 0.2 % at most, and so by its middle."""
    shift = max(0, value.bit_length() - 9)
    return (value >> shift << shift) + (1 << shift >> 1)
