"""Two runs, or two executions of a study: what was different, beside how the results differ."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from labkit.claim import Order, compare, judge
from labkit.errors import BadInput, LabkitError
from labkit.results import Results, Run
from labkit.running import measured
from labkit.statistics import percentiles
from labkit.statistics.estimate import estimated
from labkit.statistics.percentiles import Blocks
from labkit.statistics.pooled import as_blocks
from labkit.statistics.quantity import Quantity, Statistic
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME, UNDECIDED, Verdict

OUTCOMES = {
    HOLDS: "lower", CONTRADICTED: "higher", SAME: "the same", UNDECIDED: "not clearly other",
}  # fmt: skip
"""Words about the new figure for each verdict, if it is asked to be lower than the old one."""
NO_FACTS = ("format", "controls: results")
"""Fields on how results are kept and where their lab's controls lie, not on what was measured."""
PERCENTILES = (50.0, 99.0)
# Every two runs differ in these.
ALWAYS = ("name", "order", "block", "started", "seconds", "measured_seconds",
          "changes_seconds", "rows", "raw", "looks", "path")  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """One thing that was not the same; an empty side did not have it."""

    what: str
    old: str
    new: str


@dataclass(frozen=True)
class Sides:
    """One figure of a condition, or of a metric of one run; `ratio` if the effect is new / old."""

    condition: str
    statistic: Statistic
    unit: str
    old: float
    new: float
    ratio: bool


@dataclass(frozen=True)
class Difference:
    """The facts that differ, the comparisons of what was measured, and why some were not made.

    `effects` are verdicts of new against old, and `sides` has the figures of each.
    """

    old: str
    new: str
    facts: tuple[Fact, ...]
    effects: tuple[Verdict, ...]
    sides: tuple[Sides, ...]
    why_not: tuple[str, ...] = ()


def of_runs(old: tuple[Results, Run], new: tuple[Results, Run]) -> Difference:
    """The differences between two runs."""
    facts = _facts(*(
        {**_parameters(results),
         **dict(_flat({k: v for k, v in asdict(run).items() if k not in ALWAYS}))}
        for results, run in (old, new)
    ))  # fmt: skip
    before, after = ({s.metric: s for s in measured.samples(*side)} for side in (old, new))
    effects, sides = [], []
    for metric, sample in before.items():
        for q in PERCENTILES if metric in after else ():
            blocks_of = {"new": as_blocks(after[metric].values, -1000, metric),
                         "old": as_blocks(sample.values, -2000, metric)}  # fmt: skip
            effects.append(compare(after[metric].values, sample.values, q, ("new", "old")))
            sides.append(_sides(metric, q, sample.unit, blocks_of))
    return Difference(str(old[1].path), str(new[1].path), facts, tuple(effects), tuple(sides))


def of_results(old: Results, new: Results) -> Difference:
    """The differences between two executions of a study, condition by condition.

    All comparisons share one risk of 5 % of a wrong answer (Holm).
    """
    scales = [str(results.asked.get("scale", "fit")) for results in (old, new)]
    if scales[0] != scales[1]:
        problem = f"{old.path} is of scale {scales[0]}, {new.path} of {scales[1]}: not comparable"
        raise BadInput(problem, hint="measure both at one scale: labkit run STUDY -p scale=...")
    facts = _facts(*({**_parameters(results), **_conditions(results)} for results in (old, new)))
    metrics = [measured.main_metric(results) for results in (old, new)]
    if metrics[0] != metrics[1]:
        raise BadInput(f"{old.path} measured {metrics[0]}, {new.path} {metrics[1]}: not comparable")
    before, after = (measured.of_metric(results, metrics[0]) for results in (old, new))
    units = (row.get("unit", "") for run in new.finished() for row in run.rows
             if row.get("metric") == metrics[0])  # fmt: skip
    unit, why_not = str(next(units, "")), []
    pairs: dict[Order, tuple[Sides, dict[str, Blocks]]] = {}
    # As they were asked for, and then what else was measured.
    asked = [name for results in (old, new) for name in results.asked.get("conditions", ())]
    either = before.keys() | after.keys()
    for name in dict.fromkeys([*(name for name in asked if name in either), *before, *after]):
        if name not in before or name not in after:
            why_not.append(f"{name}: only the {'old' if name in before else 'new'} one has it")
            continue
        try:
            pairs |= _pairs(name, unit, before[name], after[name])
        except LabkitError as error:
            why_not.append(f"{name}: {error.what}")
    blocks_of = {name: blocks for _, of in pairs.values() for name, blocks in of.items()}
    rows = [*zip(judge(pairs, blocks_of), (of for of, _ in pairs.values()), strict=True)]
    why_not += [f"{s.condition}: {v.why}" for v, s in rows if v.verdict == NOT_TESTABLE]
    pairs_left = [(replace(v, claim="compare"), s) for v, s in rows if v.verdict != NOT_TESTABLE]
    return Difference(
        str(old.path), str(new.path), facts, tuple(v for v, _ in pairs_left),
        tuple(s for _, s in pairs_left), tuple(why_not),
    )  # fmt: skip


# Block 3 of one execution has nothing to do with block 3 of another, so no number is in both.
def _pairs(
    name: str, unit: str, before: Mapping[int, Any], after: Mapping[int, Any]
) -> dict[Order, tuple[Sides, dict[str, Blocks]]]:
    names = (f"new ({name})", f"old ({name})")
    apart = {-1 - block: values for block, values in before.items()}
    blocks_of = {n: as_blocks(side, 0, name) for n, side in zip(names, (after, apart), strict=True)}
    one_a_run = all(percentiles.count(side) == len(side) for side in (before, after))
    statistics: tuple[Statistic, ...] = ("mean",) if one_a_run else PERCENTILES
    return {
        Order(f"{name}, {q}", f"new is lower than old ({name})", "", (q,), names):
            (_sides(name, q, unit, blocks_of), blocks_of)
        for q in statistics
    }  # fmt: skip


# `both` has the new side first.
def _sides(name: str, q: Statistic, unit: str, blocks_of: Mapping[str, Blocks]) -> Sides:
    new, old = (estimated(Quantity(f"'{side}'", q), blocks_of).value for side in blocks_of)
    ratio = all((np.asarray(v) > 0).all() for side in blocks_of.values() for v in side.values())
    return Sides(name, q, unit, old, new, ratio)


def _parameters(results: Results) -> dict[str, str]:
    return {name: text for name, text in _flat(results.asked) if name not in NO_FACTS}


def _conditions(results: Results) -> dict[str, str]:
    values_of: dict[str, dict[str, None]] = {}
    for run in results.readable()[0]:
        facts_of_run = {f"settings of {run.condition}": run.settings, "facts": run.facts,
                f"runs of {run.condition}": run.state}  # fmt: skip
        for title, value in _flat(facts_of_run):
            values_of.setdefault(title, {})[value] = None
    return {title: " | ".join(values) for title, values in values_of.items()}


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}: ")
        else:
            is_list = isinstance(value, list | tuple)
            yield f"{above}{key}", ", ".join(map(str, value)) if is_list else str(value)


def _facts(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Fact, ...]:
    tops = list(dict.fromkeys(name.partition(":")[0] for name in [*old, *new]))
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    names.sort(key=lambda name: tops.index(name.partition(":")[0]))
    return tuple(Fact(name, old.get(name, ""), new.get(name, "")) for name in names)
