"""Is a run steady: where its warm-up ends, how much its samples hang together, how blocks drift.

Nothing here cuts anything: it says what it would cut, and a chart shows it.

* Warm-up ends where the standard error of what follows, in means of five, is least (MSER-5: White,
  Cobb, Spratt, Simulation 37, 1997). An end in the second half of the run means that it never
  became steady: the rule of its authors.
* Samples that hang together count less: 1,000 with a correlation time of 10 are worth 100 (Geyer's
  initial positive sequence, Statistical Science 7, 1992).
* Drift over blocks is Kendall's rank correlation of their percentile with their order in time. One
  half of a study's risk of 5 % goes to all its conditions together, as drift is mostly the lab's.
  The other half goes to the single ones (Holm).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput
from labkit.statistics.distribution import Values
from labkit.statistics.holm import RISK, holm
from labkit.statistics.pooled import checked_samples, percentile

BATCH = 5
FEWEST = 50
"""Fewer samples show nothing about where a warm-up ends."""
LAST = 5
"""Batches at the end that are never looked at: a chance likeness of few has a small error."""
EXACT = 33
"""The most blocks whose drift is judged exactly; of more, or with ties, nearly."""
STEPS = 500
"""Possible ends that are tried of longer runs."""


WORTH_TELLING = 0.05
"""A warm-up of a smaller share of a run may be found by chance, and moves little."""
Blocks = Mapping[int, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Steady:
    """One run: `cut` samples are its warm-up, `effective` is what the rest is worth."""

    samples: int
    cut: int
    effective: float
    steady: bool
    why: str

    @property
    def share_cut(self) -> float:
        """The share of the run that is warm-up."""
        return self.cut / self.samples


@dataclass(frozen=True)
class Trend:
    """Kendall's tau of the blocks with their order, from -1 to 1, and its two-sided p value."""

    tau: float
    p: float

    @property
    def found(self) -> bool:
        """Whether the blocks clearly rise or fall; of few blocks nobody can say."""
        return self.p <= RISK


def steady(values: npt.ArrayLike) -> Steady:
    """Find the end of a run's warm-up, and what remains of the run."""
    series = checked_samples(values)
    if series.size < FEWEST:
        reason = (
            f"{series.size} samples are too few to find a warm-up in; at least {FEWEST} are needed"
        )
        return Steady(series.size, 0, effective_size(series), False, reason)
    cut, half = warm_up(series), series.size / 2
    if cut >= half:
        reason = "it was still changing in its second half: run it for longer"
        return Steady(series.size, cut, effective_size(series[cut:]), False, reason)
    effective = effective_size(series[cut:])
    worth = f"{series.size - cut} samples are worth {effective:.0f} independent ones"
    reason = f"the first {cut} samples are warm-up; {worth}" if cut else worth
    return Steady(series.size, cut, effective, True, reason)


def told(blocks_of: Mapping[str, Blocks]) -> list[str]:
    """Describe what is not steady in a study's runs, a sentence each; nothing is cut.

    Only of half the runs of a condition or more: one in ten looks so by chance.
    """
    sentences = []
    for name, blocks in blocks_of.items():
        runs = [steady(v) for _, v in sorted(blocks.items()) if np.size(v) >= FEWEST]
        warm = [run for run in runs if run.steady and run.share_cut >= WORTH_TELLING]
        if warm and 2 * len(warm) >= len(runs):
            longest = max(warm, key=lambda run: run.share_cut)
            sentences.append(
                f"{name}: {len(warm)} of {len(runs)} runs begin with a warm-up, the longest of "
                f"{longest.cut} of {longest.samples} samples; nothing was cut"
            )
        count = sum(not run.steady for run in runs)
        if count and 2 * count >= len(runs):
            sentences.append(changing(name, count, len(runs)))
    return sentences + _drifting(blocks_of)


def unsteady(blocks_of: Mapping[str, Blocks]) -> dict[str, tuple[int, int]]:
    """Count the runs that were still changing, and all, where it is half of them or more."""
    counts = {}
    for name, blocks in blocks_of.items():
        runs = [steady(v) for v in blocks.values() if np.size(v) >= FEWEST]
        counts[name] = sum(not run.steady for run in runs), len(runs)
    return {name: (count, of) for name, (count, of) in counts.items() if count and 2 * count >= of}


def changing(name: str, count: int, of: int) -> str:
    """The sentence on runs that were still changing."""
    return f"{name}: {count} of {of} runs were still changing in their second half"


def _drifting(blocks_of: Mapping[str, Blocks]) -> list[str]:
    medians = {
        name: {number: percentile(blocks[number], 50) for number in sorted(blocks)}
        for name, blocks in blocks_of.items() if len(blocks) > 1
    }  # fmt: skip
    trends = {name: drift(list(of_block.values())) for name, of_block in medians.items()}
    trend = _together(list(medians.values()))
    risk = RISK if trend is None else RISK / 2
    alone = zip(trends.items(), holm([f.p for f in trends.values()]), strict=True)
    sentences = [("", trend)] if trend and trend.p <= risk else []
    sentences += [(name, trend_of) for (name, trend_of), p in alone if p <= risk]
    return [_rises(name, trend) for name, trend in sentences]


