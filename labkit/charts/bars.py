"""Bars made of parts: outages step by step, and what each kind of traffic got of one line."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from labkit.charts.look import COLOURS, GREY, Rows, framed, inline, rounded, tips
from labkit.errors import BadInput
from labkit.event import TimeLine
from labkit.machine.units import capital

KINDS = ("storage", "bulk", "migration")
"""The kinds of traffic that share a line."""
Parts = Mapping[str, Sequence[float]]
"""By row the length of each part."""
BEGIN = "Begins when the server is gone."


def outages(rows: Parts, names: Sequence[str], note: str = "") -> alt.LayerChart:
    """A bar for each row, its parts as long as the steps took."""
    bars = _bars(_end_to_end(rows, names), list(rows), names, "step", ("seconds", ",.2f", "s"))
    text = f"Seconds by step. {_said(rows, names, '.1f')}."
    chart = alt.LayerChart(layer=[bars])
    return framed(chart, _height(rows), "What the time is made of", BEGIN, note, text)


def time_line(line: TimeLine, note: str = "") -> alt.LayerChart:
    """One outage: each of its phases on a line of its own, from when it began."""
    parts = [_part(phase.name, phase.name, phase.begun - line.begun, phase.seconds)
             for phase in line.phases]  # fmt: skip
    names = [phase.name for phase in line.phases]
    bars = _bars(parts, names, names, "step", ("seconds", ",.2f", "s"))
    steps = ", ".join(f"{phase.name} {phase.seconds:.2f} s" for phase in line.phases)
    title, chart = f"Time line of a {line.event}", alt.LayerChart(layer=[bars])
    return framed(chart, _height(names), title, BEGIN, note, f"Seconds by step. {steps}.")


def shared_line(
    rates: Parts, line: float, note: str = "", reserved: Mapping[str, float] | None = None
) -> alt.LayerChart:
    """A bar for each row: the Mbit/s of each of KINDS; the dashed line is the uplink's own.

    `reserved` says in which rows storage has Mbit/s of its own, which a solid line marks.
    """
    unit = ("Mbit/s", ",.0f", "Mbit/s")
    bars = _bars(_end_to_end(rates, KINDS), list(rates), KINDS, "kind", unit)
    uplink = alt.Chart(inline([{"line": line}])).mark_rule(strokeDash=[6, 4], color=GREY)
    layers = [bars, uplink.encode(x="line:Q")]
    key = [_key(f"dashed: the uplink, {line:g} Mbit/s")]
    if reserved:
        rows = [{"row": row, "reserved": rate} for row, rate in reserved.items()]
        floors = alt.Chart(inline(rows)).mark_tick(color=GREY, thickness=5, size=44)
        layers.append(floors.encode(
            x="reserved:Q", y=alt.Y("row:N", title=None, sort=list(rates)),
            tooltip=tips(("reserved", ",.0f", "Mbit/s reserved")),
        ))  # fmt: skip
        key.append(_key("solid: storage's reservation"))
    text = f"Mbit/s by kind of traffic. {_said(rates, KINDS, '.0f')}."
    chart = alt.LayerChart(layer=layers)
    return framed(chart, _height(rates), "Who got what of the line", key, note, text)


def _key(words: str) -> tuple[str, str]:
    return f"{capital(words)}.", words


def _height(rows: Sequence[str] | Parts) -> int:
    return 60 + 34 * len(rows)


def _said(rows: Parts, names: Sequence[str], form: str) -> str:
    texts = {row: [f"{n} {v:{form}}" for n, v in zip(names, values, strict=True) if v]
             for row, values in rows.items()}  # fmt: skip
    return "; ".join(f"{row}: {', '.join(parts)}" for row, parts in texts.items())


def _end_to_end(rows: Parts, names: Sequence[str]) -> Rows:
    if not rows:
        raise BadInput("nothing to draw: nothing was measured yet")
    parts: Rows = []
    for row, sizes in rows.items():
        start = 0.0
        for name, size in zip(names, sizes, strict=True):
            parts.append(_part(row, name, start, size))
            start += size
    return parts


def _part(row: str, name: str, start: float, size: float) -> dict[str, Any]:
    return {"row": row, "part": name, "size": rounded(size), "begun": rounded(start),
            "ended": rounded(start + size)}  # fmt: skip


# `unit` is the title of the axis, the form of a figure, and its title when it is hovered.
def _bars(
    parts: Rows, rows: Sequence[str], names: Sequence[str], noun: str, unit: tuple[str, str, str]
) -> alt.Chart:
    title, form, short = unit
    bars: alt.Chart = alt.Chart(inline(parts)).mark_bar().encode(
        x=alt.X("begun:Q", title=title), x2="ended:Q",
        y=alt.Y("row:N", title=None, sort=rows),
        color=alt.Color("part:N", title=None, legend=alt.Legend(orient="top"))
        .scale(domain=list(names), range=list(COLOURS[: len(names)])),
        tooltip=tips("row", ("part", "", noun), ("size", form, short)),
    )  # fmt: skip
    return bars
