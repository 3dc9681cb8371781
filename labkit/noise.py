"""The noise of a lab: a study's workload measured against itself, nothing being different.

What such a pair differs by is the lab's, not a setting's, so a smaller difference between two
conditions is no finding here, whatever its p value says. The floor of a percentile is how far the
95 % interval of equal / equal reaches from 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.distribution import Values
from labkit.errors import BadInput, ResultsError, Unknown
from labkit.lab import Lab
from labkit.pooled import Blocks
from labkit.progress import Tell
from labkit.results import Results, out
from labkit.stats import Interval, ratio, samples_needed
from labkit.study import PERCENTILES, Condition, Study
from labkit.where import facts

ONE, OTHER = "one", "the other"


@dataclass(frozen=True)
class Level:
    """The noise of one percentile: `floor` 0.04 means that 4 % are no finding on this lab."""

    percentile: float
    ratio: Interval
    floor: float
    lacking: int
    """How many more blocks until the percentile can be called measured."""

    @property
    def different(self) -> bool:
        """Whether equal came out different: in 5 of 100 by chance, in more if a lab is not well."""
        return self.ratio.enough and not self.ratio.low <= 1 <= self.ratio.high


@dataclass(frozen=True)
class Noise:
    """What a lab's noise is for a study's metric under one condition."""

    study: str
    lab: str
    condition: str
    metric: str
    unit: str
    blocks: int
    levels: tuple[Level, ...]
    results: str

    def remark(self, percentile: float, effect: float) -> str:
        """What to add to a verdict whose ratio drowns in the noise; empty when it does not."""
        level = next((found for found in self.levels if found.percentile == percentile), None)
        if level is None or not level.ratio.enough or max(effect, 1 / effect) - 1 > level.floor:
            return ""
        return f"below this lab's noise of {_percent(level.floor)}"


def measure(
    study: Study,
    lab: Lab,
    *,
    where: str,
    label: str,
    condition: str = "",
    repeats: int = 6,
    seed: int = 1,
    tell: Tell = lambda _: None,
) -> Noise:
    """Run a condition of the study (the first that the lab can do) against itself, and keep it."""
    if not label.replace("-", "").replace("_", "").isalnum():
        raise BadInput(f"a label holds letters, digits, - and _ only, not {label!r}")
    chosen = _chosen(study, lab, condition)
    both = (replace(chosen, name=ONE), replace(chosen, name=OTHER))
    itself = replace(study, conditions=both, claims=())
    asked = {
        **itself.asked(where, seed), "label": label, "lab": facts(lab), "refused": {},
        "condition": chosen.name, "metric": study.metric, "unit": study.unit,
    }  # fmt: skip
    results = Results.begin(_folder(lab.name, study.name) / label, asked)
    itself.run(lab, results, repeats=repeats, tell=tell)
    return read(itself, results)


def kept(study: Study, lab: str) -> Noise | None:
    """The lab's newest noise for this study's metric; None if it was never measured."""
    found = _folder(lab, study.name).glob("*/study.json")
    newest = max(found, key=lambda file: file.stat().st_mtime, default=None)
    return read(study, Results.open(newest.parent)) if newest else None


def read(study: Study, results: Results) -> Noise:
    """The noise that these results hold, from the raw text of their runs."""
    sides: Mapping[str, dict[int, Values]] = {ONE: {}, OTHER: {}}
    for run in results.finished():
        sides[run.condition][run.block] = study.sample(run).values
    one, other = sides[ONE], sides[OTHER]
    if not one or not other:
        raise ResultsError(f"{results.path}: holds no finished pair of runs")
    asked = results.asked
    return Noise(
        study.name, asked["lab"]["name"], asked["condition"], asked["metric"], asked["unit"],
        len(set(one) & set(other)), levels(one, other), str(results.path),
    )  # fmt: skip


def levels(one: Blocks, other: Blocks) -> tuple[Level, ...]:
    """The noise of each percentile, from blocks in which both sides were the same."""
    return tuple(_level(one, other, q) for q in PERCENTILES)


def rows(noise: Noise) -> list[tuple[str, str, str]]:
    """For a table: the percentile, its noise, and what to make of it."""
    return [(f"p{level.percentile:g}", _floor(level), _meaning(level)) for level in noise.levels]


def _level(one: Blocks, other: Blocks, q: float) -> Level:
    found = ratio(one, other, q)
    floor = max(found.high, 1 / found.low) - 1
    return Level(q, found, floor, max(samples_needed(side, q) for side in (one, other)))


def _floor(level: Level) -> str:
    return _percent(level.floor) if level.ratio.enough else f"~{_percent(level.floor)}"


def _meaning(level: Level) -> str:
    if not level.ratio.enough:
        return f"too few blocks or samples: about {level.lacking} more blocks of this size"
    if level.different:
        return "equal came out different: look for drift, or for what else runs on the hosts"
    return f"smaller differences than {_percent(level.floor)} are no finding here"


def _chosen(study: Study, lab: Lab, name: str) -> Condition:
    refused = study.refusals(lab)
    if name and name not in {c.name for c in study.conditions}:
        raise Unknown(f"condition of {study.name}", name, [c.name for c in study.conditions])
    able = [c for c in study.conditions if c.name not in refused and (not name or c.name == name)]
    if not able:
        why = refused.get(name) or "; ".join(refused.values())
        raise BadInput(f"{lab.name} cannot do {name or 'any condition'} of {study.name}", said=why)
    return able[0]


def _folder(lab: str, study: str) -> Path:
    # Beside the studies' results, but not among them: these have no claims. Two labs may have
    # names that differ in signs only which no folder can have.
    digest = hashlib.sha256(json.dumps(lab).encode()).hexdigest()[:8]
    plain = "".join(c if c.isalnum() else "-" for c in lab)[:40]
    return out() / "noise" / f"{plain}-{digest}" / study


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
