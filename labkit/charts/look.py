"""The look of every picture: colours, axes, titles, and the form in which it is shown.

A picture is as wide as its cell, under one line; the rest opens at a sign.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any, TypeVar

import altair as alt
import numpy as np
import numpy.typing as npt
import vl_convert

from labkit.errors import BadInput, ResultsError, Unknown, readable
from labkit.kernels import Note
from labkit.machine.scripts import beside
from labkit.machine.units import capital, shown

Values = npt.NDArray[np.float64]
Blocks = Mapping[int, Values]
Rows = list[dict[str, Any]]
Runs = Mapping[tuple[str, int], str]
"""Condition and block -> the name of the run, shown when the mouse is over its mark."""
Key = Sequence[tuple[str, str]]
"""Sentences about the marks of a picture, each with its few words for a narrow cell."""

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
SCALES = ("log", "linear")
# Each has a contrast of 3 or more to white and to the dark grey of Vega's dark theme, which leaves
# little room between light and dark; they were chosen in it so that eyes without red or without
# green keep them apart too, best the first ones. Of more conditions than colours, those of one
# colour have different shapes.
COLOURS = ("#2484C0", "#F06C0C", "#9C78FC", "#249084", "#849C60", "#FC18E4", "#907854", "#F03C9C",
           "#009CB4", "#D8540C")  # fmt: skip
SHAPES = ("circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right",
          "triangle-left")  # fmt: skip
DASHES = ([1, 0], [7, 3], [2, 2])
GREY = "#949494"
WIDTH, MOST_WIDTH = 540, 1100
"""Pixels of the whole picture, axes and legend included: as it is laid out at least, and at most.

What is narrower shows it smaller; at 350 pixels its letters are still 9 pixels high.
"""
SIGN = "about"
"""The layer of the sign."""
LINE = 76
"""Letters of the line below the title."""
BELOW = 30
"""Pixels from the lower end of the axis to the sign, which stands left of the axis' title."""

# A cell has no width before it is on the page, and a page tells of a change only if the window
# changes; so the picture also looks when the mouse comes to it.
_ROOM = "isFinite(containerSize()[0]) ? containerSize()[0] : 0"
_CELL = f"clamp({_ROOM}, {WIDTH}, {MOST_WIDTH})"
_FOLLOWING = [
    {"name": "room", "init": _CELL,
     "on": [{"events": "window:resize, view:pointerover", "update": _CELL}]},
    {"name": "width", "init": _CELL, "on": [{"events": {"signal": "room"}, "update": "room"}]},
]  # fmt: skip

POINTS = 600
SLOWEST = 100
"""A picture over time draws at most POINTS evenly spaced values, and the SLOWEST besides."""
MOST_NAMED = 5
"""Runs of a mark that are named."""

V5 = "application/vnd.vegalite.v5+json"
# Of no release: Vega-Embed warns of a newer one than that which draws, and JupyterLab has 5.6.
V5_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
LETTERS = 14
"""Pixels."""
# Text and axes get no colour here, so that JupyterLab's dark theme can choose one.
LOOK = {
    "axis": {"labelFontSize": LETTERS, "titleFontSize": LETTERS, "gridOpacity": 0.5,
             "labelLimit": 300, "labelSeparation": 6},
    "axisQuantitative": {"tickCount": 8},
    "legend": {"labelFontSize": LETTERS, "titleFontSize": LETTERS, "symbolSize": 90,
               "labelLimit": 500},
    "title": {"anchor": "start", "fontSize": LETTERS + 2, "subtitleFontSize": LETTERS,
              "subtitlePadding": 6},
    "range": {"category": list(COLOURS)},
    "view": {"continuousWidth": WIDTH, "continuousHeight": 320},
    "autosize": {"type": "fit-x", "contains": "padding"},
}  # fmt: skip

BELOW_NAMES = alt.Axis(titleAnchor="end")
"""An axis that long names on its left leave little room: its title ends with it, and is whole."""

