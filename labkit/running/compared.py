"""Two runs, or two executions of a study: what was different, beside how the results differ."""

from __future__ import annotations

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

A_IS = {HOLDS: "lower", CONTRADICTED: "higher", SAME: "the same", UNDECIDED: "not clearly other"}
"""Words about a for each verdict, if b is asked to be higher."""
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
    a: str
    b: str


@dataclass(frozen=True)
class Sides:
    """One figure of a condition in both executions; `ratio` if the effect is a over b."""

    condition: str
    statistic: Statistic
    unit: str
    a: float
    b: float
    ratio: bool


@dataclass(frozen=True)
class Difference:
    """The facts that differ, the comparisons of what was measured, and why some were not made.

    `sides` has the figures of each effect, if whole executions are compared.
    """

    a: str
    b: str
    facts: tuple[Fact, ...]
    effects: tuple[Verdict, ...]
    why_not: tuple[str, ...] = ()
    sides: tuple[Sides, ...] = ()


def of_runs(a: tuple[Results, Run], b: tuple[Results, Run]) -> Difference:
    """The differences between two runs."""
    sides = [{**_asked(results), **_told(run)} for results, run in (a, b)]
    names = ("a", "b") if a[1].condition == b[1].condition else (a[1].condition, b[1].condition)
    values = [{s.metric: s.values for s in measured.samples(*side)} for side in (a, b)]
    effects = [
        compare(values[0][metric], values[1][metric], q, names)
        for metric in values[0]
        if metric in values[1]
        for q in PERCENTILES
    ]
    return Difference(str(a[1].path), str(b[1].path), _facts(*sides), tuple(effects))


def of_results(a: Results, b: Results) -> Difference:
    """The differences between two executions of a study, condition by condition.

    All comparisons share one risk of 5 % of a wrong answer (Holm).
    """
    sides = [{**_asked(one), **_conditions(one)} for one in (a, b)]
    metrics = [measured.main_metric(one) for one in (a, b)]
    if metrics[0] != metrics[1]:
        raise BadInput(f"{a.path} measured {metrics[0]}, {b.path} {metrics[1]}: not comparable")
    ours, theirs = (measured.of_metric(one, metrics[0]) for one in (a, b))
    unit, why_not = _unit(a, metrics[0]), []
    pairs: dict[Order, tuple[Sides, dict[str, Blocks]]] = {}
    for name in _names((a, b), (ours, theirs)):
        if name not in ours or name not in theirs:
            why_not.append(f"{name}: only {'the first' if name in ours else 'the second'} has it")
            continue
        try:
            pairs |= _pairs(name, unit, ours[name], theirs[name])
        except LabkitError as refused:
            why_not.append(f"{name}: {refused.what}")
    both = {name: blocks for _, of in pairs.values() for name, blocks in of.items()}
    judged = [*zip(map(_plain, judge(pairs, both)), (of for of, _ in pairs.values()), strict=True)]
    why_not += [f"{s.condition}: {v.why}" for v, s in judged if v.verdict == NOT_TESTABLE]
    kept = [(v, s) for v, s in judged if v.verdict != NOT_TESTABLE]
    return Difference(
        str(a.path), str(b.path), _facts(*sides), tuple(v for v, _ in kept), tuple(why_not),
        tuple(s for _, s in kept),
    )  # fmt: skip


# As they were asked for, and then what else was measured.
def _names(
    both: tuple[Results, Results], measured_in: tuple[measured.Measured, measured.Measured]
) -> list[str]:
    there = [*measured_in[0], *measured_in[1]]
    asked = [name for one in both for name in one.asked.get("conditions", ()) if name in there]
    return list(dict.fromkeys([*asked, *there]))


def _unit(results: Results, metric: str) -> str:
    rows = (row for run in results.finished() for row in run.rows if row.get("metric") == metric)
    return str(next(rows, {}).get("unit", ""))


# Block 3 of one execution has nothing to do with block 3 of another, so no number is in both.
def _pairs(
    name: str, unit: str, ours: Mapping[int, Any], theirs: Mapping[int, Any]
) -> dict[Order, tuple[Sides, dict[str, Blocks]]]:
    names = (f"a ({name})", f"b ({name})")
    apart = {-1 - block: values for block, values in theirs.items()}
    both = {n: as_blocks(given, 0, name) for n, given in zip(names, (ours, apart), strict=True)}
    ratio = all((np.asarray(v) > 0).all() for side in (ours, theirs) for v in side.values())
    one_a_run = all(percentiles.count(side) == len(side) for side in (ours, theirs))
    asked: tuple[Statistic, ...] = ("mean",) if one_a_run else PERCENTILES
    pairs = {}
    for q in asked:
        order = Order(f"{name}, {q}", f"a is lower than b ({name})", "", (q,), names)
        a, b = (estimated(Quantity(f"'{n}'", q), both).value for n in names)
        pairs[order] = Sides(name, q, unit, a, b, ratio), both
    return pairs


# The name of the condition stands once.
def _plain(v: Verdict) -> Verdict:
    name = v.statement.removeprefix("a is lower than b (").removesuffix(")")
    return replace(v, claim="compare", why=v.why.replace(f"a ({name})", "a"))


def _asked(results: Results) -> dict[str, str]:
    return {name: said for name, said in _flat(results.asked) if name not in NO_FACTS}


def _told(run: Run) -> dict[str, str]:
    return dict(_flat({k: v for k, v in asdict(run).items() if k not in ALWAYS}))


def _conditions(results: Results) -> dict[str, str]:
    seen: dict[str, dict[str, None]] = {}
    for run in results.readable()[0]:
        told = {f"settings of {run.condition}": run.settings, "facts": run.facts,
                f"runs of {run.condition}": run.state}  # fmt: skip
        for what, value in _flat(told):
            seen.setdefault(what, {})[value] = None
    return {what: " | ".join(values) for what, values in seen.items()}


def _flat(whole: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in whole.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}: ")
        else:
            several = isinstance(value, list | tuple)
            yield f"{above}{key}", ", ".join(map(str, value)) if several else str(value)


def _facts(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[Fact, ...]:
    tops = list(dict.fromkeys(name.partition(":")[0] for name in [*a, *b]))
    names = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
    names.sort(key=lambda name: tops.index(name.partition(":")[0]))
    return tuple(Fact(name, a.get(name, ""), b.get(name, "")) for name in names)
