"""A second opinion on a ratio: Student's t of the blocks' own figures, and nothing else.

It knows less than the interval that verdicts rest on, and everybody knows it. Where the two differ
by more than half, both are shown.
"""

import math
from collections.abc import Mapping

import numpy as np

from labkit.statistics.percentiles import Estimate, spread
from labkit.statistics.pooled import FEWEST_BLOCKS, Blocks, Pooled
from labkit.statistics.quantity import Quantity

FAR_OFF = 1.5


def by_student(quantity: Quantity, blocks_of: Mapping[str, Blocks]) -> Estimate | None:
    """The ratio of the blocks' own percentiles, with Student's error; None of anything else."""
    if not quantity.ratio or isinstance(quantity.statistic, str):
        return None
    over, under = (blocks_of[name] for name in quantity.ratio)
    common = sorted(set(over) & set(under))
    if len(common) < FEWEST_BLOCKS:
        return None
    q = float(quantity.statistic)
    levels = [Pooled.of({k: side[k] for k in common}).each(q) for side in (over, under)]
    if min(float(values.min()) for values in levels) <= 0:
        return None
    logs = np.log(levels[0] / levels[1])
    at, error = float(logs.mean()), spread(logs)
    return Estimate(math.exp(at), at, at, error, error, len(common) - 1, len(common), enough=True)


def differs(estimate: Estimate, second: Estimate | None) -> bool:
    """Whether one of two intervals above 0 is more than half as wide again as the other."""
    if second is None or min(estimate.interval().low, second.interval().low) <= 0:
        return False
    widths = [math.log(i.high / i.low) for i in (estimate.interval(), second.interval())]
    return max(widths) > FAR_OFF * min(widths) and max(widths) > 1e-6
