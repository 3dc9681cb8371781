"""Times of earlier runs, beside what their loads say of themselves: the next take as long."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
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
    """By condition: how many times the plan's seconds its runs took, in the newest that tell.

    Those with the knobs of the study come first: a quick run is mostly what no knob changes.
    """
    for results, load in sorted(_before(study), key=lambda pair: pair[1] != study.workload):
        with suppress(LabkitError, TypeError, ValueError):
            if took := _took(results, by_plan(study, load)):
                return took
    return {}


def _before(study: Study) -> Iterator[tuple[Results, Workload]]:
    for path in reversed(stored(study.name)):
        with suppress(LabkitError, TypeError, ValueError):
            results = Results.open(path)
            yield results, _load(study, results)
    with suppress(LabkitError, TypeError, ValueError):
        results = Results.open(recorded(study.name))
        yield results, _load(study, results)


# Their knobs may be others than those of the study now, and the plan's seconds follow them. A knob
# that is 0 now is fitted to the lab, as it was then.
def _load(study: Study, results: Results) -> Workload:
    knobs, knobs_now = results.asked.get("workload", {}), vars(study.workload)
    knobs_then = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in knobs.items() if name in knobs_now and knobs_now[name] != 0
    }  # fmt: skip
    return replace(study.workload, **knobs_then)


def _took(results: Results, plan: Mapping[str, float]) -> dict[str, float]:
    seconds = defaultdict(list)
    for run in results.finished():
        seconds[run.condition].append(run.seconds)
    return {name: fmean(seconds[name]) / plan[name] for name in plan if name in seconds}
