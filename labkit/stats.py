"""Percentiles with honest intervals, from few blocks of many samples that hang together.

Neighbouring samples of one run are alike, and every run has its own luck, so 3,000 samples are not
3,000 pieces of evidence: the block is. Values come from the pooled samples (percentiles are never
averaged); how far they can be off comes from how the blocks differ, with Student's t for their
small number. Four measures are taken, because each fails somewhere:

    spread     how the blocks' own percentiles differ     fails between two modes
    jackknife  how the pooled one moves without a block   fails in a far tail
    reach      how the share of samples below it varies   fails when blocks do not overlap
    unseen     how far slower runs than these would move  only for values above the median, and
               it (unseen.py)                             for differences (quantity.py)

Upwards the widest counts; downwards, where a tail is less far from the truth, mostly the reach; for
a ratio the mean of spread and jackknife, widened by what reach has beyond them.
Three blocks have Student's t of 4.3 on two degrees of freedom, which is exact for normal figures
only: for the few samples beyond a far percentile, whose scatter has short sides and long ends,
it is wider than it need be, and no correction can be estimated from three numbers.

There is no chance in it: the same samples give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labkit.distribution import Distribution, Values
from labkit.errors import BadInput
from labkit.limits import Interval as Interval
from labkit.pooled import BEYOND as BEYOND
from labkit.pooled import FEWEST_BLOCKS as FEWEST_BLOCKS
from labkit.pooled import Blocks as Blocks
from labkit.pooled import Pooled
from labkit.pooled import beyond as beyond
from labkit.pooled import percentile as percentile
from labkit.pooled import pieces as pieces
from labkit.risk import holm as holm
from labkit.unseen import upper_limit

MOST_BLOCKS = 200
"""`blocks_needed` looks no further than so many more blocks."""
BY_RANK = 0.8
PAIRED_REACH = 1.4
"""Both are set so that simulated studies come out as stated (tests/test_coverage.py)."""
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
"""Those that a study is told by."""


@dataclass(frozen=True)
class Estimate:
    """A value whose error is known each way, from which an interval or a probability is read.

    `lowest` and `highest` are where the pooled samples and the typical block put the value; `down`
    and `up` are standard errors: these four are logarithms if `logarithmic`.
    """

    value: float
    lowest: float
    highest: float
    down: float
    up: float
    freedom: float
    blocks: int
    enough: bool
    logarithmic: bool = True
    range: tuple[float, float] = (-math.inf, math.inf)
    """Where the figure lies whatever was measured: a share of positive figures is never below 0."""
    scale: float = math.inf
    """The largest of the figures that a difference was made of."""

    def interval(self, confidence: float = 0.95) -> Interval:
        """The two-sided interval of that confidence."""
        t = student(self.freedom, 0.5 + confidence / 2)
        ends = np.array([self.lowest - t * self.down, self.highest + t * self.up])
        # Clipped, so that samples without any sense still give numbers that JSON can hold.
        low, high = np.exp(np.clip(ends, -700, 700)) if self.logarithmic else ends
        # Through logarithms and back a value may move in its last digit, past its own end.
        low = min(max(float(low), self.range[0]), self.value)
        high = max(min(float(high), self.range[1]), self.value)
        return Interval(self.value, low, high, self.enough)

    def below(self, limit: float) -> float:
        """The one-sided p value against "it is not below `limit`"."""
        return _tail(self.freedom, (math.log(limit) - self.highest) / max(self.up, 1e-12))

    def above(self, limit: float) -> float:
        """The one-sided p value against "it is not above `limit`"."""
        return _tail(self.freedom, (self.lowest - math.log(limit)) / max(self.down, 1e-12))


def interval(blocks: Blocks, q: float) -> Interval:
    """The percentile of the pooled samples with an interval that knows that blocks differ."""
    return estimate(Pooled.of(blocks), q).interval()


def intervals(blocks: Blocks, percentiles: Sequence[float]) -> list[Interval]:
    """As `interval`, for several percentiles of the same samples, which are pooled once."""
    pooled = Pooled.of(blocks)
    return [estimate(pooled, q).interval() for q in percentiles]


def estimate(pooled: Pooled, q: float) -> Estimate:
    """The percentile of the pooled samples, and how far it may be off."""
    s = _Seen.of(pooled, q, logarithmic=pooled.levels[0] > 0, unseen=True)
    return Estimate(
        s.raw, s.value, s.value, _down(pooled, q, s), math.hypot(s.error, s.high_reach),
        max(s.blocks - 1, 1), s.blocks, pooled.measured(q), s.logarithmic,
    )  # fmt: skip


def ratio(a: Blocks, b: Blocks, q: float) -> Interval:
    """percentile(a) / percentile(b), both pooled, compared block by block where both have it."""
    return ratio_estimate(a, b, q).interval()


def ratio_estimate(a: Blocks, b: Blocks, q: float) -> Estimate:
    """As `ratio`, but able to say how probable it is to lie beyond a limit."""
    common = sorted(set(a) & set(b))
    if len(common) < FEWEST_BLOCKS:
        return _apart(Pooled.of(a), Pooled.of(b), q)
    return _paired(Pooled.of({k: a[k] for k in common}), Pooled.of({k: b[k] for k in common}), q)


def blocks_needed(
    a: Blocks, b: Blocks, q: float, *, low: float = 1.0, high: float = 1.0, level: float = 0.05
) -> int:
    """About how many more blocks settle on which side of `low` and `high` the ratio lies.

    Taken at its value of today; `MOST_BLOCKS` + 1 stands for more than that.
    """
    missing = max(samples_needed(a, q), samples_needed(b, q))
    if min(len(a), len(b)) < FEWEST_BLOCKS:
        return min(missing, MOST_BLOCKS + 1)
    found = ratio_estimate(a, b, q)
    far = min((math.log(limit / found.value) for limit in (low, high)), key=abs)
    to_go, error = abs(far), max(found.up if far > 0 else found.down, 1e-12)
    for more in range(max(missing, 1), MOST_BLOCKS + 1):
        growth = (found.blocks + more) / found.blocks
        if 2 * _tail(found.freedom + more, to_go / error * math.sqrt(growth)) <= level:
            return more
    return MOST_BLOCKS + 1


def width(found: Interval) -> float:
    """How wide an interval is beside its value: 0.1 is from 5 % below to 5 % above, or so."""
    return (found.high - found.low) / abs(found.value) if found.value else math.inf


def blocks_to_width(blocks: Blocks, q: float, wanted: float) -> int:
    """About how many more blocks bring the percentile's interval to the wanted relative width.

    0 when it is that narrow already; `MOST_BLOCKS` + 1 stands for more than that.
    """
    if not 0 < wanted < math.inf:
        raise BadInput(f"a wanted width is above 0, such as 0.1, and not {wanted!r}")
    missing = samples_needed(blocks, q) if blocks else FEWEST_BLOCKS
    if len(blocks) < FEWEST_BLOCKS:
        return min(missing, MOST_BLOCKS + 1)
    found = estimate(Pooled.of(blocks), q)
    if not missing and width(found.interval()) <= wanted:
        return 0
    for more in range(max(missing, 1), MOST_BLOCKS + 1):
        if width(_with_more(found, more).interval()) <= wanted:
            return more
    return MOST_BLOCKS + 1


def enough(measured: Mapping[str, Blocks], q: float, wanted: float, cap: int) -> int:
    """How many more blocks a study should run now: 0 when each condition is narrow enough.

    Not more than to `cap` blocks in all. What is foreseen from few blocks is only half believed:
    at most as many as there are are asked for at once, and then it is looked at again.
    """
    if not 0 < wanted < math.inf or cap < 1:
        raise BadInput(
            f"a width above 0 and a cap of 1 or more are needed, not {wanted!r}, {cap!r}"
        )
    have = min((len(blocks) for blocks in measured.values()), default=0)
    if have < FEWEST_BLOCKS:
        return max(min(FEWEST_BLOCKS, cap) - have, 0)
    more = max(blocks_to_width(blocks, q, wanted) for blocks in measured.values())
    return max(min(more, have, cap - have), 0)


def _with_more(found: Estimate, more: int) -> Estimate:
    growth = math.sqrt(found.blocks / (found.blocks + more))
    return replace(
        found, down=found.down * growth, up=found.up * growth, freedom=found.freedom + more
    )


def count(blocks: Blocks) -> int:
    """How many samples the blocks hold in all."""
    sizes = (v.size if isinstance(v, Distribution) else np.size(v) for v in blocks.values())
    return int(sum(sizes))


def samples_needed(blocks: Blocks, q: float) -> int:
    """How many more blocks of this size until the percentile can be called measured."""
    samples = count(blocks)
    share = min(q, 100 - q) / 100
    wanted = math.ceil(round(BEYOND / share, 6)) + (1 if q < 50 else 0)
    by_size = math.ceil(wanted / (samples / len(blocks)))
    return max(by_size, FEWEST_BLOCKS) - len(blocks) if not _measured(blocks, q) else 0


@dataclass(frozen=True)
class _Seen:
    # One percentile, its value in each block, without each block, and how far its rank may be off;
    # errors are standard errors, reaches are what must be added to cover the rank's (as errors are
    # added, by squares). All but the first are logarithms if `logarithmic`.
    raw: float
    value: float
    each: Values
    without: Values
    clock: float
    low_reach: float
    high_reach: float
    logarithmic: bool

    @property
    def blocks(self) -> int:
        return self.each.size

    @property
    def error(self) -> float:
        return math.hypot(_error(self.each, self.without), self.clock)

    @classmethod
    def of(
        cls, pooled: Pooled, q: float, *, logarithmic: bool = True, unseen: bool = False
    ) -> _Seen:
        if not 0 < q < 100:
            raise BadInput(f"a percentile lies between 0 and 100, not at {q}")
        scale = np.log if logarithmic else np.asarray
        raw = pooled.percentile(q)
        value = float(scale(raw))
        each, without = scale(pooled.each(q)), scale(pooled.without_each(q))
        step = pooled.clock
        clock = math.log1p(step / raw) if logarithmic else step
        error = math.hypot(_error(each, without), clock)
        low, high = (float(scale(end)) for end in _reach(pooled, q, raw))
        if unseen and q > 50 and pooled.enough:
            high = max(high, upper_limit(pooled, q, logarithmic=logarithmic))
        t = student(max(each.size - 1, 1), 0.975)
        low_reach, high_reach = (
            math.sqrt(max(0.0, (far / t) ** 2 - error**2)) for far in (value - low, high - value)
        )
        return cls(raw, value, each, without, clock, low_reach, high_reach, logarithmic)


# What slows both conditions in a block cancels: only the differences of the blocks count. These
# lie about as far above their middle as below, so that the wider of two errors held the truth more
# often than stated: their mean (of squares) counts. Where sides are skewed unlike, reach sees it.
def _paired(a: Pooled, b: Pooled, q: float) -> Estimate:
    over, under = _seen_above_zero(a, q), _seen_above_zero(b, q)
    each, without = over.each - under.each, over.without - under.without
    value, typical = over.value - under.value, float(each.mean())
    error = math.hypot(_middling(each, without), over.clock, under.clock)
    (over_low, over_high), (under_low, under_high) = (
        _beyond_spread(pooled, q, seen) for pooled, seen in ((a, over), (b, under))
    )
    return Estimate(
        over.raw / under.raw, min(value, typical), max(value, typical),
        math.hypot(error, over_low, under_high), math.hypot(error, over_high, under_low),
        over.blocks - 1, over.blocks, a.measured(q) and b.measured(q),
    )  # fmt: skip


def _beyond_spread(pooled: Pooled, q: float, seen: _Seen) -> tuple[float, float]:
    # What must be added to a side's own error to cover its rank's error, down and up.
    own = math.hypot(_middling(seen.each, seen.without), seen.clock)
    t = student(seen.blocks - 1, 0.975)
    ends = map(math.log, rank_ends(pooled, q, seen.raw))
    down, up = (math.sqrt(max(0.0, ((end - seen.value) / t) ** 2 - own**2)) for end in ends)
    return down, up


def rank_ends(
    pooled: Pooled, q: float, value: float, reach: float = PAIRED_REACH
) -> tuple[float, float]:
    """Where the percentile may lie by how its rank differs between three blocks or more."""
    # As many standard errors of the rank as 1.4 deviations of Student's t: found by simulation.
    blocks = len(pooled.below)
    off = reach * _rank_error(pooled, value) * math.sqrt(blocks / (blocks - 2))
    return pooled.percentile(max(q - off, 0.0)), pooled.percentile(min(q + off, 100.0))


# A tail is skewed: its figures err further upwards, and with an error that was as large both ways
# the truth lay below the lower end in 1 of 500 studies instead of 1 of 40. So most of the way down
# is what the ranks say; not all of it, for these know nothing of blocks that do not overlap.
def _down(pooled: Pooled, q: float, seen: _Seen) -> float:
    if q < 50 or seen.blocks < 2:
        return math.hypot(seen.error, seen.low_reach)
    t = student(seen.blocks - 1, 0.975)
    end = pooled.percentile(max(q - t * _rank_error(pooled, seen.raw), 0.0))
    by_rank = (seen.value - (math.log(end) if seen.logarithmic else end)) / t
    return max(BY_RANK * max(by_rank, 0.0) + (1 - BY_RANK) * seen.error, seen.clock)


def _apart(a: Pooled, b: Pooled, q: float) -> Estimate:
    # Too few common blocks: errors add up, with Welch's degrees of freedom.
    over, under = _seen_above_zero(a, q), _seen_above_zero(b, q)
    value, error = over.value - under.value, math.hypot(over.error, under.error)
    shares = [s.error**4 / max(s.blocks - 1, 1) for s in (over, under)]
    freedom = error**4 / sum(shares) if sum(shares) > 0 else min(over.blocks, under.blocks)
    return Estimate(
        over.raw / under.raw, value, value,
        math.hypot(error, over.low_reach, under.high_reach),
        math.hypot(error, over.high_reach, under.low_reach),
        max(freedom, 1), min(over.blocks, under.blocks), a.measured(q) and b.measured(q),
    )  # fmt: skip


def _seen_above_zero(pooled: Pooled, q: float) -> _Seen:
    if pooled.levels[0] <= 0:
        raise BadInput(f"a ratio needs values above 0, and there is {pooled.levels[0]:g}")
    return _Seen.of(pooled, q)


def _error(each: Values, without: Values) -> float:
    if each.size < 2:
        return 0.0
    return max(_spread(each), _jackknife(without))


def _middling(each: Values, without: Values) -> float:
    return math.hypot(_spread(each), _jackknife(without)) / math.sqrt(2)


def _jackknife(without: Values) -> float:
    return float(without.std()) * math.sqrt(without.size - 1)


def _spread(each: Values) -> float:
    return float(each.std(ddof=1)) / math.sqrt(each.size)


def _rank_error(pooled: Pooled, value: float) -> float:
    # The standard error, in percent, of the share of samples at or below a value.
    shares = pooled.shares(value)
    return 100 * float(np.std(shares, ddof=1)) / math.sqrt(shares.size)


def _reach(pooled: Pooled, q: float, value: float) -> tuple[float, float]:
    # The pooled values at the ranks that the blocks' differing shares allow (Woodruff 1952).
    # The normal quantile, not Student's: with three blocks t reaches the extremes every time,
    # and simulated coverage does not need it beside the other measures.
    shares = pooled.shares(value)
    if shares.size > 1:
        off = 196 * float(np.std(shares, ddof=1)) / math.sqrt(shares.size - 1)
    else:  # One block that was only counted: as if its samples were independent.
        off = 1.96 * math.sqrt(q * (100 - q) / pooled.size)
    ends = (pooled.percentile(min(max(q + d, 0.0), 100.0)) for d in (-off, off))
    return min(next(ends), value), max(next(ends), value)


def _measured(blocks: Blocks, q: float) -> bool:
    return len(blocks) >= FEWEST_BLOCKS and beyond(q, count(blocks)) >= BEYOND


def student(freedom: float, share: float = 0.975) -> float:
    """Student's quantile; as it stands, so many standard errors are half a 95 % interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def _tail(freedom: float, t: float) -> float:
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))
