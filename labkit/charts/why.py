"""One time line of the slowest requests and of what kernels did."""

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np

from labkit.charts.look import COLOURS, GREY, POINTS, Rows, Values, framed, inline, rounded, tips
from labkit.machine.units import figure, shown
from labkit.running.why import FIGURES, SlowRequests

ROOM, LANE = 0.85, 42
"""The part of its lane that a line may fill, and the pixels of a lane."""
LATENCY = "round trip"


def time_line(requests: SlowRequests, *, note: str = "") -> alt.LayerChart:
    """Round trips and each kernel's figures, a lane each, with a grey line at each slow request."""
    rows = list(_rows(requests))
    lanes = {row["lane"]: row["most"] for row in rows}
    at = {name: len(lanes) - 1 - n for n, name in enumerate(lanes)}
    for row in rows:
        row["base"], row["top"] = at[row["lane"]], rounded(at[row["lane"]] + row["share"] * ROOM)
    names = " : ".join(f"datum.value == {n} ? '{name}'" for name, n in at.items())
    x = alt.X("at:Q", title="time (s)").scale(nice=False)
    y = alt.Y("top:Q", title=None).scale(domain=(0, len(lanes)), nice=False).axis(
        values=[*at.values()], labelExpr=f"{names} : ''", labelBaseline="bottom", grid=True,
        ticks=False, domain=False,
    )  # fmt: skip
    base = alt.Chart(inline(rows)).encode(x=x)
    areas = base.mark_area(color=COLOURS[0], opacity=0.75, line=True).encode(
        y=y,
        y2="base:Q",
        detail="lane:N",
        tooltip=tips("lane", ("at", ",.2f", "s"), ("value", ",~f"), "unit"),
    )
    slow_at = requests.sent[requests.took > requests.limit] - requests.sent[0]
    slow: Rows = [{"at": rounded(t)} for t in slow_at]
    marks = alt.Chart(inline(slow)).mark_rule(color=GREY, opacity=0.6).encode(x=x)
    sentence = "; ".join(f"{name} up to {peak}" for name, peak in lanes.items())
    chart = alt.LayerChart(layer=[marks, areas])
    limit = f"Grey: the slowest 1 %, above {figure(requests.limit)} µs"
    return framed(chart, LANE * len(lanes), "Why the slowest are slow", limit, note, sentence)


# The most of each stretch is drawn, so that no spike is lost.
def _rows(requests: SlowRequests) -> Iterator[dict[str, Any]]:
    zero = requests.sent[0]
    yield from _lane(LATENCY, "us", requests.sent - zero, requests.took)
    for kernel in requests.kernels:
        of = f" ({', '.join(kernel.hosts)})" if len(requests.kernels) > 1 else ""
        for name, values in kernel.figures.items():
            yield from _lane(f"{name}{of}", FIGURES[name], kernel.ends - zero, values)


def _lane(name: str, unit: str, at: Values, values: Values) -> Iterator[dict[str, Any]]:
    peak = float(values.max()) or 1.0
    starts = np.arange(0, len(values), max(1, -(-len(values) // POINTS)))
    for t, value in zip(at[starts], np.maximum.reduceat(values, starts), strict=True):
        yield {"lane": name, "unit": shown(unit), "most": f"{figure(peak)} {shown(unit)}".strip(),
               "at": rounded(float(t)), "value": rounded(float(value)),
               "share": float(value) / peak}  # fmt: skip
