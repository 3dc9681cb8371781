"""Pictures over time: what was reached while something happened, and who got how much of a line.

A million values are binned here, before they are drawn: the mean of each bin is the line, and its
smallest and largest are the band, so no dip is lost.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
import numpy.typing as npt

from labkit.charts.look import (
    GREY,
    LETTERS,
    POINTS,
    Rows,
    Values,
    colour,
    framed,
    inline,
    of_run,
    rounded,
    tip,
)
from labkit.errors import BadInput
from labkit.machine.units import capital, figure, shown

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
    run: str = "",
    title: str = "",
    note: str = "",
) -> alt.LayerChart:
    """Values by the second, with what happened marked; `run` says which run it was."""
    rows = [row for name, (at, values) in series.items() for row in _binned(name, at, values)]
    if not rows:
        raise BadInput("nothing to draw: there are no values", hint="run the study first")
    x = alt.X("at:Q", title="time (s)").scale(nice=False)
    y = alt.Y("value:Q", title=f"{metric} ({shown(unit)})")
    base = alt.Chart(inline(rows)).encode(x=x, color=colour(list(series)))
    band = base.mark_area(opacity=0.25).encode(y="low:Q", y2="high:Q")
    line, of = of_run(base.mark_line(strokeWidth=1.5), run)
    tips = [tip("condition"), tip("at", ",.2f", "s"), tip("value", ",~f", shown(unit)),
            tip("low", ",~f", "from"), tip("high", ",~f", "to"), *of]  # fmt: skip
    layers = [*_marked(list(events), x), band, line.encode(y=y, tooltip=tips)]
    text = "; ".join(
        f"{name} {figure(_mean(values))} on average" for name, (_, values) in series.items()
    )
    happened = "".join(f" {e.name} at {e.begin:g} s." for e in events)
    title, drawn = title or f"{capital(metric)} over time", alt.LayerChart(layer=layers)
    text = f"{metric} over time in {shown(unit)}: {text}.{happened}".rstrip(".")
    banded = any(row["low"] < row["high"] for row in rows)
    return framed(drawn, 280, title, "Band: least to most" if banded else "", note, text)


def _binned(name: str, at: npt.ArrayLike, values: npt.ArrayLike) -> Rows:
    x, y = np.asarray(at, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise BadInput(f"{name}: there must be a number for each moment, and nothing else")
    if (x[1:] < x[:-1]).any():
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    starts = np.arange(0, len(x), max(1, math.ceil(len(x) / POINTS)))
    if not len(x):
        return []
    counts = np.diff([*starts, len(x)])
    parts = (
        np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts,
        np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts),
    )  # fmt: skip
    return [
        {"condition": name, "at": rounded(t), "value": rounded(v), "low": rounded(lo),
         "high": rounded(hi)}
        for t, v, lo, hi in zip(*parts, strict=True)
    ]  # fmt: skip


# What is stacked has to be of the same moments.
def _marked(events: Sequence[Happened], x: alt.X) -> list[alt.Chart]:
    if not events:
        return []
    rows: Rows = [{"at": e.begin, "end": e.end or e.begin, "event": e.name} for e in events]
    base = alt.Chart(inline(rows)).encode(x=x, tooltip=[tip("event"), tip("at", ",~f", "s")])
    return [
        base.mark_rect(opacity=0.2, color=GREY).encode(x2="end:Q"),
        base.mark_rule(color=GREY, strokeDash=[4, 3]),
        # A theme has a colour for what axes say, and none for other text.
        base.mark_text(
            align="left", dx=3, dy=8, baseline="top", style="guide-label", fontSize=LETTERS
        )
        .encode(y=alt.value(0), text="event:N"),
    ]  # fmt: skip


def _mean(values: npt.ArrayLike) -> float:
    found: Values = np.asarray(values, dtype=np.float64)
    return float(found.mean()) if found.size else 0.0