# The page's own colours are taken from its style and not from the picture, so that they follow when
# the theme is changed. In a narrow cell the whole picture is made smaller, down to what a window of
# 800 pixels leaves beside the list of files: nothing is cut off. Hovering still finds its marks, as
# it does not on a canvas that was scaled. What stands in place of Vega-Embed's own style styles its
# menu too.
STYLE = beside(__file__, "embedded.css")
EMBEDDED = {V5: {"embed_options": {"renderer": "svg", "defaultStyle": STYLE}}}
"""The metadata of a chart's display, from which JupyterLab takes how to draw it."""

MOST_LABELS = 8
MOST_EVEN = 7
LEGEND_WIDTH = 70
"""Characters of legend that fit beside each other, or of a line below the title."""


def enable() -> None:
    """Show every Altair chart in a form that JupyterLab 4 draws, with no network."""
    alt.renderers.register("labkit", lambda spec, **_: (bundle(spec), EMBEDDED))
    alt.renderers.enable("labkit")


def bundle(spec: Mapping[str, Any], **_: Any) -> dict[str, Any]:
    """A chart's display: interactive for JupyterLab, a picture for the rest, words for ears."""
    picture = whole(spec)
    text = readable(str(spec.get("description", "chart")))
    return {V5: filling(picture), "image/svg+xml": svg(picture), "text/plain": text}


