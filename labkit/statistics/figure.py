"""One percentile, mean or the like of one condition, as part of a figure that is made of several.

It knows its value over all blocks, in each, and without each: what an error is made of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labkit.errors import BadInput, Unknown
from labkit.statistics import percentiles
from labkit.statistics.expression import SUMMARIES
from labkit.statistics.pooled import Blocks, Pooled
from labkit.statistics.pooled import Values as Values

Statistic = float | str
"""A percentile, `mean`, or `average`, where each run weighs alike."""


@dataclass(frozen=True)
class Figure:
    """A percentile or mean of one condition: of all blocks, of each, without each.

    Of a percentile also the samples that it is of, and how far their clock may be off.
    """

    value: float
    each: Values
    without: Values
    pooled: Pooled | None = None
    q: float = 50.0
    clock: float = 0.0

    @classmethod
    def of(cls, blocks: Blocks, statistic: Statistic) -> Figure:
        """Take it of these blocks."""
        q = 50.0 if statistic == "median" else statistic
        if not isinstance(q, str):
            pool = Pooled.of(blocks).finer
            value, clock = pool.percentile(q), pool.clock(pool.percentile(q))
            return cls(value, pool.each(q), pool.without_each(q), pool, q, clock)
        runs = list(blocks.values())
        values_of_runs = np.array([summary(q, [run]) for run in runs])
        rests = ([*runs[:out], *runs[out + 1 :]] for out in range(len(runs)))
        without = np.array([summary(q, parts) for parts in rests])
        return cls(summary(q, runs), values_of_runs, without)

    def ends(self, errors: float) -> tuple[float, float]:
        """The figure's range if that many standard errors off; a percentile's is by its rank."""
        if self.pooled:
            return self.pooled.around(self.q, self.value, errors)
        off = errors * percentiles.spread(self.each)
        return self.value - off, self.value + off


def check_statistic(statistic: Statistic) -> None:
    """Refuse what is no percentile and no name of a summary."""
    if isinstance(statistic, str) and statistic not in SUMMARIES:
        raise Unknown("statistic", statistic, SUMMARIES)
    if not isinstance(statistic, str) and not 0 < statistic < 100:
        raise BadInput(f"a percentile lies between 0 and 100, not at {statistic:g}")


def summary(statistic: Statistic, runs: Sequence[Values]) -> float:
    """The percentile, mean or the like of all samples of these runs."""
    if isinstance(statistic, str):
        return SUMMARIES[statistic](runs)
    return percentiles.percentile(np.concatenate(runs), statistic)


def middling(figures: Sequence[float], without: Sequence[float]) -> float:
    """The mean (of squares) of two standard errors: between blocks, and by the jackknife."""
    if not figures:
        return percentiles.jackknife(without)
    return math.hypot(percentiles.spread(figures), percentiles.jackknife(without)) / math.sqrt(2)
