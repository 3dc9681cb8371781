"""The distance a percentile may lie beyond all that few blocks have shown.

Three runs do not show how slow one run in a hundred is, yet such runs make the far tail of all. So
it is inferred: each block is taken to be the same distribution, moved by a normal luck of its own
(in logarithms), which its median shows. The luck's spread is uncertain in the known way
(chi-squared, k - 1 degrees of freedom). Each spread that it may have gives a percentile of
endlessly many runs. The limit is the 95 % point of those. This is Weerahandi's generalized interval
(1993) for a sum of parts between and within runs, summed over a grid instead of drawn. Of several
conditions it gives percentiles that go together (`possible`), for what becomes of them.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from labkit.statistics.pooled import Pooled, Values

LIMIT = 0.95
"""With the other errors beside it, that makes ends which hold 97.5 times of 100."""
FAR_TAIL = 90.0
"""Runs that were not seen are reckoned with in percentiles beyond this one."""
SPREADS, LEVELS = 200, 60
TRIALS = 12
POINTS = 20
HALVINGS = 15
POSSIBLE = 200
"""Sets of percentiles that are looked at."""


def left_out(percentiles: Sequence[float], *, cancels: bool) -> float:
    """The share of what unseen runs may make of a figure that is left out at each end.

    More where shared luck cancels, and more up to p99, beyond which samples show hardly anything;
    found by simulation (tests/statistics/test_coverage.py). One percentile alone has 5 %, as
    `LIMIT` says.
    """
    near = max(percentiles) <= 99
    if len(percentiles) < 2 and not cancels:
        return 1 - LIMIT
    if cancels:
        return 0.2 if near else 0.125
    return 0.15 if near else 0.05


def possible(sides: Sequence[tuple[Pooled, float]]) -> list[Values]:
    """Percentiles of endlessly many runs that would go with what was seen: [side][set].

    Block by block the sides have been measured together, and their lucks go together as seen;
    how far each spreads is uncertain on its own.
    """
    from scipy.special import chdtri, ndtri

    blocks, count = len(sides[0][0].below), len(sides)
    points = _evenly(2 * count)
    widths, normal = points[:count], ndtri(points[count:])
    lucks = [_scale(pool.each(50), pool.levels[0] > 0) for pool, _ in sides]
    away = np.stack([luck - luck.mean() for luck in lucks])
    # Normal values, related as the blocks of the sides are.
    common_lucks = np.linalg.qr(away.T)[1].T @ normal[: min(count, blocks)]
    candidates = []
    for (pool, q), luck, share, common in zip(sides, lucks, widths, common_lucks, strict=True):
        wider = np.sqrt((blocks - 1) / chdtri(blocks - 1, share))
        logarithmic = bool(pool.levels[0] > 0)
        shifts = _move(pool, q, luck, luck.std(ddof=1) * wider, logarithmic)
        at = luck.mean() + shifts + wider * common / np.sqrt(blocks * (blocks - 1))
        candidates.append(np.exp(np.clip(at, -700, 700)) if logarithmic else at)
    return candidates


def _evenly(dimensions: int) -> Values:
    # Points that fill the cube evenly and are the same each time (Roberts' sequence, 2018).
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    return (0.5 + steps[:, None] * np.arange(1, POSSIBLE + 1)) % 1


def upper_limit(pool: Pooled, q: float, *, logarithmic: bool) -> float:
    """The logarithm of what the q-th percentile of endlessly many runs stays below, if so asked."""
    from scipy.special import chdtri, ndtri

    at = _scale(pool.each(50), logarithmic)
    shares = (np.arange(SPREADS) + 0.5) / SPREADS
    spread = at.std(ddof=1) * np.sqrt((at.size - 1) / chdtri(at.size - 1, shares))
    away = _move(pool, q, at, spread, logarithmic)
    luck = ndtri((np.arange(LEVELS) + 0.5) / LEVELS)
    possible = (at.mean() + away)[:, None] + (spread / np.sqrt(at.size))[:, None] * luck
    return float(np.quantile(possible, LIMIT))


def _scale(values: Values, logarithmic: bool) -> Values:
    return np.log(values) if logarithmic else values


def _move(pool: Pooled, q: float, at: Values, spreads: Values, logarithmic: bool) -> Values:
    # Where the percentile of the common distribution goes when runs are spread that far: between
    # those spreads that are tried, of which the last is the largest that `upper_limit` asks for.
    from scipy.special import chdtri, ndtr

    widest = np.sqrt((at.size - 1) / chdtri(at.size - 1, 1 - 0.5 / SPREADS))
    trial_spreads = np.linspace(0, at.std(ddof=1) * widest, TRIALS)
    finest = 0.25 / pool.below[:, -1].max()
    one_side = np.geomspace(finest, 0.5, POINTS)
    edges = np.concatenate([[0], one_side, 1 - one_side[-2::-1], [1]])
    levels = pool.block_levels((edges[1:] + edges[:-1]) / 2)
    points = (_scale(levels, logarithmic) - at[:, None]).ravel()
    weights = np.tile(np.diff(edges), at.size) / at.size
    widths = np.maximum(trial_spreads, 1e-9)[:, None]
    low, high = points.min() - 9 * widths[:, 0], points.max() + 9 * widths[:, 0]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        share = ndtr((middle[:, None] - points) / widths) @ weights
        low, high = np.where(share < q / 100, middle, low), np.where(share < q / 100, high, middle)
    return cast(Values, np.interp(spreads, trial_spreads, (low + high) / 2))
