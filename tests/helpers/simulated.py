"""Intervals of thousands of simulated studies at once, computed as `labkit` computes those of one.

`Many` is to `Pooled`, and the functions are to those of the same names in percentiles.py,
far_tail.py and estimate.py, what an array is to a number; `test_coverage` holds them to each other.
"""

from dataclasses import dataclass, field
from functools import cached_property, wraps

import numpy as np
from scipy.special import chdtri, ndtr, ndtri, stdtrit

from labkit.statistics import far_tail, percentiles
from labkit.statistics.pooled import BEYOND, FINE, beyond, reach


def kept(method):
    """What a method found of a percentile is looked up when it is asked again."""

    @wraps(method)
    def found(self, q):
        if (method, q) not in self.known:
            self.known[method, q] = method(self, q)
        return self.known[method, q]

    return found


@dataclass(frozen=True, eq=False)
class Many:
    """One condition of many studies: `blocks` [study, block, sample] sorted along the samples."""

    blocks: np.ndarray
    known: dict = field(default_factory=dict)

    @cached_property
    def pooled(self):
        return np.sort(self.blocks.reshape(len(self.blocks), -1), axis=-1)

    @property
    def count(self):
        return self.blocks.shape[1]

    def first(self, count):
        return Many(self.blocks[:, :count])

    @cached_property
    def step(self):
        """As `Pooled.step`, of each study."""
        steps = np.diff(self.pooled, axis=1)
        there = steps > 1e-12 * self.pooled[:, -1:]
        steps = np.where(there, steps, np.inf).min(axis=1)
        shown = there.any(axis=1) & ~there.all(axis=1)
        return np.where(shown, np.minimum(steps, self.pooled[:, 0]), 0)

    @cached_property
    def finer(self):
        if (self.step <= FINE * self.percentile(50)).all():
            return self
        assert (self.step > FINE * self.percentile(50)).all(), "all studies have one clock"
        return Spread(np.sort(spread_evenly(self.blocks, self.step)), self.step)

    def clock(self, value):
        """As `Pooled.clock`, of each study."""
        return self.step / np.sqrt(12)

    @kept
    def percentile(self, q):
        return _taken(self.pooled, ranks(q, self.pooled.shape[-1]))

    @kept
    def each(self, q):
        size = self.blocks.shape[-1]
        return self.blocks[:, :, ranks(q, size)].astype(float)

    @kept
    def without_each(self, q):
        """By halving: the first of all samples with enough of the other blocks at or below it."""
        _, count, size = self.blocks.shape
        wanted = ranks(q, size * (count - 1))
        low = np.zeros(self.blocks.shape[:2], int)
        high = np.full_like(low, size * count - 1)
        while (low < high).any():
            middle = (low + high) // 2
            at = np.take_along_axis(self.pooled, middle, axis=1)
            reached = middle + 1 - self._below(at) > wanted
            low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
        return np.take_along_axis(self.pooled, low, axis=1).astype(float)

    def _below(self, values):
        """How many samples of each block are at or below its value."""
        size = self.blocks.shape[-1]
        low, high = np.zeros(values.shape, int), np.full(values.shape, size)
        while (low < high).any():
            middle = (low + high) // 2
            at = np.take_along_axis(self.blocks, middle[..., None].clip(max=size - 1), -1)[..., 0]
            below = (at <= values) & (low < high)
            high = np.where(below, high, np.minimum(middle, high))
            low = np.where(below, middle + 1, low)
        return low

    @kept
    def rank_error(self, q):
        at = np.repeat(_taken(self.pooled, ranks(q, self.pooled.shape[-1]), plain=True), self.count)
        shares = self._below(at.reshape(-1, self.count)) / self.blocks.shape[-1]
        return 100 * shares.std(axis=1, ddof=1) / np.sqrt(self.count)

    def around(self, q, errors):
        off, size = errors * self.rank_error(q), self.pooled.shape[-1]
        ends = np.maximum(q - off, 0), np.minimum(q + off, 100)
        low, high = (_taken(self.pooled, ranks(end, size)) for end in ends)
        if beyond(q, self.blocks.shape[-1]) < BEYOND:
            return low, high
        at, logs = self.percentile(q), np.log(self.each(q))
        middle = logs.mean(axis=1)
        off = np.hypot(logs.std(axis=1, ddof=1), np.log1p(self.clock(at) / at))
        more = np.maximum(errors / stdtrit(self.count - 1, 0.975), 1)
        down, up = (more * far for far in reach(q, self.count))
        least, most = np.exp(middle - down * off), np.exp(middle + up * off)
        return np.minimum(np.maximum(low, least), at), np.maximum(np.minimum(high, most), at)

    @cached_property
    def luck(self):
        return np.log(self.each(50))

    @kept
    def moved(self, q):
        """As far_tail._move: [study, spread tried], the percentile above the middle of the runs."""
        size = self.blocks.shape[-1]
        edges = np.geomspace(0.25 / size, 0.5, far_tail.POINTS)
        edges = np.concatenate([[0], edges, 1 - edges[-2::-1], [1]])
        at = np.minimum((size * (edges[1:] + edges[:-1]) / 2).astype(int), size - 1)
        points = np.log(self.blocks[:, :, at].astype(float)) - self.luck[..., None]
        points = points.reshape(len(points), 1, -1)
        weights = np.tile(np.diff(edges), self.count) / self.count
        widths = np.maximum(self.luck.std(axis=1, ddof=1)[:, None] * tried(self.count), 1e-9)
        low, high = points.min(axis=2) - 9 * widths, points.max(axis=2) + 9 * widths
        for _ in range(far_tail.HALVINGS):
            middle = (low + high) / 2
            share = ndtr((middle[..., None] - points) / widths[..., None]) @ weights
            low, high = (
                np.where(share < q / 100, middle, low),
                np.where(share < q / 100, high, middle),
            )
        return (low + high) / 2

    def moved_to(self, q, wider):
        """The same at these spreads, as multiples of that which was seen."""
        steps = tried(self.count)
        at = np.clip(np.searchsorted(steps, wider) - 1, 0, steps.size - 2)
        part = np.clip((wider - steps[at]) / (steps[at + 1] - steps[at]), 0, 1)
        return self.moved(q)[:, at] * (1 - part) + self.moved(q)[:, at + 1] * part


