"""The ends of intervals as bars, and as arrows where the measurements set no limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from labkit.charts.look import Rows, inline, rounded
from labkit.machine.units import figure
from labkit.statistics.interval import Interval, lacking

BEYOND = 1.25
"""An arrow ends so far beyond everything else that is drawn."""
ARROWS = "Arrows: no limit on that side. "


def bar(found: Interval | None, blocks: int) -> dict[str, Any]:
    """The fields of a row for an interval: its ends, which of them are open, and all in words."""
    if found is None:
        return between(None, None, "none yet")
    low, high = found.least, found.most
    lack = lacking(low, high, blocks)
    within = "" if low is None and high is None else found.ends(figure)
    words = ", ".join(part for part in (within, lack) if part)
    return {**between(low, high, words), "less": low is None, "more": high is None}


def between(low: float | None, high: float | None, words: str) -> dict[str, Any]:
    """The fields of a row for two ends. One that is None is open; if both are, they say nothing."""
    some = low is not None or high is not None
    return {
        "low": None if low is None else rounded(low),
        "high": None if high is None else rounded(high),
        "less": some and low is None, "more": some and high is None, "interval": words,
    }  # fmt: skip


def reaching(rows: Rows, *also: float) -> Rows:
    """The same rows; open ends reach a little beyond everything that is drawn, `also` these."""
    keys = ("low", "value", "high")
    known = (row[key] for row in rows for key in keys if row.get(key) is not None)
    drawn = [*also, *(value for value in known if math.isfinite(value))]
    edges = {"low": min(drawn, default=0) / BEYOND, "high": max(drawn, default=0) * BEYOND}
    ends = (("less", "low"), ("more", "high"))
    return [{**row, **{key: edges[key] for side, key in ends if row.get(side)}} for row in rows]


def arrows(rows: Rows, base: alt.Chart, axis: str, tips: Sequence[alt.Tooltip]) -> list[alt.Chart]:
    """A layer for each side on which a bar has no end; `axis` is "x" or "y"."""
    shapes = {"x": ("triangle-left", "triangle-right"), "y": ("triangle-down", "triangle-up")}
    sides = zip(("less", "more"), ("low", "high"), shapes[axis], strict=True)
    return [
        base.mark_point(shape=shape, filled=True, size=70, opacity=1)
        .properties(data=inline(some)).encode(**{axis: f"{end}:Q"}, tooltip=list(tips))
        for side, end, shape in sides if (some := [row for row in rows if row.get(side)])
    ]  # fmt: skip


def legend(rows: Rows) -> str:
    """The legend's words on arrows; empty if there are none."""
    return ARROWS if any(row.get("less") or row.get("more") for row in rows) else ""
