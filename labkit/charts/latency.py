"""Pictures of latency: the ladder of percentiles, the whole distribution, one run by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import numpy.typing as npt

from labkit import stats
from labkit.charts.look import (
    COLOURS,
    GREY,
    PERCENTILES,
    POINTS,
    SCALES,
    SLOWEST,
    Blocks,
    Rows,
    Values,
    colour,
    figure,
    inline,
    insist,
    rounded,
    shape,
    shown,
    time_axis,
    titled,
)
from labkit.errors import BadInput, Unknown
from labkit.steady import WORTH_TELLING, steady

MOST_TICKS = 12
"""More runs of a condition than this are not drawn one by one."""


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
    runs: Mapping[tuple[str, int], str] | None = None,
) -> alt.LayerChart:
    """Response time from the median up to the worst, by condition, the document's in grey.

    `among` names all conditions, so that a choice of some keeps everyone's colour and place.
    `runs` names the run of a condition and block, for whoever hovers over its tick.
    """
    insist(measured, scale)
    ours = _rungs(measured, percentiles)
    theirs = _published(published, list(measured), percentiles)
    names = list(among or measured)
    axis = time_axis(metric, unit, scale, [*ours, *theirs])
    chosen = alt.selection_point(fields=["condition"], bind="legend")
    base = (
        alt.Chart(inline(ours))
        .encode(
            x=_rung_axis(percentiles),
            y=alt.Y("value:Q", **axis),
            xOffset=alt.XOffset("condition:N", sort=names),
            color=colour(names),
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.12)),
        )
        .properties(width=640, height=340)
    )
    each = _each(measured, percentiles, runs or {})
    bars = base.mark_rule(strokeWidth=2).transform_filter("isValid(datum.low)")
    layers: list[alt.Chart] = [
        base.mark_line(strokeWidth=1, strokeDash=[3, 3]).add_params(chosen),
        bars.encode(y=alt.Y("low:Q", **axis), y2="high:Q"),
        *([_ticks(each, base, unit)] if each else []),
        *_dots(ours, base.encode(shape=shape(names), tooltip=_rung_tips(unit))),
        *([_diamonds(theirs, base, unit)] if theirs else []),
    ]
    return alt.LayerChart(layer=layers).properties(
        title=titled(
            title or f"{metric.capitalize()} by percentile", _legend(ours, theirs, each), note
        ),
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
    insist(measured, scale)
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
        alt.Chart(inline(rows))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", **time_axis(metric, unit, scale, rows)),
            y=alt.Y("share:Q", title="share that took longer")
            .scale(type="log", domain=[deepest, 1])
            .axis(labelExpr=shares, values=[10.0**-power for power in range(7)]),
            color=colour(names),
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.12)),
            tooltip=[
                alt.Tooltip("condition:N"),
                alt.Tooltip("share:Q", format=".2~%", title="share that took longer"),
                alt.Tooltip("value:Q", format=",.1f", title=f"than ({shown(unit)})"),
            ],
        )
        .add_params(chosen)
    )
    return drawn.properties(
        width=640, height=320,
        title=titled(title or f"Every {metric}: how many took longer", "", note),
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
    """One run from its first value to its last; of many, some are drawn, the slowest always.

    Where a warm-up ends is marked; nothing is cut.
    """
    if len(values) == 0:
        raise BadInput("nothing to draw: the run has no values")
    if scale not in SCALES:
        raise Unknown("scale", scale, SCALES)
    kept = thinned(values)
    typical, worst = stats.percentile(values, 50), float(values.max())
    rows = [{"n": int(n) + 1, "value": rounded(values[n])} for n in kept]
    dots = (
        alt.Chart(inline(rows))
        .mark_point(size=14, filled=True, opacity=0.7, color=COLOURS[0], aria=False)
        .encode(
            x=alt.X("n:Q", title="request, in the order sent").scale(nice=False),
            y=alt.Y("value:Q", **time_axis(metric, unit, scale, rows)),
            tooltip=[
                alt.Tooltip("n:Q", format=",", title="request"),
                alt.Tooltip("value:Q", format=",.1f", title=f"{metric} ({shown(unit)})"),
            ],
        )
    )
    line = alt.Chart(inline([{"value": rounded(typical)}])).mark_rule(
        color=COLOURS[1], strokeDash=[6, 4], strokeWidth=2
    )
    warm = steady(values)
    cut = warm.cut if warm.share_cut >= WORTH_TELLING else 0
    said = (
        f"{len(values):,} values of one run; median {figure(typical)} {shown(unit)} "
        f"(dashed), slowest {figure(worst)} {shown(unit)}"
    )
    layers = [dots, line.encode(y="value:Q")]
    if cut:
        said += f"; {'warm-up' if warm.steady else 'not steady'} until request {cut:,} (dotted)"
        layers.append(_end_of_warm_up(cut))
    return alt.LayerChart(layer=layers).properties(
        width=640, height=260, title=titled(title or "One run, request by request", said, note),
        description=f"{metric} over time: {said}. {note}".strip(),
    )  # fmt: skip


def _end_of_warm_up(cut: int) -> alt.Chart:
    drawn: alt.Chart = alt.Chart(inline([{"n": cut}])).mark_rule(
        color=GREY, strokeDash=[2, 3], strokeWidth=2
    )
    return drawn.encode(x="n:Q")


def thinned(values: Values, points: int = POINTS) -> npt.NDArray[np.intp]:
    """Which values to draw: every so many, so that the picture is fair, and all of the slowest."""
    every = max(1, math.ceil(len(values) / points))
    if every == 1:
        return np.arange(len(values))
    slowest = np.argsort(values)[-SLOWEST:]
    return np.unique(np.concatenate([np.arange(0, len(values), every), slowest]))


def _rungs(measured: Mapping[str, Blocks], percentiles: Sequence[float]) -> Rows:
    rows: Rows = []
    for name, blocks in measured.items():
        count = sum(len(values) for values in blocks.values())
        for q in percentiles:
            at = stats.interval(blocks, q)
            # Few values give a bar so long that it would hide all the others.
            bar = at.enough and math.isfinite(at.low + at.high) and at.low > 0
            rows.append({
                "condition": name, "percentile": named(q), "value": rounded(at.value),
                "low": rounded(at.low) if bar else None, "high": rounded(at.high) if bar else None,
                "enough": bool(at.enough), "from": f"{count:,} values, {len(blocks)} blocks"
                if at.enough else f"too few values for sure: {count:,} in {len(blocks)} blocks",
            })  # fmt: skip
    return rows


# The percentile of each run by itself: how far runs differ, and which of them is the odd one.
def _each(
    measured: Mapping[str, Blocks],
    percentiles: Sequence[float],
    runs: Mapping[tuple[str, int], str],
) -> Rows:
    if max(len(blocks) for blocks in measured.values()) > MOST_TICKS:
        return []
    return [
        {"condition": name, "percentile": named(q), "value": rounded(stats.percentile(values, q)),
         "run": runs.get((name, block), f"block {block}")}
        for name, blocks in measured.items() for block, values in blocks.items()
        for q in percentiles if stats.beyond(q, len(values)) >= 1
    ]  # fmt: skip


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


def _ticks(rows: Rows, base: alt.Chart, unit: str) -> alt.Chart:
    drawn: alt.Chart = base.mark_tick(orient="horizontal", size=9, thickness=1, opacity=0.5)
    return drawn.properties(data=inline(rows)).encode(tooltip=_run_tips(unit))


def _dots(rows: Rows, base: alt.Chart) -> list[alt.Chart]:
    by_enough = {enough: [r for r in rows if r["enough"] is enough] for enough in (False, True)}
    return [
        base.mark_point(filled=enough, size=80).properties(data=inline(some))
        for enough, some in by_enough.items() if some
    ]  # fmt: skip


def _diamonds(rows: Rows, base: alt.Chart, unit: str) -> alt.Chart:
    tips = [
        alt.Tooltip("condition:N", title="the document's"),
        alt.Tooltip("percentile:N"),
        alt.Tooltip("value:Q", format=",~f", title=shown(unit)),
        alt.Tooltip("source:N"),
    ]
    drawn: alt.Chart = base.mark_point(shape="diamond", size=90, strokeWidth=1.5, fill=GREY)
    return drawn.properties(data=inline(rows)).encode(tooltip=tips)


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


def _run_tips(unit: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("condition:N"),
        alt.Tooltip("percentile:N"),
        alt.Tooltip("value:Q", format=",.1f", title=shown(unit)),
        alt.Tooltip("run:N", title="one run"),
    ]


def _rung_tips(unit: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("condition:N"),
        alt.Tooltip("percentile:N"),
        alt.Tooltip("value:Q", format=",.1f", title=shown(unit)),
        alt.Tooltip("low:Q", format=",.1f", title="95 % interval from"),
        alt.Tooltip("high:Q", format=",.1f", title="to"),
        alt.Tooltip("from:N", title="measured"),
    ]


# The share of values above each; all of the slowest twenty, and ever fewer towards the fast end.
def _slower(values: Values) -> list[tuple[float, float]]:
    ordered = np.sort(values)
    count = len(ordered)
    above = np.unique(np.geomspace(1, count, 90).astype(int))[::-1]
    return [(rounded(ordered[count - n]), round(float(n / count), 7)) for n in above]


def _legend(ours: Rows, theirs: Rows, each: Rows) -> str:
    hollow = "" if all(row["enough"] for row in ours) else "Hollow: too few values for one. "
    grey = "Grey diamonds: the document's own numbers." if theirs else ""
    ticks = "Ticks: single runs. " if each else ""
    return f"Bars: 95 % intervals. {ticks}{hollow}{grey}".rstrip()


def _said(what: str, rows: Rows, unit: str, note: str) -> str:
    each = [f"{r['condition']} {r['percentile']} {figure(r['value'])}" for r in rows]
    return f"{what}, in {shown(unit)}: {'; '.join(each)}. {note}".strip()
