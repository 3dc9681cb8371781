"""A second opinion on a ratio: Student's t of the blocks' own figures, and nothing else.

It knows less than the interval that verdicts rest on, and everybody knows it. Where the two differ
by more than half, both are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from labkit.statistics.percentiles import Interval, spread, student
from labkit.statistics.pooled import FEWEST_BLOCKS, Blocks, Pooled
from labkit.statistics.quantity import Quantity

FAR_OFF = 1.5


def by_student(what: Quantity, measured: Mapping[str, Blocks]) -> Interval | None:
    """The ratio of the blocks' own percentiles, with Student's interval; None of anything else."""
    if not what.ratio or isinstance(what.statistic, str):
        return None
    over, under = (measured[name] for name in what.ratio)
    common = sorted(set(over) & set(under))
    if len(common) < FEWEST_BLOCKS:
        return None
    q = float(what.statistic)
    each = [Pooled.of({k: side[k] for k in common}).each(q) for side in (over, under)]
    if min(float(one.min()) for one in each) <= 0:
        return None
    logs = np.log(each[0] / each[1])
    middle, off = float(logs.mean()), student(len(common) - 1) * spread(logs)
    low, high = (math.exp(min(max(x, -700), 700)) for x in (middle - off, middle + off))
    return Interval(math.exp(middle), low, high, enough=True)


def differs(own: Interval, other: Interval | None) -> bool:
    """Whether one of two intervals above 0 is more than half as wide again as the other."""
    if other is None or min(own.low, other.low) <= 0:
        return False
    widths = [math.log(one.high / one.low) for one in (own, other)]
    return max(widths) > FAR_OFF * min(widths) and max(widths) > 1e-6
