"""One Altair function per kind of picture; each draws in JupyterLab, in a report, and offline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import vl_convert

from labkit import stats
from labkit.errors import BadInput, Unknown

Values = npt.NDArray[np.float64]
Blocks = Mapping[int, Values]
Rows = list[dict[str, Any]]

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
SCALES = ("log", "linear")
# Okabe and Ito's colours, told apart by colour-blind eyes; black is left out for dark screens.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SHAPES = ("circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right")
GREY = "#999999"
POINTS = 600
SLOWEST = 100
"""A picture over time draws at most POINTS evenly spaced values, and the SLOWEST besides."""

V5 = "application/vnd.vegalite.v5+json"
V5_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.20.1.json"
# Text and axes get no colour here, so that JupyterLab's dark theme can choose one.
LOOK = {
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "gridOpacity": 0.5},
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "symbolSize": 90, "labelLimit": 400},
    "title": {"anchor": "start", "fontSize": 14, "subtitleFontSize": 12, "subtitlePadding": 6},
    "range": {"category": list(COLOURS)},
    "view": {"continuousWidth": 640, "continuousHeight": 320},
}


def enable() -> None:
    """Show every Altair chart in a form that JupyterLab 4 draws, with no network."""
    alt.renderers.register("labkit", bundle)
    alt.renderers.enable("labkit")


def bundle(spec: Mapping[str, Any], **_: Any) -> dict[str, Any]:
    """A chart's display: interactive for JupyterLab, a picture for the rest, a sentence for ears.

    JupyterLab 4.6 carries Vega-Lite 5 and knows no MIME type of version 6, which Altair 6 writes.
    """
    whole = {**spec, "$schema": V5_SCHEMA, "config": {**LOOK, **spec.get("config", {})}}
    said = str(spec.get("description", "chart"))
    return {V5: whole, "image/svg+xml": svg(whole), "text/plain": said}


def svg(spec: Mapping[str, Any], vl_version: str = "5.8") -> str:
    """The picture as SVG that names itself to a screen reader."""
    drawn = vl_convert.vegalite_to_svg(dict(spec), vl_version=vl_version)
    label = _escaped(str(spec.get("description", "chart")))
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def ladder(
    measured: Mapping[str, Blocks],
    published: Iterable[Mapping[str, str]] = (),
    *,
    percentiles: Sequence[float] = PERCENTILES,
    scale: str = "log",
    metric: str = "round trip",
    unit: str = "us",
    title: str = "",
    note: str = "",
    among: Sequence[str] = (),
) -> alt.LayerChart:
    """Response time from the median up to the worst, by condition, the document's in grey.

    `among` names all conditions, so that a choice of some keeps everyone's colour and place.
    """
    _insist(measured, scale)
    ours = _rungs(measured, percentiles)
    theirs = _published(published, list(measured), percentiles)
    names = list(among or measured)
    axis = _time(metric, unit, scale, [*ours, *theirs])
    chosen = alt.selection_point(fields=["condition"], bind="legend")
    base = (
        alt.Chart(_inline(ours))
        .encode(
            x=_rung_axis(percentiles),
            y=alt.Y("value:Q", **axis),
            xOffset=alt.XOffset("condition:N", sort=names),
            color=_colour(names),
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.12)),
        )
        .properties(width=640, height=340)
    )
    dots = base.encode(shape=_shape(names), tooltip=_rung_tips(unit))
    layers: list[alt.Chart] = [
        base.mark_line(strokeWidth=1, strokeDash=[3, 3]).add_params(chosen),
        base.mark_rule(strokeWidth=2).transform_filter("isValid(datum.low)")
        .encode(y=alt.Y("low:Q", **axis), y2="high:Q"),
    ]  # fmt: skip
    for enough in sorted({row["enough"] for row in ours}):
        rows = _inline([row for row in ours if row["enough"] is enough])
        layers.append(dots.mark_point(filled=enough, size=80).properties(data=rows))
    if theirs:
        layers.append(_diamonds(theirs, base, unit))
    return alt.LayerChart(layer=layers).properties(
        title=_title(title or f"{metric.capitalize()} by percentile", _legend(ours, theirs), note),
        description=_said("Percentiles of the " + metric, ours, unit, note),
    )


def spread(
    measured: Mapping[str, Blocks],
    *,
    scale: str = "log",
    metric: str = "round trip",
    unit: str = "us",
    title: str = "",
    note: str = "",
    among: Sequence[str] = (),
) -> alt.Chart:
    """The whole distribution: which share of all values was slower than this."""
    _insist(measured, scale)
    rows: Rows = [
        {"condition": name, "value": value, "share": share}
        for name, blocks in measured.items()
        for value, share in _slower(np.concatenate(list(blocks.values())))
    ]
    names = list(among or measured)
    chosen = alt.selection_point(fields=["condition"], bind="legend")
    shares = "'1 in ' + format(round(1 / datum.value), ',')"
    deepest = min(row["share"] for row in rows)
    drawn: alt.Chart = (
        alt.Chart(_inline(rows))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", **_time(metric, unit, scale, rows)),
            y=alt.Y("share:Q", title="share that took longer")
            .scale(type="log", domain=[deepest, 1])
            .axis(labelExpr=shares, values=[10.0**-power for power in range(7)]),
            color=_colour(names),
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.12)),
            tooltip=[
                alt.Tooltip("condition:N"),
                alt.Tooltip("share:Q", format=".2~%", title="share that took longer"),
                alt.Tooltip("value:Q", format=",.1f", title=f"than ({_shown(unit)})"),
            ],
        )
        .add_params(chosen)
    )
    return drawn.properties(
        width=640, height=320,
        title=_title(title or f"Every {metric}: how many took longer", "", note),
        description=f"Distribution of the {metric} of {', '.join(measured)}. {note}".strip(),
    )  # fmt: skip


def round_trips(
    values: Values,
    *,
    scale: str = "log",
    metric: str = "round trip",
    unit: str = "us",
    title: str = "",
    note: str = "",
) -> alt.LayerChart:
    """One run from its first value to its last; of many, some are drawn, the slowest always."""
    if len(values) == 0:
        raise BadInput("nothing to draw: the run has no values")
    if scale not in SCALES:
        raise Unknown("scale", scale, SCALES)
    kept = thinned(values)
    typical, worst = stats.percentile(values, 50), float(values.max())
    rows = [{"n": int(n) + 1, "value": _round(values[n])} for n in kept]
    dots = (
        alt.Chart(_inline(rows))
        .mark_point(size=14, filled=True, opacity=0.7, color=COLOURS[0], aria=False)
        .encode(
            x=alt.X("n:Q", title="request, in the order sent").scale(nice=False),
            y=alt.Y("value:Q", **_time(metric, unit, scale, rows)),
            tooltip=[
                alt.Tooltip("n:Q", format=",", title="request"),
                alt.Tooltip("value:Q", format=",.1f", title=f"{metric} ({_shown(unit)})"),
            ],
        )
    )
    line = alt.Chart(_inline([{"value": _round(typical)}])).mark_rule(
        color=COLOURS[1], strokeDash=[6, 4], strokeWidth=2
    )
    said = (
        f"{len(values):,} values of one run; median {_figure(typical)} {_shown(unit)} "
        f"(dashed), slowest {_figure(worst)} {_shown(unit)}"
    )
    return alt.LayerChart(layer=[dots, line.encode(y="value:Q")]).properties(
        width=640, height=260, title=_title(title or "One run, request by request", said, note),
        description=f"{metric} over time: {said}. {note}".strip(),
    )  # fmt: skip


def thinned(values: Values, points: int = POINTS) -> npt.NDArray[np.intp]:
    """Which values to draw: every so many, so that the picture is fair, and all of the slowest."""
    every = max(1, math.ceil(len(values) / points))
    if every == 1:
        return np.arange(len(values))
    slowest = np.argsort(values)[-SLOWEST:]
    return np.unique(np.concatenate([np.arange(0, len(values), every), slowest]))


def _insist(measured: Mapping[str, Blocks], scale: str) -> None:
    if scale not in SCALES:
        raise Unknown("scale", scale, SCALES)
    if not any(len(values) for blocks in measured.values() for values in blocks.values()):
        raise BadInput("nothing to draw: no finished runs", hint="run the study first")


def _rungs(measured: Mapping[str, Blocks], percentiles: Sequence[float]) -> Rows:
    rows: Rows = []
    for name, blocks in measured.items():
        count = sum(len(values) for values in blocks.values())
        for q in percentiles:
            at = stats.interval(blocks, q)
            # Few values give a bar so long that it would hide all the others.
            bar = at.enough and math.isfinite(at.low + at.high) and at.low > 0
            rows.append({
                "condition": name, "percentile": named(q), "value": _round(at.value),
                "low": _round(at.low) if bar else None, "high": _round(at.high) if bar else None,
                "enough": bool(at.enough), "from": f"{count:,} values, {len(blocks)} blocks"
                if at.enough else f"too few values for sure: {count:,} in {len(blocks)} blocks",
            })  # fmt: skip
    return rows


def _published(
    rows: Iterable[Mapping[str, str]], names: Sequence[str], percentiles: Sequence[float]
) -> Rows:
    at = {("median" if q == 50 else f"p{q:g}"): named(q) for q in percentiles}
    return [
        {
            "condition": row["condition"], "percentile": at[row["statistic"]],
            "value": float(row["value"]), "source": row.get("source", ""),
        }
        for row in rows
        if row["condition"] in names and row["statistic"] in at
    ]  # fmt: skip


def _diamonds(rows: Rows, base: alt.Chart, unit: str) -> alt.Chart:
    tips = [
        alt.Tooltip("condition:N", title="the document's"),
        alt.Tooltip("percentile:N"),
        alt.Tooltip("value:Q", format=",~f", title=_shown(unit)),
        alt.Tooltip("source:N"),
    ]
    drawn: alt.Chart = base.mark_point(shape="diamond", size=90, strokeWidth=1.5, fill=GREY)
    return drawn.properties(data=_inline(rows)).encode(tooltip=tips)


def named(q: float) -> str:
    """How a percentile is spoken of: `median`, `99.9 %`."""
    return "median" if q == 50 else f"{q:g} %"


def _rung_axis(percentiles: Sequence[float]) -> alt.X:
    order = [named(q) for q in sorted(percentiles)]
    return (
        alt.X("percentile:O", sort=order, title="share of requests answered within the time shown")
        .axis(labelAngle=0)
        .scale(domain=order)
    )


# On a log scale the ends are chosen here: Vega would go down and up to the next power of ten.
def _time(metric: str, unit: str, scale: str, rows: Rows) -> dict[str, Any]:
    axis = alt.Axis(format=",~f", tickCount=6)
    how = alt.Scale(zero=True)
    if scale == "log":
        found = [row[key] for row in rows for key in ("low", "value", "high") if row.get(key)]
        how = alt.Scale(type="log", domain=[min(found) / 1.25, max(found) * 1.25], nice=False)
    return {"title": f"{metric} ({_shown(unit)})", "axis": axis, "scale": how}


def _colour(names: Sequence[str]) -> alt.Color:
    cycle = [COLOURS[i % len(COLOURS)] for i in range(len(names))]
    legend = alt.Legend(orient="top", title=None)
    return alt.Color("condition:N", legend=legend, scale=alt.Scale(domain=list(names), range=cycle))


def _shape(names: Sequence[str]) -> alt.Shape:
    cycle = [SHAPES[i % len(SHAPES)] for i in range(len(names))]
    legend = alt.Legend(orient="top", title=None)
    return alt.Shape("condition:N", legend=legend, scale=alt.Scale(domain=list(names), range=cycle))


def _rung_tips(unit: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("condition:N"),
        alt.Tooltip("percentile:N"),
        alt.Tooltip("value:Q", format=",.1f", title=_shown(unit)),
        alt.Tooltip("low:Q", format=",.1f", title="95 % interval from"),
        alt.Tooltip("high:Q", format=",.1f", title="to"),
        alt.Tooltip("from:N", title="measured"),
    ]


# The share of values above each; all of the slowest twenty, and ever fewer towards the fast end.
def _slower(values: Values) -> list[tuple[float, float]]:
    ordered = np.sort(values)
    count = len(ordered)
    above = np.unique(np.geomspace(1, count, 90).astype(int))[::-1]
    return [(_round(ordered[count - n]), round(float(n / count), 7)) for n in above]


def _legend(ours: Rows, theirs: Rows) -> str:
    hollow = "" if all(row["enough"] for row in ours) else "Hollow: too few values for one. "
    grey = "Grey diamonds: the document's own numbers." if theirs else ""
    return f"Bars: 95 % intervals. {hollow}{grey}".rstrip()


def _title(title: str, subtitle: str, note: str) -> alt.TitleParams:
    return alt.TitleParams(title, subtitle=[line for line in (note, subtitle) if line])


def _said(what: str, rows: Rows, unit: str, note: str) -> str:
    shown = [f"{r['condition']} {r['percentile']} {_figure(r['value'])}" for r in rows]
    return f"{what}, in {_shown(unit)}: {'; '.join(shown)}. {note}".strip()


def _inline(rows: Rows) -> alt.InlineData:
    return alt.InlineData(values=rows)


def _shown(unit: str) -> str:
    return "µs" if unit == "us" else unit


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _escaped(text: str) -> str:
    pairs = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
    return "".join(pairs.get(letter, letter) for letter in text)


# Without this, a chart as the last line of a cell would ask a server on the internet for scripts.
enable()