class Spread(Many):
    """Samples that were spread over the steps of their clock."""

    def __init__(self, blocks, over):
        super().__init__(blocks)
        object.__setattr__(self, "over", over)

    @property
    def finer(self):
        return self

    def clock(self, value):
        near = np.abs(self.pooled - value[:, None]) <= self.over[:, None] / 2
        return self.over / np.sqrt(12) * near.mean(axis=1)


def spread_evenly(blocks, step):
    """As `pooled.spread_evenly`, of sorted samples."""
    at = np.arange(blocks.shape[-1])
    new = np.concatenate([np.ones((*blocks.shape[:2], 1), bool), np.diff(blocks) > 0], axis=-1)
    first = np.maximum.accumulate(np.where(new, at, 0), axis=-1)
    ends = np.concatenate([new[..., 1:], np.ones((*blocks.shape[:2], 1), bool)], axis=-1)
    last = np.where(ends, at, at[-1])[..., ::-1]
    last = np.minimum.accumulate(last, axis=-1)[..., ::-1]
    share = (at - first + 0.5) / (last - first + 1) - 0.5
    return np.maximum(blocks + step[:, None, None] * share, blocks / 2)


def tried(count):
    widest = np.sqrt((count - 1) / chdtri(count - 1, 1 - 0.5 / far_tail.SPREADS))
    return np.linspace(0, widest, far_tail.TRIALS)


def ranks(q, size):
    return np.clip(np.ceil(np.round(q * size / 100, 6)) - 1, 0, size - 1).astype(int)


def _taken(pooled, rank, *, plain=False):
    at = np.broadcast_to(rank, len(pooled))[:, None]
    found = np.take_along_axis(pooled, at, axis=1)[:, 0]
    return found if plain else found.astype(float)


def spread(each):
    return each.std(axis=1, ddof=1) / np.sqrt(each.shape[1])


def value(a, q):
    """As stats.estimate: low and high of each study, of what the clock says in its steps."""
    shown_of, a = a, a.finer
    t, at = stdtrit(a.count - 1, 0.975), np.log(a.percentile(q))
    low, high = map(np.log, a.around(q, t))
    down, up = (at - low) / t, (high - at) / t
    jackknife = np.log(a.without_each(q)).std(axis=1) * np.sqrt(a.count - 1)
    error = np.maximum(spread(np.log(a.each(q))), jackknife)
    down = percentiles.BY_RANK * down + (1 - percentiles.BY_RANK) * error
    off = t * a.rank_error(q)
    down, up = np.maximum(down, error * (off > q)), np.maximum(up, error * (off > 100 - q))
    asked = np.full(len(at), q > far_tail.FAR_TAIL) | (off > 100 - q)
    if asked.any():
        up = np.where(asked, np.maximum(up, (upper_limit(a, q) - at) / t), up)
    clock = percentiles.NORMAL * np.log1p(a.clock(a.percentile(q)) / a.percentile(q))
    shown = np.log(shown_of.percentile(q))
    low, high = at - np.hypot(t * down, clock), at + np.hypot(t * up, clock)
    return np.minimum(low, shown), np.maximum(high, shown)


