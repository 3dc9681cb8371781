"""The floor of a lab's noise: what a condition measured against itself differs by.

That difference is the lab's, not a setting's. So a smaller one between two conditions is no finding
here, whatever its p value says. The floor of a percentile is how far the 95 % interval of equal /
equal reaches from 1. Before any block is made, the noncentral t distribution says how large a
difference must be for 80 of 100 studies to find it, at the level that a first look spends.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.controls import folder
from labkit.errors import BadInput, ResultsError
from labkit.results import Results
from labkit.statistics.estimate import ratio
from labkit.statistics.interval import Interval
from labkit.statistics.percentiles import NORMAL, PERCENTILES, samples_needed
from labkit.statistics.pooled import FEWEST_BLOCKS, Blocks, Values
from labkit.statistics.spending import FIRST, RISK
from labkit.study import Study

ONE, OTHER = "one", "the other"
POWER, SURE = 0.8, 0.8
USUAL_BLOCKS = 5
QUICK_BLOCKS = 3
"""Of `labkit noise --quick`."""


@dataclass(frozen=True)
class Level:
    """The noise of one percentile: `floor` 0.04 means that 4 % are no finding on this lab."""

    percentile: float
    ratio: Interval
    floor: float
    lacking: int
    """Further blocks needed until the percentile can be called measured."""

    @property
    def different(self) -> bool:
        """Whether equal came out different: in 5 of 100 by chance, in more if a lab is not well."""
        return self.ratio.enough and not self.ratio.low <= 1 <= self.ratio.high


@dataclass(frozen=True)
class Noise:
    """The noise of a lab for a study's metric under one condition."""

    study: str
    lab: str
    condition: str
    metric: str
    unit: str
    blocks: int
    levels: tuple[Level, ...]
    results: str

    def finds(self, percentile: float, blocks: int, among: int = 1) -> float | None:
        """The smallest difference that 80 of 100 studies of this length find; None if unknown.

        `among` comparisons share the risk.
        """
        level = self._known(percentile)
        if level is None or self.blocks < FEWEST_BLOCKS:
            return None
        # Few blocks may have shown too little, so that 80 of 100 would be fewer.
        scatter = at_most(per_block(level.ratio, self.blocks), self.blocks)
        return smallest(scatter, blocks, among)

    @property
    def margins(self) -> dict[float, float]:
        """By percentile, what is too close to matter on this lab; none after a quick look.

        It is how far equal medians of `USUAL_BLOCKS` come out apart in 95 of 100 studies: so it
        comes from how blocks scatter, and not from how well that is known.
        """
        if self.blocks <= QUICK_BLOCKS:
            return {}
        reach = NORMAL / math.sqrt(USUAL_BLOCKS)
        return {level.percentile: math.expm1(min(reach * per_block(level.ratio, self.blocks), 1.0))
                for level in self.levels if level.ratio.enough}  # fmt: skip

    def hides(self, percentile: float | None, effect: float | None) -> float:
        """The floor that a ratio drowns in; 0 if it does not."""
        level = self._known(percentile)
        hidden = level and effect and max(effect, 1 / effect) - 1 <= level.floor
        return level.floor if level and hidden else 0.0

    def _known(self, percentile: float | None) -> Level | None:
        known = (level for level in self.levels if level.ratio.enough)
        return next((level for level in known if level.percentile == percentile), None)


def kept(study: Study, lab: str) -> Noise | None:
    """The lab's newest noise for this study's metric; None if it was never measured.

    A quick look counts only as long as there is nothing better: its floor is high.
    """
    files = folder(lab, study.name).glob("*/study.json")
    quick: Path | None = None
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
        pairs = _pairs(file.parent)
        if pairs > QUICK_BLOCKS:
            return read(study, Results.open(file.parent))
        quick = quick or (file.parent if pairs else None)
    return read(study, Results.open(quick)) if quick else None


# Blocks of which both runs can be used; what was stopped before the first pair knows no noise.
def _pairs(path: Path) -> int:
    try:
        runs, _ = Results.open(path).readable()
    except ResultsError:
        return 0
    blocks = [{run.block for run in runs if run.condition == side and run.state == "finished"}
              for side in (ONE, OTHER)]  # fmt: skip
    return len(set.intersection(*blocks))


def read(study: Study, results: Results) -> Noise:
    """The noise that these results hold, from the raw text of their runs."""
    sides: Mapping[str, dict[int, Values]] = {ONE: {}, OTHER: {}}
    for run in results.finished():
        sides[run.condition][run.block] = study.sample(run).values
    first, second = sides[ONE], sides[OTHER]
    if not first or not second:
        raise ResultsError(f"{results.path}: holds no finished pair of runs")
    question = results.asked
    return Noise(
        study.name, question["lab"]["name"], question["condition"], question["metric"],
        question["unit"], len(set(first) & set(second)), levels(first, second), str(results.path),
    )  # fmt: skip


def levels(blocks: Blocks, repeat: Blocks) -> tuple[Level, ...]:
    """The noise of each percentile, from blocks in which both sides were the same."""
    found = []
    for q in PERCENTILES:
        interval = ratio(blocks, repeat, q)
        floor = max(interval.high, 1 / interval.low) - 1
        lacking = max(samples_needed(side, q) for side in (blocks, repeat))
        found.append(Level(q, interval, floor, lacking))
    return tuple(found)


def at_most(scatter: float, blocks: int) -> float:
    """Limit of 80 % above the scatter that this number of blocks showed."""
    from scipy.special import chdtri

    return scatter * math.sqrt((blocks - 1) / float(chdtri(blocks - 1, SURE)))


def per_block(interval: Interval, blocks: int) -> float:
    """The scatter of the logarithms of single blocks, given the interval of all."""
    from scipy.special import stdtrit

    half = (math.log(interval.high) - math.log(interval.low)) / 2
    return half / float(stdtrit(blocks - 1, 0.975)) * math.sqrt(blocks)


def smallest(scatter: float, blocks: int, among: int = 1) -> float:
    """The difference, as a share, that 80 of 100 studies of this length find.

    `scatter` is how far the logarithms of single blocks differ; `among` comparisons share the risk.
    """
    from scipy.special import nctdtrinc, stdtrit

    if blocks < 2 or among < 1:
        raise BadInput(f"a difference shows from 2 blocks on, not from {blocks}")
    limit = stdtrit(blocks - 1, 1 - FIRST * RISK / among / 2)
    # Standard errors that the truth must be away for 80 of 100 to come out beyond the limit.
    away = float(nctdtrinc(blocks - 1, 1 - POWER, limit))
    return math.expm1(min(away * scatter / math.sqrt(blocks), 700.0))
