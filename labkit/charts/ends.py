"""The ends of intervals as bars, as arrows where there is no limit, and few blocks as ticks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from labkit.charts.look import Rows, inline, rounded
from labkit.machine.units import figure
from labkit.statistics.interval import Interval, lacking

BEYOND = 1.25
"""An arrow ends so far beyond everything else that is drawn."""
DIAMONDS = ("Diamonds: the document's.", "◆ the document")
BARS = ("Bars: 95 % intervals.", "bars: 95 % intervals")
ARROWS = ("Arrows: no limit on that side.", "arrows: no limit")
TICKS = ("Ticks: each block, where these are too few for an interval.", "ticks: each block")


def bar(interval: Interval | None, blocks: int) -> dict[str, Any]:
    """The fields of a row for an interval: its ends, which of them are open, and all in words.

    Of few blocks each is shown.
    """
    if interval is None:
        return between(None, None, "none yet")
    low, high = interval.least, interval.most
    if interval.each:
        return between(None, None, interval.ends(figure), interval.each)
    lack = lacking(low, high, blocks)
    within = "" if low is None and high is None else interval.ends(figure)
    words = ", ".join(filter(None, (within, lack)))
    return {**between(low, high, words), "less": low is None, "more": high is None}


def between(
    low: float | None, high: float | None, words: str, blocks: Sequence[float] = ()
) -> dict[str, Any]:
    """The fields of a row for two ends. One that is None is open; if both are, they say nothing."""
    has_end = low is not None or high is not None
    return {
        "low": None if low is None else rounded(low),
        "high": None if high is None else rounded(high),
        "less": has_end and low is None, "more": has_end and high is None, "interval": words,
        **({"each": [*map(rounded, blocks)]} if blocks else {}),
    }  # fmt: skip


def reaching(rows: Rows, *also: float) -> Rows:
    """The same rows; open ends reach a little beyond everything that is drawn, `also` these."""
    values = (x for row in rows for x in drawn_of(row))
    finite = [*also, *(value for value in values if math.isfinite(value))]
    edges = {"low": min(finite, default=0) / BEYOND, "high": max(finite, default=0) * BEYOND}
    ends = (("less", "low"), ("more", "high"))
    return [{**row, **{key: edges[key] for side, key in ends if row.get(side)}} for row in rows]


def drawn_of(row: Mapping[str, Any]) -> list[float]:
    """All that is drawn of a row."""
    ends = (row.get(key) for key in ("low", "value", "high"))
    return [*(end for end in ends if end is not None), *row.get("each", ())]


def bars_and_marks(
    rows: Rows, base: alt.Chart, at: alt.X | alt.Y, tips: Sequence[alt.Tooltip], size: int = 90,
    **channels: Any,
) -> list[alt.Chart]:  # fmt: skip
    """The bar of each row along an axis, a mark at its value, and what stands beside its bar."""
    axis = "x" if isinstance(at, alt.X) else "y"
    bars = base.mark_rule(strokeWidth=2).encode(**{axis: "low:Q", f"{axis}2": "high:Q"})
    dots = base.mark_point(filled=True, opacity=1, size=size)
    return [
        bars.encode(tooltip=list(tips)).transform_filter("isValid(datum.low)"),
        dots.encode(**channels, **{axis: at}, tooltip=list(tips)),
        *beside_bars(rows, base, axis, tips),
    ]


def beside_bars(
    rows: Rows, base: alt.Chart, axis: str, tips: Sequence[alt.Tooltip]
) -> list[alt.Chart]:
    """An arrow on each side on which a bar has no end, and a tick for each of few blocks.

    `axis` is "x" or "y".
    """
    shapes = {"x": ("triangle-left", "triangle-right"), "y": ("triangle-down", "triangle-up")}
    arrows = [
        base.mark_point(shape=shape, filled=True, size=70, opacity=1)
        .properties(data=inline(rows_of_side)).encode(**{axis: f"{end}:Q"}, tooltip=list(tips))
        for side, end, shape in zip(("less", "more"), ("low", "high"), shapes[axis], strict=True)
        if (rows_of_side := [row for row in rows if row.get(side)])
    ]  # fmt: skip
    blocks = [{**row, "block": figure} for row in rows for figure in row.get("each", ())]
    if not blocks:
        return arrows
    ticks = base.mark_tick(orient="vertical" if axis == "x" else "horizontal", size=12, thickness=1)
    ticks = ticks.properties(data=inline(blocks))
    return [*arrows, ticks.encode(**{axis: "block:Q"}, tooltip=list(tips))]


def key(rows: Rows, document: object = None) -> list[tuple[str, str]]:
    """The key of diamonds, if there is a `document`, and of bars, arrows and ticks if there are."""
    bars = any(row.get("low") is not None or row.get("high") is not None for row in rows)
    arrows = any(row.get("less") or row.get("more") for row in rows)
    ticks = any(row.get("each") for row in rows)
    pairs = ((document, DIAMONDS), (bars, BARS), (arrows, ARROWS), (ticks, TICKS))
    return [pair for there, pair in pairs if there]