def upper_limit(a, q):
    shares = (np.arange(far_tail.SPREADS) + 0.5) / far_tail.SPREADS
    wider = np.sqrt((a.count - 1) / chdtri(a.count - 1, shares))
    luck = ndtri((np.arange(far_tail.LEVELS) + 0.5) / far_tail.LEVELS)
    spreads = a.luck.std(axis=1, ddof=1)[:, None] * wider / np.sqrt(a.count)
    possible = a.luck.mean(axis=1)[:, None] + a.moved_to(q, wider)
    possible = possible[..., None] + spreads[..., None] * luck
    return np.quantile(possible.reshape(len(possible), -1), far_tail.LIMIT, axis=1)


def ratio(a, b, q):
    """As estimate._pair, in logarithms."""
    a, b = a.finer, b.finer
    logs = np.log(a.each(q)), np.log(b.each(q))
    half, away = _steps(spread(logs[0] - logs[1]), map(spread, logs), a.count)
    over, under = np.log(a.percentile(q)), np.log(b.percentile(q))
    (a_low, a_high), (b_low, b_high) = (map(np.log, side.around(q, away)) for side in (a, b))
    ranks_of = np.hypot(a_low - over, b_high - under), np.hypot(a_high - over, b_low - under)
    low, high = _averaged(over - under, (logs[0] - logs[1]).mean(axis=1), half, ranks_of)
    if q > far_tail.FAR_TAIL:
        first, second = possible(a, b, q)
        turned = possible(b, a, q)
        found = np.where((under < over)[:, None], turned[1] - turned[0], first - second)
        least, most = _as_far(low, high, found, far_tail.left_out([q], cancels=True))
        if beyond(q, a.blocks.shape[-1]) >= BEYOND:
            more = percentiles.UNSEEN_MORE * (high - low) / 2
            least, most = np.maximum(least, low - more), np.minimum(most, high + more)
        low, high = least, most
    clock = percentiles.NORMAL * np.hypot(*(np.log1p(s.clock(s.percentile(q)) / s.percentile(q))
                                            for s in (a, b)))  # fmt: skip
    middle = (over - under + (logs[0] - logs[1]).mean(axis=1)) / 2
    return middle - np.hypot(middle - low, clock), middle + np.hypot(high - middle, clock)


def difference(a, b, q, factor):
    """As the quantity `factor * 'a' - 'b'`, of clocks whose steps are small."""
    each = factor * a.each(q) - b.each(q)
    half, away = _steps(spread(each), (factor * spread(a.each(q)), spread(b.each(q))), a.count)
    over, under = a.percentile(q), b.percentile(q)
    (a_low, a_high), (b_low, b_high) = a.around(q, away), b.around(q, away)
    ranks_of = (
        np.hypot(factor * (a_low - over), b_high - under),
        np.hypot(factor * (a_high - over), b_low - under),
    )
    low, high = _averaged(factor * over - under, each.mean(axis=1), half, ranks_of)
    if q > far_tail.FAR_TAIL:
        second, first = map(np.exp, possible(b, a, q))
        out = far_tail.left_out([q, q], cancels=False)
        low, high = _as_far(low, high, factor * first - second, out)
    return low, high


def _steps(error, own, count):
    t = stdtrit(count - 1, 0.975)
    alone = np.hypot(*own)
    share = np.divide(error, alone, out=np.zeros_like(error), where=alone > 0)
    return t * error, t * np.minimum(share, percentiles.MOST_STEPS)


def _averaged(at, typical, half, ranks_of):
    middle, bias = (at + typical) / 2, percentiles.BIAS * abs(at - typical)
    down, up = (
        (half + np.maximum(far, percentiles.LEAST_BY_RANK * half)) / 2 + bias for far in ranks_of
    )
    return middle - np.maximum(down, middle - at), middle + np.maximum(up, at - middle)


def _as_far(low, high, found, out):
    least, most = np.quantile(found, (out, 1 - out), axis=1)
    return np.minimum(low, least), np.maximum(high, most)


def possible(a, b, q):
    """As unseen.possible, in logarithms: [study, set] of both sides."""
    count, points = a.count, far_tail._evenly(4)
    wider = np.sqrt((count - 1) / chdtri(count - 1, points[:2]))
    lucks = np.stack([a.luck, b.luck], axis=1)
    away = lucks - lucks.mean(axis=2, keepdims=True)
    related = np.linalg.qr(away.transpose(0, 2, 1))[1].transpose(0, 2, 1)
    shared = related @ ndtri(points[2:])
    return [
        side.luck.mean(axis=1)[:, None]
        + side.moved_to(q, wider[at])
        + wider[at] * shared[:, at] / np.sqrt(count * (count - 1))
        for at, side in enumerate((a, b))
    ]
