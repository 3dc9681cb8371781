"""Two runs, or two executions of a study: what was different, beside how the results differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labkit.claim import compare
from labkit.errors import BadInput, LabkitError
from labkit.results import Results, Run
from labkit.running import measured
from labkit.statistics import percentiles
from labkit.statistics.quantity import Statistic
from labkit.verdict import Verdict

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
class Difference:
    """The facts that differ, the comparisons of what was measured, and why some were not made."""

    a: str
    b: str
    facts: tuple[Fact, ...]
    effects: tuple[Verdict, ...]
    why_not: tuple[str, ...] = ()


def of_runs(a: tuple[Results, Run], b: tuple[Results, Run]) -> Difference:
    """What differed between two runs."""
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
    """What differed between two executions of a study, condition by condition."""
    sides = [{**_asked(one), **_conditions(one)} for one in (a, b)]
    metrics = [measured.main_metric(one) for one in (a, b)]
    if metrics[0] != metrics[1]:
        raise BadInput(f"{a.path} measured {metrics[0]}, {b.path} {metrics[1]}: not comparable")
    ours, theirs = (measured.of_metric(one, metrics[0]) for one in (a, b))
    effects, why_not = [], []
    asked = [name for one in (a, b) for name in one.asked.get("conditions", ())]
    measured_in = {*ours, *theirs}
    for name in dict.fromkeys([*(n for n in asked if n in measured_in), *ours, *theirs]):
        if name not in ours or name not in theirs:
            why_not.append(f"{name}: only {'the first' if name in ours else 'the second'} has it")
            continue
        one_a_run = all(percentiles.count(side[name]) == len(side[name]) for side in (ours, theirs))
        for q in ("mean",) if one_a_run else PERCENTILES:
            try:
                effects.append(_apart(ours[name], theirs[name], q, name))
            except LabkitError as refused:
                why_not.append(f"{name}: {refused.what}")
    return Difference(str(a.path), str(b.path), _facts(*sides), tuple(effects), tuple(why_not))


# Block 3 of one execution has nothing to do with block 3 of another, so no number is in both.
def _apart(a: Mapping[int, Any], b: Mapping[int, Any], q: Statistic, name: str) -> Verdict:
    return compare(a, {-1 - block: values for block, values in b.items()}, q, ("a", f"b ({name})"))


def _asked(results: Results) -> dict[str, str]:
    return dict(_flat({key: value for key, value in results.asked.items() if key != "format"}))


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
