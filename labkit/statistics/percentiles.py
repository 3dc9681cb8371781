"""Percentiles with honest intervals, from few blocks of many samples that hang together.

Neighbouring samples of one run are alike, and every run has its own luck, so 3,000 samples are not
3,000 pieces of evidence: the block is. Values come from the pooled samples (percentiles are never
averaged). Their error comes from how the blocks differ, with Student's t for their small number.
Each measure of it fails somewhere:

    rank       how the share of samples below the value     fails where runs do not overlap
               varies from block to block
    spread     how the blocks' own figures differ           fails for unlike or mixed tails
    jackknife  how the pooled value moves without a block   fails in a far tail
    unseen     what slower runs would make of it            used in far tails (far_tail.py)

Ranks beyond all samples are held to where the blocks' own percentiles may lie (pooled.reach).
Of one percentile the rank counts, as it knows that a tail is longer upwards. Of two conditions,
whose luck is shared, two intervals are averaged end by end: Student's of the blocks' own figures,
in which shared luck cancels, and that of the ranks, moved as far as the shared luck leaves over.
Either alone holds the truth too seldom somewhere, and both together hold it too often.

There is no chance in it: the same samples give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from labkit.errors import BadInput
from labkit.statistics.far_tail import FAR_TAIL, upper_limit
from labkit.statistics.interval import Interval
from labkit.statistics.pooled import BEYOND as BEYOND
from labkit.statistics.pooled import FEWEST_BLOCKS as FEWEST_BLOCKS
from labkit.statistics.pooled import FEWEST_OF_INTERVAL as FEWEST_OF_INTERVAL
from labkit.statistics.pooled import Blocks as Blocks
from labkit.statistics.pooled import Pooled, Values
from labkit.statistics.pooled import beyond as beyond
from labkit.statistics.pooled import percentile as percentile

MOST_BLOCKS = 200
"""The most blocks that are foreseen."""
NORMAL, SMALLEST = 1.96, 1e-12
BY_RANK = 0.8
"""The rank's share of a lower end; the rest comes from the larger of two errors."""
LEAST_BY_RANK, MOST_STEPS = 0.8, 1.5
"""The ranks' half interval of two conditions is at least this share of Student's. They are asked
no further away than this many times it."""
BIAS = 0.15
"""The share of the way from one middle to the other that is added; all are simulated
(tests/statistics/test_coverage.py)."""
UNSEEN_MORE = 0.25
"""The share of half an interval that unseen runs may add to a ratio whose blocks know their own
tails. More made equal pairs undecided and held the truth no more often (simulated as above)."""
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
"""The percentiles a study reports."""


@dataclass(frozen=True)
class Estimate:
    """A value whose error is known each way, from which an interval or a probability is read.

    `middle` is that of its intervals; `down` and `up` are standard errors: these three are
    logarithms if `logarithmic`.
    """

    value: float
    middle: float
    down: float
    up: float
    freedom: float
    blocks: int
    enough: bool
    logarithmic: bool = True
    range: tuple[float, float] = (-math.inf, math.inf)
    """Bounds of the figure whatever was measured: a share of positive figures is never below 0."""
    scale: float = math.inf
    """Its change per share by which a figure in it changes; infinite for one figure alone."""
    coarse: bool = False
    """Whether steps of a clock bias it by more than its error knows, as they do in a far tail."""
    each: tuple[float, ...] = ()
    """The figure in each block, where there are few."""

    @property
    def counts(self) -> str:
        """The numbers that it is of, in words, if they are few: `3 of 4`."""
        return ""

    def interval(self, confidence: float = 0.95) -> Interval:
        """The two-sided interval of that confidence."""
        t = student(self.freedom, 0.5 + confidence / 2)
        ends = np.array([self.middle - t * self.down, self.middle + t * self.up])
        # Clipped, so that samples without any sense still give numbers that JSON can hold.
        low, high = np.exp(np.clip(ends, -700, 700)) if self.logarithmic else ends
        # Through logarithms and back a value may move in its last digit, past its own end.
        low = min(max(float(low), self.range[0]), self.value)
        high = max(min(float(high), self.range[1]), self.value)
        return Interval(self.value, low, high, self.enough, self.each)

    def scaled(self, limit: float) -> float:
        """The figure on the scale of its errors: its logarithm if they are of that."""
        if not self.logarithmic:
            return limit
        return math.log(limit) if limit > 0 else -math.inf

    def below(self, limit: float) -> float:
        """The one-sided p value against "it is not below `limit`"."""
        return _tail(self.freedom, (self.scaled(limit) - self.middle) / max(self.up, SMALLEST))

    def above(self, limit: float) -> float:
        """The one-sided p value against "it is not above `limit`"."""
        return _tail(self.freedom, (self.middle - self.scaled(limit)) / max(self.down, SMALLEST))

    def grown(self, number: int, have: int) -> Estimate:
        """The same value as it is foreseen when `number` blocks are added to `have`."""
        growth = math.sqrt(have / (have + number))
        return replace(self, middle=self.scaled(self.value), down=self.down * growth,
                       up=self.up * growth, freedom=self.freedom + number)  # fmt: skip


def interval(blocks: Blocks, q: float) -> Interval:
    """The percentile of the pooled samples with an interval that knows that blocks differ."""
    return intervals(blocks, [q])[0]


def intervals(blocks: Blocks, percentiles: Sequence[float]) -> list[Interval]:
    """The `interval` of several percentiles of the same samples, which are pooled once."""
    pool, few = Pooled.of(blocks), len(blocks) < FEWEST_OF_INTERVAL
    pools = [Pooled.of({0: block}) for block in blocks.values() if few]
    return [
        replace(estimate(pool, q), each=tuple(alone.percentile(q) for alone in pools)).interval()
        for q in percentiles
    ]


