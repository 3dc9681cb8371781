"""Changes in a series: E-divisive means (Matteson and James, JASA 109, 2014), one dimension.

The place that splits a stretch into the most unlike two (by the energy distance) may be a change
point. It is one if few shuffles of the stretch have a place as unlike. Each part is then looked at
by itself. Shuffles come from a fixed seed, so the same series gives the same change points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labkit.errors import BadInput
from labkit.statistics.distribution import Values

SHUFFLES = 499
FEWEST = 2
"""The fewest figures on either side of a change point."""
MOST = 2000


@dataclass(frozen=True)
class ChangePoint:
    """The first figure of what follows, the medians before and after, and how unlikely by chance.

    Before and after are the stretches to the next change points.
    """

    at: int
    before: float
    after: float
    p: float

    @property
    def ratio(self) -> float:
        """The median after the change over the one before."""
        return self.after / self.before if self.before else float("nan")


def change_points(series: Sequence[float], risk: float = 0.05) -> list[ChangePoint]:
    """All change points of a series, in order."""
    values = np.asarray(series, np.float64)
    if values.ndim != 1 or values.size > MOST or not np.isfinite(values).all():
        raise BadInput(f"a series is one list of at most {MOST} numbers")
    found: dict[int, float] = {}
    waiting = [(0, values.size)]
    while waiting:
        low, high = waiting.pop()
        at, p = _split(values[low:high])
        if p <= risk:
            found[low + at] = p
            waiting += [(low, low + at), (low + at, high)]
    ends = [0, *sorted(found), values.size]
    return [
        ChangePoint(at, float(np.median(values[a:at])), float(np.median(values[at:b])), found[at])
        for a, at, b in zip(ends, ends[1:-1], ends[2:], strict=False)
    ]


# The best place to split, and the share of shuffles that have one as good.
def _split(values: Values) -> tuple[int, float]:
    if values.size < 2 * FEWEST:
        return 0, 1.0
    at, best = _most_unlike(values)
    if best <= 0:
        return at, 1.0
    rng = np.random.default_rng(values.size)
    as_good = sum(
        _most_unlike(rng.permutation(values))[1] >= best * (1 - 1e-12) for _ in range(SHUFFLES)
    )
    return at, (as_good + 1) / (SHUFFLES + 1)


def _most_unlike(values: Values) -> tuple[int, float]:
    n = values.size
    apart = np.abs(values[:, None] - values[None, :])
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = apart.cumsum(0).cumsum(1)
    at = np.arange(FEWEST, n - FEWEST + 1)
    own, whole = sums[at, at], sums[n, n]
    cross = sums[at, n] - own
    other = whole - own - 2 * cross
    left, right = at.astype(float), (n - at).astype(float)
    # Each part's mean distance is over pairs, of which a part of one has none.
    within = own / (left * (left - 1)) + other / (right * (right - 1))
    energy = left * right / n * (2 * cross / (left * right) - within)
    best = int(np.argmax(energy))
    return int(at[best]), float(energy[best])
