"""Is a run steady: where its warm-up ends, and how blocks drift.

Nothing here cuts anything: it says what it would cut, and a chart shows it.

* Warm-up ends where the standard error of what follows, in means of five, is least (MSER-5: White,
  Cobb, Spratt, Simulation 37, 1997). An end in the second half of the run means that it never
  became steady: the rule of its authors.
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
from labkit.statistics.pooled import Blocks, Values, checked_samples, percentile
from labkit.statistics.spending import RISK, holm

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


@dataclass(frozen=True)
class Steady:
    """One run: `cut` samples are its warm-up; few show nothing about where that ends."""

    samples: int
    cut: int
    steady: bool

    @property
    def share_cut(self) -> float:
        """The share of the run that is warm-up."""
        return self.cut / self.samples


@dataclass(frozen=True)
class Trend:
    """Kendall's tau of the blocks with their order, from -1 to 1, and its two-sided p value."""

    tau: float
    p: float


def steady(values: npt.ArrayLike) -> Steady:
    """Find the end of a run's warm-up, and what remains of the run."""
    series = checked_samples(values)
    if series.size < FEWEST:
        return Steady(series.size, 0, False)
    cut = warm_up(series)
    return Steady(series.size, cut, cut < series.size / 2)


def told(blocks_of: Mapping[str, Blocks]) -> list[str]:
    """Describe what is not steady in a study's runs, a sentence each; nothing is cut.

    Only of half the runs of a condition or more: one in ten looks so by chance.
    """
    sentences, runs_of = [], _runs_of(blocks_of)
    restless = _restless(runs_of)
    for name, runs in runs_of.items():
        warm = [run for run in runs if run.steady and run.share_cut >= WORTH_TELLING]
        if warm and 2 * len(warm) >= len(runs):
            longest = max(warm, key=lambda run: run.share_cut)
            sentences.append(
                f"{name}: {len(warm)} of {len(runs)} runs begin with a warm-up, the longest of "
                f"{longest.cut} of {longest.samples} samples; nothing was cut"
            )
        if name in restless:
            sentences.append(changing(name, *restless[name]))
    return sentences + _drifting(blocks_of)


def unsteady(blocks_of: Mapping[str, Blocks]) -> dict[str, tuple[int, int]]:
    """Count the runs that were still changing, and all, where it is half of them or more."""
    return _restless(_runs_of(blocks_of))


def _runs_of(blocks_of: Mapping[str, Blocks]) -> dict[str, list[Steady]]:
    return {
        name: [steady(values) for _, values in sorted(blocks.items()) if np.size(values) >= FEWEST]
        for name, blocks in blocks_of.items()
    }


def _restless(runs_of: Mapping[str, Sequence[Steady]]) -> dict[str, tuple[int, int]]:
    counts = {name: (sum(not run.steady for run in runs), len(runs))
              for name, runs in runs_of.items()}  # fmt: skip
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
