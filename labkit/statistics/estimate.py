"""Estimate a quantity from what was measured, with its error.

The block is what counts as evidence. Of percentiles two intervals are averaged, as of a ratio
(`percentiles.py`): Student's of the figure in each block, and that of the ranks. For means and the
like the error has two parts, averaged as squares. One is how the figure differs between blocks. The
other is how the pooled one moves without a block (the jackknife). In far tails the interval also
holds what slower runs than the measured ones would make of it (`far_tail.py`). What can only be
above 0 has an interval above 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from labkit.errors import BadInput
from labkit.statistics import percentiles as stats
from labkit.statistics.counts import KINDS, exact
from labkit.statistics.far_tail import FAR_TAIL, left_out, possible
from labkit.statistics.interval import Interval
from labkit.statistics.percentiles import Blocks, Estimate
from labkit.statistics.pooled import Pooled, Values
from labkit.statistics.quantity import Quantity, Statistic, Term, summary

Scale = Callable[[float], float]
SMALLEST, STEP = 1e-300, 1e-6


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
    def of(cls, blocks: Blocks, statistic: Statistic) -> "Figure":
        """Take it of these blocks."""
        q = 50.0 if statistic == "median" else statistic
        if not isinstance(q, str):
            pool = Pooled.of(blocks).finer
            value = pool.percentile(q)
            return cls(value, pool.each(q), pool.without_each(q), pool, q, pool.clock(value))
        runs = list(blocks.values())
        rests = ([*runs[:out], *runs[out + 1 :]] for out in range(len(runs)))
        without = np.array([summary(q, parts) for parts in rests])
        return cls(summary(q, runs), np.array([summary(q, [run]) for run in runs]), without)

    def ends(self, errors: float) -> tuple[float, float]:
        """The figure's range if that many standard errors off; a percentile's is by its rank."""
        if self.pooled:
            return self.pooled.around(self.q, self.value, errors)
        off = errors * stats.spread(self.each)
        return self.value - off, self.value + off


Figures = Mapping[Term, Figure]


def estimated(quantity: Quantity, blocks_of: Mapping[str, Blocks]) -> Estimate:
    """The value over all blocks that the conditions share, with its error."""
    return replace(_estimate(quantity, blocks_of), each=_in_each(quantity, blocks_of))


# Counts are exact however few they are.
def _in_each(quantity: Quantity, blocks_of: Mapping[str, Blocks]) -> tuple[float, ...]:
    sides = {name: blocks_of[name] for name in quantity.names}
    common = sorted(set.intersection(*map(set, sides.values())))
    if quantity.kinds or not 0 < len(common) < stats.FEWEST_OF_INTERVAL:
        return ()
    alone = ({name: {k: side[k]} for name, side in sides.items()} for k in common)
    try:
        return tuple(_estimate(quantity, block).value for block in alone)
    except BadInput:  # one block alone may divide by nothing
        return ()


def _estimate(quantity: Quantity, blocks_of: Mapping[str, Blocks]) -> Estimate:
    sides = {name: blocks_of[name] for name in quantity.names}
    if any(statistic in KINDS for _, statistic in quantity.terms()):
        return exact(quantity, sides)
    if (alone := quantity.alone) and not isinstance(alone[1], str):
        interval = stats.estimate(Pooled.of(sides[alone[0]]), alone[1])
        return replace(interval, range=_range(quantity, sides))
    plain = quantity.ratio is not None and not isinstance(quantity.statistic, str)
    if plain and (smallest := min(map(least_of, sides.values()))) <= 0:
        raise BadInput(f"a ratio needs values above 0; found {smallest:g}")
    common = sorted(set.intersection(*map(set, sides.values())))
    if len(common) >= stats.FEWEST_BLOCKS:
        sides = {name: {k: blocks[k] for k in common} for name, blocks in sides.items()}
        return _pair(quantity, sides, len(common))
    if plain:
        over, under = map(Pooled.of, sides.values())
        return stats.apart(over, under, float(quantity.statistic))
    return _apart(quantity, sides)


def ratio(a: Blocks, b: Blocks, q: float) -> Interval:
    """percentile(a) / percentile(b), both pooled, compared block by block where both have it."""
    return estimated(Quantity("'a' / 'b'", q), {"a": a, "b": b}).interval()


def least_of(blocks: Blocks) -> float:
    """The lowest of the values of all blocks."""
    return float(min(map(np.min, blocks.values())))


def _pair(quantity: Quantity, sides: Mapping[str, Blocks], blocks: int) -> Estimate:
    by_term = {term: Figure.of(sides[term[0]], term[1]) for term in quantity.terms()}
    value = quantity.of(lambda term: by_term[term].value)
    by_block, without = _vary(quantity, by_term, blocks)
    of_name, figures = _range(quantity, sides), [value, *by_block, *without]
    logarithmic = of_name[0] >= 0 and min(figures) > 0
    scale = math.log if logarithmic else float
    by_block, without = [*map(scale, by_block)], [*map(scale, without)]
    middle, down, up = _off(quantity, by_term, scale, np.array(by_block), without)
    t = stats.student(blocks - 1)
    down, up = max(down / t, stats.SMALLEST), max(up / t, stats.SMALLEST)
    return Estimate(value, middle, down, up, blocks - 1, blocks, _suffices(quantity, sides),
                    logarithmic, of_name, moves(quantity, {t: s.value for t, s in by_term.items()}),
                    coarse=any(s.q > FAR_TAIL and s.pooled and s.pooled.spread_over
                               for s in by_term.values()))  # fmt: skip


def moves(quantity: Quantity, figures: Mapping[Term, float]) -> float:
    """Return how much it changes for each share by which one of its figures, or all, change."""
    if quantity.alone:
        return math.inf
    steps = [{t: x * (1 + STEP * (t in terms)) for t, x in figures.items()}
             for terms in (*([term] for term in figures), list(figures))]  # fmt: skip
    value = quantity.of(figures.__getitem__)
    shifts = (abs(float(quantity.all_of(shifted)) - value) / STEP for shifted in steps)
    return max((shift for shift in shifts if math.isfinite(shift)), default=math.inf)


# The middle of the 95 % interval, and how far it reaches down and up.
def _off(
    quantity: Quantity, figures: Figures, scale: Scale, estimates: Values, without: Sequence[float]
) -> tuple[float, float, float]:
    here = scale(quantity.of(lambda term: figures[term].value))
    t = stats.student(len(without) - 1)
    pools = [figure.pooled for figure in figures.values() if figure.pooled]
    if not pools or not estimates.size:
        typical = float(estimates.mean()) if estimates.size and cancels(quantity) else here
        error = stats.jackknife(without)
        if estimates.size:  # the mean, of squares, of the errors between blocks and without each
            error = math.hypot(stats.spread(estimates), error) / math.sqrt(2)
        half = t * error + abs(here - typical) / 2
        return (here + typical) / 2, half, half
    error = stats.spread(estimates)
    # The error of the figure if the blocks of one term differ, and the others do not.
    of_each = (_vary(quantity, figures, estimates.size, term)[0] for term in figures)
    alone = math.hypot(*(stats.spread([*map(scale, values)]) for values in of_each))
    # They may be off by so many of their own errors, if they share luck.
    away = t * min(error / alone, stats.MOST_STEPS) if alone else 0.0
    ranks, clock = _by_rank(quantity, figures, scale, away)
    # Of few samples in a block ranks are steps, and its figure is all there is.
    sizes = [int(size) for pool in pools for size in pool.below[:, -1]]
    by_rank = None if min(sizes) < stats.BEYOND else ranks
    middle, down, up = stats.averaged(here, estimates, t * error, by_rank)
    low, high = _widen(quantity, figures, scale, middle)
    q = max(figure.q for figure in figures.values() if figure.pooled)
    # Where each block shows its own percentile, unseen runs widen an interval by no more than this.
    is_known = cancels(quantity) and min(stats.beyond(q, n) for n in sizes) >= stats.BEYOND
    widest = stats.UNSEEN_MORE * (down + up) / 2 if is_known else math.inf
    down = max(down, min(middle - low, down + widest))
    up = max(up, min(high - middle, up + widest))
    return middle, math.hypot(down, stats.NORMAL * clock), math.hypot(up, stats.NORMAL * clock)


# What runs that were not measured may make of it, at the least and at the most. Sides are in the
# order of their figures, so that a ratio turned over has its interval turned over.
def _widen(
    quantity: Quantity, figures: Figures, scale: Scale, middle: float
) -> tuple[float, float]:
    items = figures.items()
    order = sorted(items, key=lambda item: item[1].value) if cancels(quantity) else items
    far = {term: (s.pooled, s.q) for term, s in order if s.pooled and s.q > FAR_TAIL}
    if not far:
        return middle, middle
    values_of = {term: s.value for term, s in figures.items()}
    sets: dict[Term, Any] = dict(zip(far, possible([*far.values()]), strict=True))
    values = quantity.all_of({**values_of, **sets})
    values = values[np.isfinite(values)] if scale is float else np.maximum(values, SMALLEST)
    if not values.size:
        return middle, middle
    out = left_out([q for _, q in far.values()], cancels=cancels(quantity))
    low, high = (scale(float(end)) for end in np.quantile(values, (out, 1 - out)))
    return low, high


# How far down and up the ranks let it go, and how far a coarse clock may move it.
def _by_rank(
    quantity: Quantity, figures: Figures, scale: Scale, errors: float
) -> tuple[tuple[float, float], float]:
    def shift(term: Term, end: float) -> float:
        figure = quantity.of(lambda t: end if t == term else figures[t].value)
        return scale(figure if scale is float else max(figure, SMALLEST)) - here

    here = scale(quantity.of(lambda t: figures[t].value))
    ends = [sorted(shift(t, end) for end in figures[t].ends(errors)) for t in figures]
    clocks = [shift(t, s.value + s.clock) for t, s in figures.items() if s.clock]
    down = math.hypot(*(min(low, 0.0) for low, _ in ends))
    up = math.hypot(*(max(high, 0.0) for _, high in ends))
    return (down, up), math.hypot(*clocks)


def cancels(quantity: Quantity) -> bool:
    """Whether it stays as it is when all conditions are slower by the same factor."""
    figures = {term: 2.0 + math.sqrt(at + 2) for at, term in enumerate(quantity.terms())}
    try:
        before = quantity.of(figures.__getitem__)
        return math.isclose(before, quantity.of(lambda term: 3 * figures[term]), abs_tol=1e-12)
    except BadInput:
        return False


# The figure in each block and without each; of the blocks of one term only, if one is named.
def _vary(
    quantity: Quantity, figures_of: Figures, blocks: int, only_term: Term | None = None
) -> tuple[list[float], list[float]]:
    def figures(of: Callable[[Figure], Values]) -> list[float]:
        variations = {t: of(s) for t, s in figures_of.items() if only_term in (None, t)}
        values = {t: s.value for t, s in figures_of.items()}
        values_of = quantity.all_of({**values, **variations})
        if not np.isfinite(values_of).all():
            raise quantity.divides()
        return [*map(float, np.broadcast_to(values_of, blocks))]

    one_run_has_it = not any(statistic == "variation" for _, statistic in figures_of)
    estimates = figures(lambda term: term.each) if one_run_has_it else []
    return estimates, figures(lambda term: term.without)


# Blocks that do not belong together: each condition's own error, added up.
def _apart(quantity: Quantity, sides: Mapping[str, Blocks]) -> Estimate:
    all_of = {name: list(blocks.values()) for name, blocks in sides.items()}
    value, of_name = quantity.value(all_of), _range(quantity, sides)
    without = [
        [quantity.value({**all_of, name: [*runs[:out], *runs[out + 1 :]]})
         for out in range(len(runs))]
        for name, runs in all_of.items() if len(runs) > 1
    ]  # fmt: skip
    logarithmic = of_name[0] >= 0 and min([value, *chain(*without)]) > 0
    scale = math.log if logarithmic else float
    errors = [stats.jackknife([*map(scale, values)]) for values in without]
    fewest = min(len(runs) for runs in all_of.values())
    error = max(math.hypot(*errors), stats.SMALLEST)
    return Estimate(value, scale(value), error, error, max(fewest - 1, 1),
                    fewest, _suffices(quantity, sides), logarithmic, of_name)  # fmt: skip


# What was measured above what a metric can be is no share, whatever its unit says.
def _range(quantity: Quantity, sides: Mapping[str, Blocks]) -> tuple[float, float]:
    smallest = min(map(least_of, sides.values()))
    ceilings = {name: ceiling for name, ceiling in quantity.wholes
                if max(map(np.max, sides[name].values())) <= ceiling}  # fmt: skip
    return quantity.range_of(0.0 if smallest >= 0 else -math.inf, ceilings)


def _suffices(quantity: Quantity, sides: Mapping[str, Blocks]) -> bool:
    blocks = min(map(len, sides.values()))
    return blocks >= stats.FEWEST_BLOCKS and not any(blocks_lacking(quantity, sides).values())


def blocks_lacking(quantity: Quantity, blocks_of: Mapping[str, Blocks]) -> dict[float, int]:
    """Percentile -> how many more blocks it takes before it can be called measured."""
    lacks: dict[float, int] = {}
    for name, q in quantity.percentiles.items():
        lacks[q] = max(lacks.get(q, 0), stats.samples_needed(blocks_of[name], q))
    return lacks