def estimate(pool: Pooled, q: float) -> Estimate:
    """The percentile of the pooled samples, and how far it may be off."""
    if not 0 < q < 100:
        raise BadInput(f"a percentile lies between 0 and 100, not at {q}")
    logarithmic, blocks = bool(pool.levels[0] > 0), len(pool.below)
    floor = 0.0 if pool.levels[0] >= 0 else -math.inf
    scale = math.log if logarithmic else float
    displayed, t = pool.percentile(q), student(max(blocks - 1, 1))
    pool = pool.finer
    raw = pool.percentile(q)
    value, away = scale(raw), t if blocks > 1 else NORMAL
    low, high = (scale(end) for end in pool.around(q, raw, away))
    down, up = max(value - low, 0.0) / t, max(high - value, 0.0) / t
    logs, error = np.log if logarithmic else np.asarray, 0.0
    if blocks > 1:  # how the blocks' own percentiles differ, or the jackknife
        error = max(spread(logs(pool.each(q))), jackknife(logs(pool.without_each(q))))
    # A tail errs further away from the median than towards it, of which the ranks alone know.
    toward = BY_RANK * (down if q >= 50 else up) + (1 - BY_RANK) * error
    down, up = (toward, up) if q >= 50 else (down, toward)
    # Ranks beyond all samples say nothing: blocks that hardly overlap, or too few samples.
    off = away * pool.rank_error(q, raw)
    down, up = max(down, error * (off > q)), max(up, error * (off > 100 - q))
    if pool.enough and q >= 50 and (q > FAR_TAIL or off > 100 - q):
        up = max(up, (upper_limit(pool, q, logarithmic=logarithmic) - value) / t)
    is_known = pool.enough and beyond(q, pool.size) >= BEYOND
    clock = math.log1p(pool.clock(raw) / raw) if logarithmic else pool.clock(raw)
    clock *= NORMAL / t
    return Estimate(
        displayed, value, math.hypot(down, clock), math.hypot(up, clock),
        max(blocks - 1, 1), blocks, is_known, logarithmic, (floor, math.inf),
    )  # fmt: skip


def counted(blocks: int) -> int:
    """The number of blocks that an error counts for when more are foreseen.

    Two fewer than there are. Mostly the undecided have a large error by chance. More blocks bring
    it down faster than the root of their number (tests/statistics/test_blocks_needed.py).
    """
    return max(blocks - 2, 1)


def count(blocks: Blocks) -> int:
    """The number of samples in all blocks."""
    return sum(map(np.size, blocks.values()))


def samples_needed(blocks: Blocks, q: float) -> int:
    """The number of blocks of this size still needed to call the percentile measured."""
    samples = count(blocks)
    if len(blocks) >= FEWEST_BLOCKS and beyond(q, samples) >= BEYOND:
        return 0
    by_size = math.ceil(_fewest_samples(q) / (samples / len(blocks)))
    return max(by_size, FEWEST_BLOCKS) - len(blocks)


def tail_note(q: float, samples: int) -> str:
    """The samples a percentile lacks to be called measured; empty if it lacks none."""
    if samples >= (need := _fewest_samples(q)):
        return ""
    return (
        f"p{q:g} of {samples} samples has {beyond(q, samples)} beyond it; "
        f"{BEYOND} beyond it, or {need} samples in all, are needed"
    )


def _fewest_samples(q: float) -> int:
    return math.ceil(round(BEYOND / min(q, 100 - q) * 100, 6)) + (q < 50)


def averaged(
    value: float, figures: Values, half: float, ranks: tuple[float, float] | None
) -> tuple[float, float, float]:
    """The middle, down and up, of Student's interval of the blocks' figures and that of the ranks.

    `half` is half of Student's, `ranks` how far down and up the ranks let the pooled value go; the
    pooled value is inside. Without ranks Student's stands alone.
    """
    middle = typical = float(figures.mean())
    down = up = half
    if ranks:
        middle, bias = (value + typical) / 2, BIAS * abs(value - typical)
        down, up = ((half + max(rank, LEAST_BY_RANK * half)) / 2 + bias for rank in ranks)
    return middle, max(down, middle - value), max(up, value - middle)


def apart(a: Pooled, b: Pooled, q: float) -> Estimate:
    """The ratio of two percentiles with too few common blocks: errors add up (Welch)."""
    over, under = estimate(a, q), estimate(b, q)
    value = over.middle - under.middle
    errors = [(side.down + side.up) / 2 for side in (over, under)]
    shares = [error**4 / side.freedom for error, side in zip(errors, (over, under), strict=True)]
    freedom = math.hypot(*errors) ** 4 / sum(shares) if sum(shares) > 0 else 1.0
    return Estimate(
        over.value / under.value, value,
        math.hypot(over.down, under.up), math.hypot(over.up, under.down),
        max(freedom, 1), min(over.blocks, under.blocks), over.enough and under.enough,
    )  # fmt: skip


def spread(figures: Sequence[float] | Values) -> float:
    """The standard error of a mean of these figures of blocks."""
    return float(np.std(figures, ddof=1)) / math.sqrt(len(figures))


def jackknife(without: Sequence[float] | Values) -> float:
    """The standard error of a figure by what it comes to without each block."""
    return float(np.std(without)) * math.sqrt(len(without) - 1)


def student(freedom: float, share: float = 0.975) -> float:
    """Student's quantile; as it stands, that many standard errors are half a 95 % interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def _tail(freedom: float, t: float) -> float:
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))
