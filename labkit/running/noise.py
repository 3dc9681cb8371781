"""The noise of a lab: a study's workload measured against itself, nothing being different."""

from dataclasses import asdict, replace
from typing import Any

from labkit.condition import Condition
from labkit.controls import folder
from labkit.errors import BadInput
from labkit.lab import Lab
from labkit.noise_floor import ONE, OTHER, Level, Noise, read
from labkit.results import Results, check_label
from labkit.running import loop, possible
from labkit.running.open_lab import facts
from labkit.runs.progress import Tell
from labkit.statistics.interval import FAR, percent
from labkit.study import Study

FORESEEN = (5, 10, 20)
"""Numbers of blocks for which the smallest difference that they would find is shown."""


def measure(
    study: Study, lab: Lab, *, place: str, label: str, condition: str = "", repeats: int = 6,
    seed: int = 1, tell: Tell = lambda _: None,
) -> Noise:  # fmt: skip
    """Run a condition of the study (the first that the lab can do) against itself, and keep it."""
    check_label(label)
    study = possible.with_free_tools(study, lab)
    subject = _choose(study, lab, condition)
    sides = (replace(subject, name=ONE), replace(subject, name=OTHER))
    itself = replace(study, conditions=sides, claims=())
    question = {
        **itself.asked(place, seed), "label": label, "lab": facts(lab), "refused": {},
        "condition": subject.name, "metric": study.metric, "unit": study.unit,
    }  # fmt: skip
    results = Results.begin(folder(lab.name, study.name) / label, question)
    loop.run(itself, lab, results, repeats=repeats, tell=tell)
    return read(itself, results)


def rows(noise: Noise) -> list[tuple[str, str, str, str]]:
    """For a table: the percentile, its noise, what blocks would find, what to make of it."""
    table = []
    for level in noise.levels:
        floor = percent(level.floor) if level.ratio.enough else "not known"
        finds = [percent(n) for n in _foreseen(noise, level).values() if n is not None]
        row = (f"p{level.percentile:g}", floor, " / ".join(finds) or "not known", _meaning(level))
        table.append(row)
    return table


def _foreseen(noise: Noise, level: Level) -> dict[int, float | None]:
    return {blocks: noise.finds(level.percentile, blocks) for blocks in FORESEEN}


def told(noise: Noise) -> dict[str, Any]:
    """For JSON: an end that the measurements do not bind is None, and so is a floor beyond it."""
    levels = []
    for level in noise.levels:
        ends = {"low": level.ratio.least, "high": level.ratio.most}
        finds = {str(n): _within(number) for n, number in _foreseen(noise, level).items()}
        levels.append({**asdict(level), "ratio": asdict(level.ratio) | ends,
                       "floor": _within(level.floor), "finds": finds})  # fmt: skip
    return {**asdict(noise), "levels": levels}


def _within(number: float | None) -> float | None:
    return number if number is not None and number <= FAR else None


def _meaning(level: Level) -> str:
    if not level.ratio.enough:
        return f"too few blocks or samples: about {level.lacking} more blocks of this size"
    if level.different:
        return "equal came out different: look for drift, or for what else runs on the hosts"
    return f"differences smaller than {percent(level.floor)} count as noise here"


def _choose(study: Study, lab: Lab, name: str) -> Condition:
    conditions = [study.condition(name)] if name else study.conditions
    refusals = possible.refusals(study, lab)
    able = [condition for condition in conditions if condition.name not in refusals]
    if not able:
        reason = refusals.get(name) or "; ".join(refusals.values())
        problem = f"{lab.name} cannot do {name or 'any condition'} of {study.name}"
        raise BadInput(problem, said=reason)
    return able[0]
