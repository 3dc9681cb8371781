"""Is a run steady: where its warm-up ends.

Nothing here cuts anything: it says what it would cut, and a chart shows it. Warm-up ends where the
standard error of what follows, in means of five, is least (MSER-5: White, Cobb, Spratt, Simulation
37, 1997). An end in the second half of the run means that it never became steady: the rule of its
authors.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.statistics.pooled import Blocks, Values, checked_samples

BATCH = 5
FEWEST = 50
"""Fewer samples show nothing about where a warm-up ends."""
LAST = 5
"""Batches at the end that are never looked at: a chance likeness of few has a small error."""
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
    sentences, restless = [], unsteady(blocks_of)
    for name, runs in _runs_of(blocks_of).items():
        warm = [run for run in runs if run.steady and run.share_cut >= WORTH_TELLING]
        if warm and 2 * len(warm) >= len(runs):
            longest = max(warm, key=lambda run: run.share_cut)
            sentences.append(
                f"{name}: {len(warm)} of {len(runs)} runs begin with a warm-up, the longest of "
                f"{longest.cut} of {longest.samples} samples; nothing was cut"
            )
        if name in restless:
            sentences.append(changing(name, *restless[name]))
    return sentences


def unsteady(blocks_of: Mapping[str, Blocks]) -> dict[str, tuple[int, int]]:
    """Count the runs that were still changing, and all, where it is half of them or more."""
    counts = {name: (sum(not run.steady for run in runs), len(runs))
              for name, runs in _runs_of(blocks_of).items()}  # fmt: skip
    return {name: (count, of) for name, (count, of) in counts.items() if count and 2 * count >= of}


def _runs_of(blocks_of: Mapping[str, Blocks]) -> dict[str, list[Steady]]:
    return {
        name: [steady(values) for _, values in sorted(blocks.items()) if np.size(values) >= FEWEST]
        for name, blocks in blocks_of.items()
    }


def changing(name: str, count: int, of: int) -> str:
    """The sentence on runs that were still changing."""
    return f"{name}: {count} of {of} runs were still changing in their second half"


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


def _rank(values: Values) -> Values:
    # Equal values share the middle of their places.
    _, level, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Values = (np.cumsum(count) - (count - 1) / 2)[level]
    return ranks
