"""The floor of a lab's noise: what a condition measured against itself differs by.

That difference is the lab's, not a setting's. So a smaller one between two conditions is no finding
here, whatever its p value says. The floor of a percentile is how far the 95 % interval of equal /
equal reaches from 1.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from labkit.errors import ResultsError
from labkit.machine.places import out
from labkit.results import Results, Run
from labkit.statistics.estimate import ratio
from labkit.statistics.interval import FAR, Interval
from labkit.statistics.percentiles import NORMAL, PERCENTILES, samples_needed
from labkit.statistics.pooled import FEWEST_BLOCKS, Blocks, Values
from labkit.statistics.power import at_most, per_block, smallest
from labkit.workload import Sample

ONE, OTHER = "one", "the other"
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

    def hides(self, percentile: float, effect: float) -> float:
        """The floor that a ratio drowns in; 0 if it does not."""
        level = self._known(percentile)
        hidden = level is not None and max(effect, 1 / effect) - 1 <= level.floor
        return level.floor if level and hidden else 0.0

    def _known(self, percentile: float) -> Level | None:
        known = (level for level in self.levels if level.ratio.enough)
        return next((level for level in known if level.percentile == percentile), None)


class Read(Protocol):
    """A reader of its own runs: a study."""

    @property
    def name(self) -> str:
        """The study's name."""

    def sample(self, run: Run) -> Sample:
        """Its metric in one run."""


def kept(study: Read, lab: str) -> Noise | None:
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


def read(study: Read, results: Results) -> Noise:
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


def folder(lab: str, study: str) -> Path:
    """The folder that keeps the noise of a study on a lab."""
    # Beside the studies' results, but not among them: these have no claims. Two labs may have
    # names that differ in signs only which no folder can have.
    digest = hashlib.sha256(json.dumps(lab).encode()).hexdigest()[:8]
    plain = "".join(c if c.isalnum() else "-" for c in lab)[:40]
    return out() / "noise" / f"{plain}-{digest}" / study


def percent(share: float) -> str:
    """A share as a reader sees it."""
    if share > FAR:
        return f"more than a factor of {FAR:g}"
    return f"{100 * share:.2g} %" if share < 0.995 else f"a factor of {1 + share:.2g}"
