"""How two sets of samples differ, in the ways of the textbooks; each test compares it with scipy's.

The block is what was repeated, so the block is what is drawn again and what is ranked. A claim is
judged by `stats.ratio_estimate`, which needs no chance and knows more of far tails; these stand
beside it: the bootstrap for readers who expect one, the rank test and the effect size because they
look at the whole distribution and not at one percentile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labkit.errors import BadInput
from labkit.statistics.distribution import Values, Whole
from labkit.statistics.percentiles import Interval
from labkit.statistics.pooled import FEWEST_BLOCKS, Blocks, Pooled, checked_samples

RESAMPLES = 4000
SIZES = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))
"""Names for Cliff's delta by Romano et al. (2006); above is large."""


@dataclass(frozen=True)
class Ranks:
    """Mann and Whitney's test: `p` is two-sided; `delta` is Cliff's, above 0 if `a` is larger."""

    u: float
    p: float
    delta: float

    @property
    def size(self) -> str:
        """How large the effect is, as a word."""
        return next((word for limit, word in SIZES if abs(self.delta) < limit), "large")


def ranks(a: Blocks, b: Blocks, q: float = 50) -> Ranks:
    """Whether blocks of `a` rank above blocks of `b` by their percentile; few blocks say little.

    The block's percentile is one observation: single samples of a run hang together, and ranking
    those would call equal conditions different.
    """
    return rank_test(Pooled.of(a).each(q), Pooled.of(b).each(q))


def rank_test(a: Sequence[float] | Values, b: Sequence[float] | Values) -> Ranks:
    """The rank test of independent observations; exact where there are few and no two are equal."""
    from scipy.stats import mannwhitneyu

    first, second = checked_samples(a), checked_samples(b)
    pairs = first.size * second.size
    if first.size == second.size == 1 or np.ptp(np.concatenate([first, second])) == 0:
        return Ranks(_above(first, second), 1.0, 2 * _above(first, second) / pairs - 1)
    found = mannwhitneyu(first, second, alternative="two-sided")
    u = float(found.statistic)
    return Ranks(u, float(found.pvalue), 2 * u / pairs - 1)


def cliffs_delta(a: Values, b: Values) -> float:
    """The share of pairs in which `a` is larger, less the share in which it is smaller."""
    first, second = checked_samples(a), checked_samples(b)
    return 2 * _above(first, second) / (first.size * second.size) - 1


def bootstrap_ratio(a: Blocks, b: Blocks, q: float, *, seed: int = 1) -> Interval:
    """percentile(a) / percentile(b), with the bootstrap's interval."""
    return _bootstrap(a, b, q, np.divide, seed)


def bootstrap_difference(a: Blocks, b: Blocks, q: float, *, seed: int = 1) -> Interval:
    """percentile(a) - percentile(b), with the bootstrap's interval."""
    return _bootstrap(a, b, q, np.subtract, seed)


def expanded(blocks: int) -> float:
    """The share of resamples left out at each end; the usual 2.5 % is too much of few blocks.

    Hesterberg's expanded percentile interval (2015): as wide as Student's t for a mean.
    """
    from scipy.special import ndtr, stdtrit

    wider = np.sqrt(blocks / (blocks - 1)) * stdtrit(blocks - 1, 0.975)
    return float(ndtr(-wider))


Join = Callable[[Values, Values], Values]


def _bootstrap(a: Blocks, b: Blocks, q: float, join: Join, seed: int) -> Interval:
    # A block that both conditions share is drawn for both, so that its luck cancels.
    common = sorted(set(a) & set(b))
    paired = len(common) >= FEWEST_BLOCKS
    first = Pooled.of({k: a[k] for k in common} if paired else a)
    second = Pooled.of({k: b[k] for k in common} if paired else b)
    if join is np.divide and min(first.levels[0], second.levels[0]) <= 0:
        raise BadInput("a ratio needs values above 0")
    random, blocks = np.random.default_rng(seed), len(first.below)
    drawn = _drawn(random, blocks)
    also = drawn if paired else _drawn(random, len(second.below))
    found = join(first.resampled(drawn, q), second.resampled(also, q))
    value = float(join(np.array(first.percentile(q)), np.array(second.percentile(q))))
    share = expanded(max(min(blocks, len(second.below)), 2))
    low, high = (float(end) for end in np.quantile(found, (share, 1 - share)))
    enough = first.measured(q) and second.measured(q)
    return Interval(value, min(low, value), max(high, value), enough)


def _drawn(random: np.random.Generator, blocks: int) -> Whole:
    # How often each block is in each resample.
    return random.multinomial(blocks, np.full(blocks, 1 / blocks), RESAMPLES)


def _above(a: Values, b: Values) -> float:
    # Mann and Whitney's U of `a`: pairs in which it is larger, equal ones by half.
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a, side="left").sum(dtype=np.int64)
    up_to = np.searchsorted(ordered, a, side="right").sum(dtype=np.int64)
    return float(below + up_to) / 2
