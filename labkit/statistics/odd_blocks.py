"""Blocks that lie apart, conditions of two states, and changes in a series.

An odd block has a figure a quarter or more away from the median of its condition. That is also more
than five times the usual distance, over all conditions together. Two states are two groups of
blocks, both of two or more, with a gap that is twice as wide as each. Nothing is dropped.

Change points are found by E-divisive means (Matteson and James, JASA 109, 2014), one dimension. The
place that splits a stretch into the most unlike two (by the energy distance) may be a change point.
It is one if few series of chance have a place as unlike. Neighbours of a series may be alike, so
chance is no plain shuffle. What each figure adds to the part that it takes from the one before it
is shuffled, and the series put together again: an autoregression of order 1. Each part is then
looked at by itself. Shuffles come from a fixed seed: the same series gives the same points.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from labkit.errors import BadInput
from labkit.statistics.pooled import Values

APART, TIMES = math.log(1.25), 5.0
SCALE = 1.4826
"""The deviation of normal values over the median of how far they are away."""
GAP, WIDER = math.log(1.5), 2.0
FEWEST = 4
"""Of fewer blocks nobody can say which is the odd one."""
FEWEST_OF_TWO = 5
"""Of four blocks two and two lie apart too often by chance."""
SHUFFLES = 499
ONE_SIDE = 2
"""The fewest figures on either side of a change point."""
MOST_SHUFFLES = 2000
STRONGEST = 0.9
"""The largest part that a figure may take from the one before it."""
UNSURE = 12.0
"""An addition to that part, over the number of figures, as few hardly show it. With it a series
without a change has one in 5 of 100 (tests/helpers/verdicts_kept.py)."""
MOST_STEPS, PLAIN = 4, 0.4
"""Further steps that are taken away, each if less than this part of the scatter is left."""
AT_ONCE, ENOUGH_AS_GOOD = 100_000, 60
"""Distances computed at once, and series as unlike after which no more are made."""


@dataclass(frozen=True)
class OddBlock:
    """A block whose figure lies apart from `usual`, the median of its condition."""

    condition: str
    block: int
    figure: float
    usual: float


@dataclass(frozen=True)
class TwoStates:
    """A condition whose blocks come from two states, and the blocks of both."""

    condition: str
    quick: tuple[int, ...]
    slow: tuple[int, ...]
    quick_figure: float
    slow_figure: float


def two_states(medians: Mapping[str, Mapping[int, float]]) -> list[TwoStates]:
    """The conditions whose figures fall into two groups."""
    states = [_two_groups(name, blocks) for name, blocks in medians.items()]
    return [state for state in states if state]


def odd_blocks(medians: Mapping[str, Mapping[int, float]]) -> list[OddBlock]:
    """The blocks that lie apart, of condition -> block -> figure."""
    away = {name: _away(blocks) for name, blocks in medians.items() if len(blocks) >= FEWEST}
    bimodal = {two_state.condition for two_state in two_states(medians)}
    distances_all = [x for distances in away.values() for x in distances.values()]
    usual = _spread(distances_all) if distances_all else 0.0
    return [
        OddBlock(name, block, medians[name][block], float(np.median([*medians[name].values()])))
        for name, distances in away.items() if name not in bimodal
        for block, x in distances.items()
        if abs(x) > max(APART, TIMES * max(usual, _spread(distances.values())))
    ]  # fmt: skip


def _spread(distances: Iterable[float]) -> float:
    return SCALE * float(np.median(np.abs([*distances])))


def _away(blocks: Mapping[int, float]) -> dict[int, float]:
    if min(blocks.values()) <= 0:
        return {}
    middle = math.log(float(np.median([*blocks.values()])))
    return {block: math.log(figure) - middle for block, figure in blocks.items()}


def _two_groups(name: str, blocks: Mapping[int, float]) -> TwoStates | None:
    if len(blocks) < FEWEST_OF_TWO or min(blocks.values()) <= 0:
        return None
    order = sorted(blocks, key=blocks.__getitem__)
    logs = [math.log(blocks[block]) for block in order]
    gaps = [b - a for a, b in pairwise(logs)]
    at = max(range(len(gaps)), key=gaps.__getitem__) + 1
    quick, slow = tuple(sorted(order[:at])), tuple(sorted(order[at:]))
    widest = max(logs[at - 1] - logs[0], logs[-1] - logs[at])
    if min(len(quick), len(slow)) < 2 or gaps[at - 1] < max(GAP, WIDER * widest):
        return None
    figures = (float(np.median([blocks[b] for b in group])) for group in (quick, slow))
    return TwoStates(name, quick, slow, *figures)


@dataclass(frozen=True)
class ChangePoint:
    """The first figure of what follows, the medians before and after, and how unlikely by chance.

    Before and after are the stretches to the next change points.
    """

    at: int
    before: float
    after: float
    p: float


def change_points(
    series: Sequence[float], risk: float = 0.05, shuffles: int = SHUFFLES
) -> list[ChangePoint]:
    """All change points of a series, in order."""
    values = np.asarray(series, np.float64)
    if values.ndim != 1 or values.size > MOST_SHUFFLES or not np.isfinite(values).all():
        raise BadInput(f"a series is one list of at most {MOST_SHUFFLES} numbers")
    points: dict[int, float] = {}
    waiting = [(0, values.size)]
    while waiting:
        low, high = waiting.pop()
        at, p = _split(values[low:high], shuffles)
        if p <= risk:
            points[low + at] = p
            waiting += [(low, low + at), (low + at, high)]
    ends = [0, *sorted(points), values.size]
    return [
        ChangePoint(at, float(np.median(values[a:at])), float(np.median(values[at:b])), points[at])
        for a, at, b in zip(ends, ends[1:-1], ends[2:], strict=False)
    ]


def drift(series: Sequence[float], points: Sequence[ChangePoint]) -> tuple[float, float] | None:
    """The ends of a straight line, if that describes the series better than its steps (by BIC)."""
    values, at = np.asarray(series, np.float64), np.arange(len(series))
    parts = np.split(values, [point.at for point in points])
    slope, start = np.polyfit(at, values, 1)
    line = float(((values - start - slope * at) ** 2).sum())
    steps = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    fewer = values.size ** ((2 * len(points) - 1) / values.size)  # a step has a place and a height
    return (float(start), float(start + slope * at[-1])) if line < steps * fewer else None


# The best place to split, and the share of series by chance that have one as good.
def _split(values: Values, shuffles: int) -> tuple[int, float]:
    if values.size < 2 * ONE_SIDE:
        return 0, 1.0
    (at,), (best,) = _most_unlike(values[None])
    if best <= 0:
        return int(at), 1.0
    rng, alike = np.random.default_rng(values.size), _alike(values, int(at))
    count, as_good, at_once = 0, 0, max(1, AT_ONCE // values.size**2)
    while count < shuffles and as_good < ENOUGH_AS_GOOD:
        number = min(at_once, shuffles - count)
        _, unlike = _most_unlike(_by_chance(values, alike, rng, number))
        as_good += int((unlike >= best * (1 - 1e-12)).sum())
        count += number
    return int(at), (as_good + 1) / (count + 1)


# The part that figures take from the one before, beside the step. What is estimated from few is too
# small by about as much as is added, and its own error may be as large again.
def _alike(values: Values, at: int) -> float:
    beside = _without_steps(values, at)
    if not (power := float((beside**2).sum())):
        return 0.0
    part, n = float((beside[1:] * beside[:-1]).sum()) / power, values.size
    return float(min(max(part + (2 * (1 + 3 * part) + UNSURE) / n, 0.0), STRONGEST))


# What is left beside that step, and beside further ones that are plain to see.
def _without_steps(values: Values, at: int) -> Values:
    parts = [values[:at], values[at:]]
    for _ in range(MOST_STEPS):
        beside = np.concatenate([part - part.mean() for part in parts])
        cuts = []
        for k, part in enumerate(parts):
            if part.size >= 2 * ONE_SIDE:
                (cut,) = map(int, _most_unlike(part[None])[0])
                cuts.append([*parts[:k], part[:cut], part[cut:], *parts[k + 1 :]])
        sums = [sum(float(((p - p.mean()) ** 2).sum()) for p in pieces) for pieces in cuts]
        if not sums or min(sums) > PLAIN * float((beside**2).sum()):
            return beside
        parts = cuts[int(np.argmin(sums))]
    return np.concatenate([part - part.mean() for part in parts])


def _by_chance(values: Values, alike: float, rng: np.random.Generator, count: int) -> Values:
    away = values - values.mean()
    fresh = away.copy()
    fresh[1:] -= alike * away[:-1]
    fresh[0] *= np.sqrt(1 - alike**2)
    series: Values = rng.permuted(np.tile(fresh - fresh.mean(), (count, 1)), axis=1)
    series[:, 0] /= np.sqrt(1 - alike**2)
    for k in range(1, values.size):
        series[:, k] += alike * series[:, k - 1]
    return series


# Of each row: where it is split best, and by how much.
def _most_unlike(rows: Values) -> tuple[Values, Values]:
    count, n = rows.shape
    sums = np.zeros((count, n + 1, n + 1))
    sums[:, 1:, 1:] = np.abs(rows[:, :, None] - rows[:, None, :]).cumsum(1).cumsum(2)
    at = np.arange(ONE_SIDE, n - ONE_SIDE + 1)
    left_sum, all_sum = sums[:, at, at], sums[:, n, n, None]
    cross = sums[:, at, n] - left_sum
    right_sum = all_sum - left_sum - 2 * cross
    left_size, right_size = at.astype(float), (n - at).astype(float)
    # Each part's mean distance is over pairs, of which a part of one has none.
    within = left_sum / (left_size * (left_size - 1)) + right_sum / (right_size * (right_size - 1))
    energy = left_size * right_size / n * (2 * cross / (left_size * right_size) - within)
    best = energy.argmax(1)
    return at[best], energy[np.arange(count), best]
