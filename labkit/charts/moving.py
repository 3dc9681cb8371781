"""Pictures of an event in the midst of a load: what was reached, with its phases marked."""

from collections.abc import Mapping

import altair as alt
import numpy as np

from labkit.charts.over_time import Happened, over_time
from labkit.errors import BadInput, ResultsError
from labkit.event import TimeLine
from labkit.events.migration import LiveMigration, seen_over_time
from labkit.results import Run
from labkit.study import Study
from labkit.workload import Series

BANDWIDTH, UNIT = "bandwidth", "Mbit/s"
CPU = "CPU (% of one)"


def around(study: Study, run: Run, *, unit: str = "1/s", note: str = "") -> alt.LayerChart:
    """The load of one run, second by second, and what happened meanwhile."""
    line = _line(study, run)
    series: dict[str, Series] = {}
    for load in study.loads:
        series |= load.over_time(run.text(f"{load.name}.txt"))
    if not series:
        raise BadInput(f"the load of {study.name} has no figures over time")
    metric = next(iter(series))
    return _draw(series, line, metric, unit, run.condition, run.path.name, note)


def bandwidth(study: Study, run: Run, *, note: str = "") -> alt.LayerChart:
    """Draw what came in at the destination in each half second, and the CPU time of both sides."""
    series = seen_over_time(_text(study, run))
    line, of = _line(study, run), (run.condition, run.path.name)
    return _draw(series, line, BANDWIDTH, UNIT, *of, note)


def seen_live(text: str, condition: str) -> alt.LayerChart | None:
    """The same of a move that may be under way; None before anything of it was seen."""
    try:
        series, line = seen_over_time(text), LiveMigration.time_line(text)
    except ResultsError:
        return None
    if not any(at.size for at, _ in series.values()):
        return None
    return _draw(series, line, BANDWIDTH, UNIT, condition, "by hand", "")


def _draw(
    series_found: Mapping[str, Series], line: TimeLine, metric: str, unit: str,
    condition: str, run: str, note: str,
) -> alt.LayerChart:  # fmt: skip
    series = {
        name: (at - line.begun, values) for name, (at, values) in series_found.items() if at.size
    }
    first = min((float(np.min(at)) for at, _ in series.values()), default=0.0)
    marks = [
        Happened(phase.name, phase.begun - line.begun, phase.ended - line.begun)
        for phase in line.phases
    ]
    cpu = {name: series.pop(name) for name in [*series] if name.startswith("cpu")}
    title = f"{condition}: {metric}{' and CPU' * bool(cpu)}"
    marks_on = [mark for mark in marks if mark.begin >= first]
    return over_time(series, marks_on, metric=metric, unit=unit, below={CPU: cpu} if cpu else None,
                     run=run, title=title, note=note)  # fmt: skip


def _line(study: Study, run: Run) -> TimeLine:
    (event,) = study.events(run.condition)
    return event.time_line(_text(study, run))


def _text(study: Study, run: Run) -> str:
    (event,) = study.events(run.condition)
    return run.text(f"{event.name}.txt")