# A lab that drifts moves all conditions, each by a share of what it differs by anyway.
def _together(medians: Sequence[Mapping[int, float]]) -> Trend | None:
    common = sorted(set.intersection(*map(set, medians))) if len(medians) > 1 else []
    if len(common) < 2:
        return None
    figures = np.array([[of_block[number] for number in common] for of_block in medians])
    away = figures - figures.mean(axis=1, keepdims=True)
    spread = away.std(axis=1, keepdims=True)
    values: Values = np.divide(away, spread, out=np.zeros_like(away), where=spread > 0).sum(axis=0)
    return drift(values.round(9))


def _rises(name: str, trend: Trend) -> str:
    owner = f"{name}: its median" if name else "all conditions together: the median"
    way = "rises" if trend.tau > 0 else "falls"
    return f"{owner} {way} from block to block (p {trend.p:.2g}): the lab drifts"


def warm_up(values: npt.ArrayLike) -> int:
    """The number of warm-up samples at the beginning, by MSER-5, on ranks.

    Ranks instead of values, for one stall of a thousandfold near the end would hide any warm-up.
    """
    series = checked_samples(values)
    batches = _rank(series)[: series.size // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    if batches.size <= LAST:
        return 0
    sizes = batches.size - np.arange(batches.size - LAST)
    # Sums from each batch to the end; centred first, or squares of large values lose their digits.
    centre = (batches - batches.mean())[::-1]
    sums, squares = np.cumsum(centre)[::-1], np.cumsum(centre**2)[::-1]
    error = squares[: sizes.size] / sizes**2 - sums[: sizes.size] ** 2 / sizes**3
    cuts = np.unique(np.linspace(0, sizes.size - 1, STEPS).astype(int))
    return int(cuts[np.argmin(error[cuts])]) * BATCH


def effective_size(values: npt.ArrayLike) -> float:
    """The number of independent samples these are worth, by how their ranks hang together."""
    series = checked_samples(values)
    likeness = autocorrelation(_rank(series))
    if likeness.size < 2:
        return float(series.size)
    # Sums of neighbours are positive and fall, until only noise is left.
    pairs = likeness[: likeness.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    monotone = np.minimum.accumulate(pairs[: ends[0]] if ends.size else pairs)
    time = max(2 * monotone.sum() - 1, 1.0)
    return float(series.size / time)


def autocorrelation(values: npt.ArrayLike) -> Values:
    """The likeness of samples by distance in places, from 0 on; 0 if all are equal."""
    series = checked_samples(values)
    centre = series - series.mean()
    size = 1 << (2 * series.size - 1).bit_length()
    power = np.abs(np.fft.rfft(centre, size)) ** 2
    product = np.fft.irfft(power, size)[: series.size]
    alike: Values = product / product[0] if product[0] > 1e-12 * series.size else np.zeros(1)
    return alike


def drift(blocks: Sequence[float] | Values) -> Trend:
    """Whether one figure per block, in the order of time, rises or falls."""
    figures = checked_samples(blocks)
    if figures.size < 2:
        raise BadInput("drift needs the figures of two blocks or more")
    if np.ptp(figures) == 0:
        return Trend(0.0, 1.0)
    n, all_pairs = figures.size, math.comb(figures.size, 2)
    above = np.sign(figures[None, :] - figures[:, None])[np.triu_indices(n, 1)]
    score, equal = int(above.sum()), int((above == 0).sum())
    tau = score / math.sqrt(all_pairs * (all_pairs - equal))
    if not equal and n <= EXACT:
        return Trend(tau, _by_counting(n, (all_pairs - abs(score)) // 2))
    _, alike = np.unique(figures, return_counts=True)
    ties = int((alike * (alike - 1) * (2 * alike + 5)).sum())
    spread = math.sqrt((n * (n - 1) * (2 * n + 5) - ties) / 18)
    return Trend(tau, math.erfc(abs(score) / spread / math.sqrt(2)))


# scipy.stats has both, but takes a second to be imported, in each process that shows a study.
def _by_counting(n: int, swaps: int) -> float:
    """The two-sided p value: what share of all orders is in order but for so many swaps (exact)."""
    ways = np.ones(1)
    for size in range(2, n + 1):
        ways = np.convolve(ways, np.full(size, 1 / size))
    return min(1.0, 2 * float(ways[: swaps + 1].sum()))


def _rank(values: Values) -> Values:
    # Equal values share the middle of their places.
    _, level, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Values = (np.cumsum(count) - (count - 1) / 2)[level]
    return ranks
