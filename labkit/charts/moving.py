"""Pictures of an event in the midst of a load: what was reached, with its phases marked."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np

from labkit.charts.over_time import Happened, over_time
from labkit.errors import BadInput
from labkit.event import TimeLine
from labkit.events.migration import seen_over_time
from labkit.results import Run
from labkit.study import Study
from labkit.workload import Series


def around(study: Study, run: Run, *, unit: str = "1/s", note: str = "") -> alt.LayerChart:
    """The load of one run, second by second, and what happened meanwhile."""
    line = _line(study, run)
    found: dict[str, Series] = {}
    for load in study.loads:
        found |= load.over_time(run.text(f"{load.name}.txt"))
    if not found:
        raise BadInput(f"the load of {study.name} tells nothing over time")
    metric = next(iter(found))
    return _drawn(found, line, metric, unit, run, note)


def bandwidth(study: Study, run: Run, *, note: str = "") -> alt.LayerChart:
    """What came in at the destination in each half second, and the CPUs that both sides spent."""
    found = seen_over_time(_text(study, run))
    return _drawn(found, _line(study, run), "Gbit/s, and CPUs", "1", run, note)


def _drawn(
    found: Mapping[str, Series], line: TimeLine, metric: str, unit: str, run: Run, note: str
) -> alt.LayerChart:
    series = {name: (at - line.begun, values) for name, (at, values) in found.items() if at.size}
    first = min((float(np.min(at)) for at, _ in series.values()), default=0.0)
    marks = [
        Happened(one.name, one.begun - line.begun, one.ended - line.begun) for one in line.phases
    ]
    title = f"{run.condition}: {metric} while the guest moves"
    shown = [mark for mark in marks if mark.begin >= first]
    return over_time(
        series, shown, metric=metric, unit=unit, run=run.path.name, title=title, note=note
    )


def _line(study: Study, run: Run) -> TimeLine:
    (event,) = study.events(run.condition)
    return event.time_line(_text(study, run))


def _text(study: Study, run: Run) -> str:
    (event,) = study.events(run.condition)
    return run.text(f"{event.name}.txt")
