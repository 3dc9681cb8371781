"""Pictures over time: what was reached while something happened, counters, how busy CPUs were.

A million values are binned here, before they are drawn: the mean of each bin is the line, and its
smallest and largest are the band, so no dip is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import altair as alt
import numpy as np
import numpy.typing as npt

from labkit.charts import look
from labkit.errors import BadInput
from labkit.machine.units import capital, figure, shown
from labkit.telemetry.matching import short

if TYPE_CHECKING:
    from labkit.telemetry.counters import Columns

HEIGHT, LOW, APART = 280, 170, 26
"""Pixels of a picture of one panel, of each of several, and between these."""
LINES, LETTER = 5, 9
"""Lines for the names of what happened, and the pixels of a letter, axes reckoned in."""
MOST_COUNTERS = 12
"""More lines than these cannot be seen apart."""
MOST_ROWS = 1200
"""Of more stretches of CPUs, some are put together."""

Series = Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]
"""Name -> moments in seconds, and the value at each."""


@dataclass(frozen=True)
class Happened:
    """An event during the measurement, in seconds from the start; `end` if it took time."""

    name: str
    begin: float
    end: float | None = None


def over_time(
    series: Series,
    events: Iterable[Happened] = (),
    *,
    metric: str = "throughput",
    unit: str = "1/s",
    below: Mapping[str, Series] | None = None,
    run: str = "",
    title: str = "",
    note: str = "",
) -> alt.LayerChart:
    """Values by the second, with what happened marked; `run` says which run it was.

    `below` are series in other units: a panel under it for each, by the title of its axis.
    """
    panels = [(f"{metric} ({shown(unit)})", series), *(below or {}).items()]
    series_all = {name: pair for _, group in panels for name, pair in group.items()}
    bins = {name: _bin(name, *pair) for name, pair in series_all.items()}
    rows = [row for group in bins.values() for row in group]
    if not rows:
        raise BadInput("nothing to draw: there are no values", hint="run the study first")
    x = alt.X("at:Q", title="time (s)").scale(nice=False)
    layers, height = [], HEIGHT if len(panels) == 1 else LOW
    for n, (of, group) in enumerate(panels):
        y = alt.Y("value:Q", title=of)
        if len(panels) > 1:
            top = n * (LOW + APART)
            y = y.scale(range=[top + LOW, top]).axis(orient="left", tickCount=5)
        layers.append(_panel([row for name in group for row in bins[name]], series_all, x, y, run))
    tips = look.tips("event", ("at", ",~f", "s"))
    marks = marked(list(events), x, [row["at"] for row in rows], tips)
    if len(panels) == 1:
        chart = alt.LayerChart(layer=[*marks, *layers[0]])
    else:
        chart = alt.LayerChart(layer=[*marks, *(alt.layer(*panel) for panel in layers)])
        chart = chart.resolve_scale(y="independent")
    figures = {name: np.asarray(y, dtype=np.float64) for name, (_, y) in series_all.items()}
    text = "; ".join(f"{name} {figure(float(y.mean()) if y.size else 0.0)} on average"
                     for name, y in figures.items())  # fmt: skip
    sentence = "".join(f" {e.name} at {e.begin:g} s." for e in events)
    text = f"{metric} over time in {shown(unit)}: {text}.{sentence}".rstrip(".")
    caption = "Band: least to most" * any(row["low"] < row["high"] for row in rows)
    height += (len(panels) - 1) * (LOW + APART)
    return look.framed(chart, height, title or f"{capital(metric)} over time", caption, note, text)


def _panel(
    rows: look.Rows, names: Mapping[str, object], x: alt.X, y: alt.Y, run: str
) -> list[alt.Chart]:
    base = alt.Chart(look.inline(rows)).encode(x=x, color=look.colour(list(names)))
    band = base.mark_area(opacity=0.25).encode(y="low:Q", y2="high:Q")
    line, of = look.of_run(base.mark_line(strokeWidth=1.5), run)
    tips = look.tips("condition", ("at", ",.2f", "s"), ("value", ",~f"), ("low", ",~f", "from"),
                     ("high", ",~f", "to"), *of)  # fmt: skip
    return [band, line.encode(y=y, tooltip=tips, strokeDash=look.dash(list(names)))]


def _bin(name: str, at: npt.ArrayLike, values: npt.ArrayLike) -> look.Rows:
    x, y = np.asarray(at, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise BadInput(f"{name}: there must be a number for each moment, and nothing else")
    if (x[1:] < x[:-1]).any():
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    starts = np.arange(0, len(x), max(1, math.ceil(len(x) / look.POINTS)))
    if not len(x):
        return []
    counts = np.diff([*starts, len(x)])
    parts = (
        np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts,
        np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts),
    )  # fmt: skip
    return [
        {"condition": name, "at": look.rounded(t), "value": look.rounded(v),
         "low": look.rounded(lo), "high": look.rounded(hi)}
        for t, v, lo, hi in zip(*parts, strict=True)
    ]  # fmt: skip


def marked(
    events: Sequence[Happened], x: alt.X, moments: Sequence[float], tips: Sequence[alt.Tooltip]
) -> list[alt.Chart]:
    """Marks of what happened among these moments: a line each, grey while it took, and its name."""
    if not events:
        return []
    rows: look.Rows = [{"at": e.begin, "end": e.end or e.begin, "event": e.name} for e in events]
    base = alt.Chart(look.inline(rows)).encode(x=x, tooltip=list(tips))
    ends = [*moments, *(end for row in rows for end in (row["at"], row["end"]))]
    return [
        base.mark_rect(opacity=0.2, color=look.GREY).encode(x2="end:Q"),
        base.mark_rule(color=look.GREY, strokeDash=[4, 3]),
        *(
            # A theme has a colour for what axes say, and none for other text.
            alt.Chart(look.inline(group))
            .mark_text(align="right" if to_left else "left", dx=-3 if to_left else 3,
                       dy=8 + 18 * line, baseline="top", style="guide-label", fontSize=look.LETTERS)
            .encode(x=x, y=alt.value(0), text="label:N")
            for (line, to_left), group in _place(rows, min(ends), max(ends)).items()
        ),
    ]  # fmt: skip


# The line and the side on which each name is written, so that none runs out or over another; for
# what has no room the rule speaks when it is hovered. The last come first: a switch-over is last.
def _place(rows: look.Rows, first: float, last: float) -> dict[tuple[int, bool], look.Rows]:
    starts = [last] * LINES
    labels: dict[tuple[int, bool], look.Rows] = {}
    for row in sorted(rows, key=lambda row: row["at"], reverse=True):
        wide = (last - first) * ((len(row["event"]) + 2) * LETTER + 6) / look.WIDTH
        to_left = row["at"] + wide > last
        start = row["at"] - wide * to_left
        free = [n for n, bound in enumerate(starts) if start + wide <= bound]
        for line in free[:1]:
            starts[line] = start
            # Of rules close together an arrow says which is meant.
            label = f"{row['event']} →" if to_left else f"← {row['event']}"
            labels.setdefault((line, to_left), []).append({**row, "label": label})
    return labels


def counters_over_time(columns: Columns, *, title: str = "", note: str = "") -> alt.LayerChart:
    """Each counter as a line, over the seconds since the first moment of the file."""
    if len(columns.names) > MOST_COUNTERS:
        number = len(columns.names)
        problem = f"{number} counters are too many for one picture, which takes {MOST_COUNTERS}"
        raise BadInput(problem, hint="name fewer, such as one guest or one counter")
    counter, names = short(columns.names)
    at = (columns.times - columns.times[0]) / np.timedelta64(1, "s")
    series = {
        name: (at[is_there := np.isfinite(values)], values[is_there])
        for name, values in zip(names, columns.values.T, strict=True)
    }
    unit = "%" if counter.startswith("%") else "as printed"
    metric = counter.removeprefix("%").strip() or "value"
    return over_time(series, metric=metric, unit=unit, title=title, note=note)


def cores(rows: look.Rows, *, run: str = "", note: str = "") -> alt.Chart:
    """A row for each CPU, from the run's begin to its end: the darker, the busier.

    `rows` are those of `labkit.probes.cpu_time.over_time`; `run` says which run it was.
    """
    if not rows:
        raise BadInput("nothing to draw: this run holds no CPU time")
    cpus = sorted({row["cpu"] for row in rows}, key=lambda name: int(name.removeprefix("cpu")))
    base, of = look.of_run(alt.Chart(look.inline(_fewer_stretches(rows))), run)
    picture = base.mark_rect().encode(
        x=alt.X("begun:Q", title="seconds since the run began").scale(nice=False),
        x2="ended:Q",
        y=alt.Y("cpu:N", sort=cpus, title=None),
        color=alt.Color("busy:Q", title="busy").scale(scheme="blues", domain=[0, 1])
        .legend(orient="top", format="%", gradientLength=200),
        tooltip=look.tips("cpu", ("begun", ".1f", "from (s)"), ("ended", ".1f", "to (s)"),
                          ("busy", ".0%"), ("stolen", ".1%"), *of),
    )  # fmt: skip
    text = f"Busy on average: {', '.join(f'{cpu} {_mean_busy(rows, cpu):.0%}' for cpu in cpus)}"
    height, title = max(60, 24 * len(cpus)), "How busy each CPU was"
    chart: alt.Chart = look.framed(picture, height, title, "", note, text)
    return chart


def _mean_busy(rows: look.Rows, cpu: str) -> float:
    spans = [(row["ended"] - row["begun"], row["busy"]) for row in rows if row["cpu"] == cpu]
    total = sum(seconds for seconds, _ in spans)
    return sum(seconds * busy for seconds, busy in spans) / total if total else 0.0


# Neighbours of one CPU become one, weighted by their length.
def _fewer_stretches(rows: look.Rows) -> look.Rows:
    at_once = -(-len(rows) // MOST_ROWS)
    if at_once < 2:
        return rows
    rows_kept: look.Rows = []
    for cpu in dict.fromkeys(row["cpu"] for row in rows):
        of_cpu = [row for row in rows if row["cpu"] == cpu]
        groups = (of_cpu[n : n + at_once] for n in range(0, len(of_cpu), at_once))
        rows_kept += [
            {"cpu": cpu, "begun": group[0]["begun"], "ended": group[-1]["ended"],
             "busy": round(_mean_busy(group, cpu), 4),
             "stolen": max(row["stolen"] for row in group)}
            for group in groups
        ]  # fmt: skip
    return rows_kept
