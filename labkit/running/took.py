"""Times of earlier runs, beside what their loads say of themselves: the next take as long."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from statistics import fmean

from labkit.errors import LabkitError
from labkit.results import Results, stored
from labkit.runs.bundle import recorded
from labkit.study import Study
from labkit.workload import Workload

AROUND_SECONDS = 3.0
"""Beside its load: settings are made and gates are looked at."""


def by_plan(study: Study, workload: Workload) -> dict[str, float]:
    """Seconds of a run of each condition, by what its loads and events say of themselves."""
    return {
        c.name: AROUND_SECONDS
        + sum(c.load(load).seconds for load in (workload, *study.also))
        + sum(e.after + e.seconds + e.settle for e in c.events)
        for c in study.conditions
    }


def factors(study: Study) -> dict[str, float]:
    """Factors by condition: seconds of its runs over those of the plan, in the newest that tell."""
    for results in _before(study.name):
        with suppress(LabkitError, TypeError, ValueError):
            if took := _took(study, results):
                return took
    return {}


def _before(name: str) -> Iterator[Results]:
    for path in reversed(stored(name)):
        with suppress(LabkitError):
            yield Results.open(path)
    with suppress(LabkitError):
        yield Results.open(recorded(name))


# Their knobs may be others than those of the study now, and the plan's seconds follow them.
def _took(study: Study, results: Results) -> dict[str, float]:
    knobs = results.asked.get("workload", {})
    then = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in knobs.items() if name in vars(study.workload)
    }  # fmt: skip
    planned = by_plan(study, replace(study.workload, **then))
    seconds = defaultdict(list)
    for run in results.finished():
        seconds[run.condition].append(run.seconds)
    return {name: fmean(seconds[name]) / planned[name] for name in planned if name in seconds}
