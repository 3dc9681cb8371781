"""Orders done in each whole second, and in all the measured ones together; the sums agree."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

Write = Callable[[str], None]
HasEnded = Callable[[], bool]


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
        self.second: list[tuple[float, bool]] = []
        """How long each order of the current second took, and whether it was undone."""
        self.orders = self.short = self.retries = 0
        self.times: Counter[int] = Counter()
        """Orders of the measured time by how long they took (`bucket`)."""

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
        self.second.append((seconds, short))
        if self.measuring:
            self.orders += 1
            self.short += short
            self.times[bucket(int(seconds * 1e6))] += 1

    # Orders of the second, those that were undone, mean and slowest in us, and retries so far.
    def _line(self, moment: float) -> None:
        kind, at = "" if self.measuring else "warm ", time.time() - (moment - self.edge)
        took, short = [took for took, _ in self.second], sum(short for _, short in self.second)
        mean, slowest = sum(took) / max(1, len(took)), max(took, default=0.0)
        self.write(f"{kind}s {at:.3f} {len(took)} {short} {mean * 1e6:.0f} {slowest * 1e6:.0f} "
                   f"{self.retries}")  # fmt: skip
        self.second = []
        if self.measuring and self.ended():
            self.lasts = self.nth
        self.nth += 1

    def _next_part(self, moment: float) -> None:
        self.second = []
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