def filling(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The picture that follows the width of its cell, under one line.

    The rest of what stands below its title opens when the mouse is over a sign.
    """
    picture = {**spec}
    meta = spec.get("usermeta", {})
    about = meta.get("about", {})
    text = ". ".join(filter(None, about.values()))
    if text:
        line = text if len(text) <= LINE else _fitting(meta.get("brief", ()))
        picture = {**picture, "title": {**spec["title"], "subtitle": [line] if line else []}}
    if len(text) > LINE:
        picture = _sign(picture, about)
    if spec.get("width") == WIDTH:
        picture["params"] = [*picture.get("params", ()), *_FOLLOWING]
    return picture


def _fitting(phrases: Iterable[str]) -> str:
    line = ""
    for phrase in filter(None, phrases):
        between = ". " if phrase[0].isupper() else "; "
        longer = f"{line}{between}{phrase}" if line else phrase
        line = longer if len(longer) <= LINE else line
    return capital(line)


def _sign(spec: dict[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    tips = [{"field": name, "type": "nominal"} for name, text in about.items() if text]
    sign = {
        "name": SIGN, "data": {"values": [about]},
        "mark": {"type": "text", "text": "details", "align": "right", "fontSize": 14, "x": -8,
                 "y": spec.get("height", 0) + BELOW, "style": "guide-label", "aria": False},
        "encoding": {"tooltip": tips},
    }  # fmt: skip
    inner = ("mark", "encoding", "transform", "params", "data")
    layers = spec.get("layer") or [{key: spec[key] for key in inner if key in spec}]
    outer = spec if "layer" in spec else {k: v for k, v in spec.items() if k not in inner}
    return {**outer, "layer": [*layers, sign]}


def without_sign(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The picture where its cell shows what the sign would open, or where nothing can open."""
    layers = [layer for layer in spec.get("layer", ()) if layer.get("name") != SIGN]
    return {**spec, "layer": layers} if layers else {**spec}


def whole(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The picture with its look, at its least width and with all that stands below its title.

    JupyterLab 4.6 carries Vega-Lite 5 and knows no MIME type of version 6, which Altair 6 writes.
    """
    looks = {"$schema": V5_SCHEMA, "config": {**LOOK, **spec.get("config", {})}}
    return {**harmless(spec), **looks}


def svg(spec: Mapping[str, Any]) -> str:
    """The picture as SVG that names itself to a screen reader."""
    try:
        text = vl_convert.vegalite_to_svg(harmless(dict(spec)), vl_version="5.8")
    except ValueError as odd:
        raise ResultsError("the picture cannot be drawn", said=str(odd)) from None
    label = escape(readable(str(spec.get("description", "chart"))))
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


# Vega-Lite 5 puts the titles of axes and tooltips into an expression as they are, where a quote
# would end the text and begin code; and the drawing of a control character ends the whole process.
IN_TITLES = str.maketrans({'"': "\u201d", "\\": "\uff3c", "\n": " "})

# Vega looks names up in tables that have these already.
OF_OBJECTS = {"constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toString",
              "toLocaleString", "valueOf", "__proto__"}  # fmt: skip


def harmless(spec: Any, within: bool = False) -> Any:
    """The picture with every text in a form that is drawn, and nothing else."""
    if isinstance(spec, str):
        return readable(spec) + " " * (spec in OF_OBJECTS)
    if isinstance(spec, list):
        return [harmless(part, within) for part in spec]
    if not isinstance(spec, dict):
        return spec
    inner = {key: harmless(part, within or key == "encoding") for key, part in spec.items()}
    if within and isinstance(inner.get("title"), str):
        inner["title"] = inner["title"].translate(IN_TITLES)
    return inner


def insist(blocks_of: Mapping[str, Blocks], scale: str = "log") -> None:
    """Refuse to draw nothing, or on a scale that there is not."""
    if scale not in SCALES:
        raise Unknown("scale", scale, SCALES)
    if not any(len(values) for blocks in blocks_of.values() for values in blocks.values()):
        raise BadInput("nothing to draw: no finished runs", hint="run the study first")
    for name, blocks in blocks_of.items():
        if not all(np.isfinite(values).all() for values in blocks.values()):
            raise BadInput(f"{name}: some samples are not numbers")


# On a log scale the ends are chosen here: Vega would go down and up to the next power of ten.
# It has no place for 0 and less, which Vega would draw at the wrong end: they need a linear one.
def time_axis(metric: str, unit: str, scale: str, rows: Rows) -> dict[str, Any]:
    """An axis of times from the smallest to the largest that is drawn."""
    title, axis = f"{metric} ({shown(unit)})", alt.Axis(format=",~f", tickCount=6)
    keys = ("low", "value", "high")
    values = [row[key] for row in rows for key in keys if row.get(key) is not None]
    if scale != "log" or min(values) <= 0:
        return {"title": title, "axis": axis, "scale": alt.Scale(zero=True)}
    domain = [min(values) / 1.25, max(values) * 1.25]
    axis["values"] = steps(*domain)
    return {"title": title, "axis": axis,
            "scale": alt.Scale(type="log", domain=domain, nice=False)}  # fmt: skip


def steps(low: float, high: float) -> list[float]:
    """The labels of a logarithmic axis: as many as fit, evenly by a visible rule."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    labels: list[float] = []
    for marks in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
        values_all = [float(f"{mark * 10.0**power:.3g}") for power in powers for mark in marks]
        values = [value for value in values_all if low <= value <= high]
        if len(values) > MOST_LABELS:
            break
        labels = values
    return labels


def even_steps(low: float, high: float) -> list[float]:
    """Labels that have room on an axis of ratios: evenly apart if the axis is short."""
    if high >= 4 * low:
        return steps(low, high)
    power = 10.0 ** math.floor(math.log10((high - low) / MOST_EVEN))
    apart = next(m * power for m in (1, 2, 5, 10) if m * power * MOST_EVEN >= high - low)
    numbers = range(math.ceil(low / apart), math.floor(high / apart) + 1)
    return [float(f"{n * apart:.6g}") for n in numbers]


def colour(names: Sequence[str], field: str = "condition") -> alt.Color:
    """A colour for each condition, the same whichever of them are drawn."""
    return alt.Color(f"{field}:N", **_each(names, lambda i: COLOURS[i % len(COLOURS)]))


def shape(names: Sequence[str]) -> alt.Shape:
    """A shape for each condition, for eyes and printers without colour."""
    number = len(SHAPES)
    return alt.Shape(
        "condition:N", **_each(names, lambda i: SHAPES[(i + i // len(COLOURS)) % number])
    )


def dash(names: Sequence[str]) -> Any:
    """Dashes that tell lines of one colour apart, if there are more conditions than colours."""
    if len(names) <= len(COLOURS):
        return alt.Undefined
    dashes = _each(names, lambda i: DASHES[(i // len(COLOURS)) % len(DASHES)])
    return alt.StrokeDash("condition:N", **dashes)


def _each(names: Sequence[str], look: Callable[[int], Any]) -> dict[str, Any]:
    cycle = [look(i) for i in range(len(names))]
    return {"legend": _legend(names), "scale": alt.Scale(domain=list(names), range=cycle)}


# As many columns as fit above the picture; one row of many names would be wider than any screen.
def _legend(names: Sequence[str]) -> alt.Legend:
    longest = max(map(len, names), default=1)
    columns = max(1, min(len(names), LEGEND_WIDTH // (longest + 4)))
    return alt.Legend(
        orient="top", title=None, symbolOpacity=1, symbolLimit=0,
        columns=columns if columns < len(names) else alt.Undefined,
    )  # fmt: skip


def _lines(text: str) -> list[str]:
    return wrap(text, LEGEND_WIDTH, break_on_hyphens=False)


AnyChart = TypeVar("AnyChart", alt.Chart, alt.LayerChart)


def framed(
    picture: AnyChart, height: int, title: str, key: Key | str, note: str, text: str
) -> AnyChart:
    """The picture at its size, under its title, the lab's note and the key of its marks.

    `text` is a sentence for ears. In a cell one line below the title has only what fits of the
    note's brief form and the few words of the key.
    """
    pairs: Key = [(key, key)] if isinstance(key, str) else key
    subtitle: str = " ".join(sentence for sentence, _ in pairs)
    brief = [note.brief if isinstance(note, Note) else note, *(words for _, words in pairs)]
    full_title = alt.TitleParams(_lines(title), subtitle=[*_lines(note), *_lines(subtitle)])
    complete: AnyChart = picture.properties(
        width=WIDTH, height=height, title=full_title, description=f"{text}. {note}".strip(),
        usermeta={"about": {"lab": note, "picture": subtitle}, "brief": brief},
    )  # fmt: skip
    return complete


INTERVAL = ("interval", "", "95 % interval")
"""The line of a 95 % interval, in words: an end may be none."""


def tips(*lines: str | tuple[str, ...]) -> list[alt.Tooltip]:
    """The words about a mark when it is hovered: of each line its field, form and title.

    What has a form is a number; what has no title is called by its field.
    """
    tooltips = []
    for line in lines:
        field, form, title = (*([line] if isinstance(line, str) else line), "", "")[:3]
        kind = {"type": "quantitative", "format": form} if form else {"type": "nominal"}
        tooltips.append(alt.Tooltip(field=field, title=title or field, **kind))
    return tooltips


def fading() -> tuple[alt.Parameter, Any]:
    """A choice by the legend, and the opacity that lets the conditions not chosen fade."""
    selection = alt.selection_point(fields=["condition"], bind="legend")
    return selection, alt.when(selection).then(alt.value(1.0)).otherwise(alt.value(0.12))


def run_of(runs: Runs | None, condition: str, block: int) -> str:
    """The run that a condition has in a block; the block itself if nobody named it."""
    return (runs or {}).get((condition, block), f"block {block}")


def runs_of(runs: Runs | None, condition: str, blocks: Iterable[int]) -> str:
    """The runs that a mark was made of; of many the first ones, and how many more."""
    names = [run_of(runs, condition, block) for block in blocks]
    others = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {others} more" if others > 0 else "")


def with_runs(chart_given: alt.Chart, names: Sequence[str]) -> alt.Chart:
    """The picture whose rows say by their number `of` to which of these runs they belong."""
    inline_data = inline([{"of": n, "run": name} for n, name in enumerate(names)])
    lookup = alt.LookupData(data=inline_data, key="of", fields=["run"])
    chart: alt.Chart = chart_given.transform_lookup(lookup="of", from_=lookup)
    return chart


def of_run(chart: alt.Chart, run: str) -> tuple[alt.Chart, list[str]]:
    """The picture of one run, if it has a name, and the line that names it."""
    if not run:
        return chart, []
    return with_runs(chart.transform_calculate(of="0"), [run]), ["run"]


def inline(rows: Rows) -> alt.InlineData:
    """Rows as part of the picture, so that it needs no file."""
    return alt.InlineData(values=rows)


def rounded(value: float) -> float:
    """Five digits, which are more than a picture shows."""
    return float(f"{value:.5g}")
