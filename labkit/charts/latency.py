"""Pictures of latency: the ladder of percentiles, the whole distribution, one run by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import numpy.typing as npt

from labkit.charts import ends
from labkit.charts.look import (
    COLOURS,
    GREY,
    PERCENTILES,
    POINTS,
    SLOWEST,
    Blocks,
    Rows,
    Runs,
    Values,
    colour,
    dash,
    fading,
    framed,
    inline,
    insist,
    interval_tip,
    of_run,
    rounded,
    run_of,
    runs_of,
    shape,
    time_axis,
    tip,
    with_runs,
)
from labkit.errors import BadInput
from labkit.machine.units import capital, figure, shown
from labkit.statistics import percentiles as stats
from labkit.statistics.steady import WORTH_TELLING, steady

SHARE = "share of requests answered within the time shown"
MOST_TICKS = 12
"""More runs of a condition than this are not drawn one by one."""


def ladder(
    blocks_of: Mapping[str, Blocks],
    published: Iterable[Mapping[str, str]] = (),
    *,
    percentiles: Sequence[float] = PERCENTILES,
    scale: str = "log",
    metric: str = "round trip",
    unit: str = "us",
    note: str = "",
    among: Sequence[str] = (),
    runs: Runs | None = None,
) -> alt.LayerChart:
    """Response time from the median up to the worst, by condition, the document's in grey.

    `among` names all conditions, so that a choice of some keeps everyone's colour and place.
    `runs` (`results.by_block()`) names the runs that a mark was made of when it is hovered.
    """
    insist(blocks_of, scale)
    rows = ends.reaching(_rungs(blocks_of, percentiles, runs))
    paper = _document_rows(published, list(blocks_of), percentiles)
    names = list(among or blocks_of)
    ticks = _rows_of(blocks_of, percentiles, runs)
    axis = time_axis(metric, unit, scale, [*rows, *paper, *ticks])
    selection, opacity = fading()
    rungs = [named(q) for q in sorted(percentiles)]
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("percentile:O", sort=rungs, title=SHARE).axis(labelAngle=0).scale(domain=rungs),
        y=alt.Y("value:Q", **axis),
        xOffset=alt.XOffset("condition:N", sort=names),
        color=colour(names),
        opacity=opacity,
    )
    tips = [tip("condition"), tip("percentile"), tip("value", ",.1f", shown(unit)),
            interval_tip(), tip("from", title="measured"), tip("runs")]  # fmt: skip
    bars = base.mark_rule(strokeWidth=2).transform_filter("isValid(datum.low)")
    layers: list[alt.Chart] = [
        base.mark_line(strokeWidth=1, strokeDash=[3, 3]).add_params(selection),
        bars.encode(y=alt.Y("low:Q", **axis), y2="high:Q", tooltip=tips),
        *ends.beside_bars(rows, base, "y", tips),
        *([_ticks(ticks, base, unit)] if ticks else []),
        *_dots(rows, base.encode(shape=shape(names), tooltip=tips)),
        *([_diamonds(paper, base, unit)] if paper else []),
    ]
    texts = [f"{r['condition']} {r['percentile']} {figure(r['value'])}" for r in rows]
    text = f"Percentiles of the {metric}, in {shown(unit)}: {'; '.join(texts)}"
    key = ends.key(rows, paper) + [("Ticks: single runs.", "")] * bool(ticks)
    key += [("Hollow: too few values for one.", "")] * (not all(row["enough"] for row in rows))
    chart = alt.LayerChart(layer=layers)
    return framed(chart, 340, f"{capital(metric)} by percentile", key, note, text)


def spread(
    blocks_of: Mapping[str, Blocks],
    *,
    metric: str = "round trip",
    unit: str = "us",
    note: str = "",
    runs: Runs | None = None,
) -> alt.Chart:
    """The whole distribution: which share of all values was slower than this.

    A mark is one value that was measured, and says in which of the `runs`.
    """
    insist(blocks_of)
    pairs = [(name, block) for name, blocks in blocks_of.items() for block in blocks]
    rows: Rows = [
        {"condition": name, "value": value, "share": share, "of": pairs.index((name, block))}
        for name, blocks in blocks_of.items()
        for value, share, block in _slower(blocks)
    ]
    names = list(blocks_of)
    selection, opacity = fading()
    shares = "'1 in ' + format(round(1 / datum.value), ',')"
    deepest = min(row["share"] for row in rows)
    chart: alt.Chart = (
        with_runs(alt.Chart(inline(rows)), [run_of(runs, *pair) for pair in pairs])
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", **time_axis(metric, unit, "log", rows)),
            y=alt.Y("share:Q", title="share that took longer")
            .scale(type="log", domain=[deepest, 1])
            .axis(labelExpr=shares, values=[10.0**-power for power in range(7)]),
            color=colour(names),
            strokeDash=dash(names),
            opacity=opacity,
            tooltip=[
                tip("condition"), tip("share", ".2~%", "share that took longer"),
                tip("value", ",.1f", f"than ({shown(unit)})"), tip("run", title="measured in"),
            ],
        )
        .add_params(selection)
    )  # fmt: skip
    sentence = f"Distribution of the {metric} of {', '.join(blocks_of)}"
    return framed(chart, 320, f"Every {metric}: how many took longer", "", note, sentence)


def _rungs(
    blocks_of: Mapping[str, Blocks], percentiles: Sequence[float], runs: Runs | None
) -> Rows:
    rows: Rows = []
    for name, blocks in blocks_of.items():
        count = sum(len(values) for values in blocks.values())
        for q, at in zip(percentiles, stats.intervals(blocks, percentiles), strict=True):
            # Few values give a bar so long that it would hide all the others.
            wide = at.enough and math.isfinite(at.low + at.high) and (at.low > 0 or not at.least)
            rows.append({
                "condition": name, "percentile": named(q), "value": rounded(at.value),
                # Its runs are ticks already, one by one.
                **{key: end for key, end in ends.bar(at if wide else None, len(blocks)).items()
                   if key != "each"},
                "enough": bool(at.enough), "from": f"{count:,} values, {len(blocks)} blocks"
                if at.enough else f"too few values for sure: {count:,} in {len(blocks)} blocks",
                "runs": runs_of(runs, name, blocks),
            })  # fmt: skip
    return rows


# The percentile of each run by itself: how far runs differ, and which of them is the odd one.
def _rows_of(
    blocks_of: Mapping[str, Blocks], percentiles: Sequence[float], runs: Runs | None
) -> Rows:
    if max(len(blocks) for blocks in blocks_of.values()) > MOST_TICKS:
        return []
    return [
        {"condition": name, "percentile": named(q), "value": rounded(stats.percentile(values, q)),
         "run": run_of(runs, name, block)}
        for name, blocks in blocks_of.items() for block, values in blocks.items()
        for q in percentiles if stats.beyond(q, len(values)) >= 1
    ]  # fmt: skip


def _document_rows(
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
    marks: alt.Chart = base.mark_tick(orient="horizontal", size=9, thickness=1, opacity=0.5)
    tips = [tip("condition"), tip("percentile"), tip("value", ",.1f", shown(unit)),
            tip("run", title="one run")]  # fmt: skip
    return marks.properties(data=inline(rows)).encode(tooltip=tips)


def _dots(rows: Rows, base: alt.Chart) -> list[alt.Chart]:
    return [
        base.mark_point(filled=is_enough, size=80).properties(data=inline(rows_of))
        for is_enough in (False, True)
        if (rows_of := [row for row in rows if row["enough"] is is_enough])
    ]


def _diamonds(rows: Rows, base: alt.Chart, unit: str) -> alt.Chart:
    tips = [tip("condition", title="the document's"), tip("percentile"),
            tip("value", ",~f", shown(unit)), tip("source")]  # fmt: skip
    marks: alt.Chart = base.mark_point(shape="diamond", size=90, strokeWidth=1.5, fill=GREY)
    return marks.properties(data=inline(rows)).encode(tooltip=tips)


def named(q: float) -> str:
    """The spoken name of a percentile: `median`, `99.9 %`."""
    return "median" if q == 50 else f"{q:g} %"


# The share of values above each, and its block; all of the slowest twenty, and ever fewer towards
# the fast end.
def _slower(blocks: Blocks) -> list[tuple[float, float, int]]:
    values = np.concatenate(list(blocks.values()))
    owner = np.repeat(list(blocks), [len(part) for part in blocks.values()])
    order = np.argsort(values, kind="stable")
    count = len(order)
    above = np.unique(np.geomspace(1, count, 90).astype(int))[::-1]
    return [
        (rounded(values[at]), round(float(n / count), 7), int(owner[at]))
        for n, at in zip(above, order[count - above], strict=True)
    ]


def round_trips(
    values: Values,
    *,
    metric: str = "round trip",
    unit: str = "us",
    run: str = "",
    note: str = "",
) -> alt.LayerChart:
    """One run from its first value to its last; of many, some are drawn, the slowest always.

    Where a warm-up ends is marked; nothing is cut. `run` says which run it was.
    """
    if not len(values):
        raise BadInput("nothing to draw: the run has no values")
    if not np.isfinite(values).all():
        raise BadInput("some values of the run are not numbers")
    indices = thinned(values)
    typical, worst = stats.percentile(values, 50), float(values.max())
    rows = [{"n": int(n) + 1, "value": rounded(values[n])} for n in indices]
    base, of = of_run(alt.Chart(inline(rows)), run)
    dots = (
        base
        .mark_point(size=14, filled=True, opacity=1, color=COLOURS[0], aria=False)
        .encode(
            x=alt.X("n:Q", title="request, in the order sent").scale(nice=False)
            .axis(tickCount=6),
            y=alt.Y("value:Q", **time_axis(metric, unit, "log", rows)),
            tooltip=[
                tip("n", ",", "request"), tip("value", ",.1f", f"{metric} ({shown(unit)})"),
                *of,
            ],
        )
    )  # fmt: skip
    line = alt.Chart(inline([{"value": rounded(typical)}])).mark_rule(
        color=COLOURS[1], strokeDash=[6, 4], strokeWidth=2
    )
    warm = steady(values)
    cut = warm.cut if warm.share_cut >= WORTH_TELLING else 0
    text = (
        f"{len(values):,} values of one run; median {figure(typical)} {shown(unit)} "
        f"(dashed), slowest {figure(worst)} {shown(unit)}"
    )
    layers = [dots, line.encode(y="value:Q")]
    if cut:
        text += f"; {'warm-up' if warm.steady else 'not steady'} until request {cut:,} (dotted)"
        end = alt.Chart(inline([{"n": cut}]))
        layers.append(end.mark_rule(color=GREY, strokeDash=[2, 3], strokeWidth=2).encode(x="n:Q"))
    title = f"One run, request by request{f': {run}' if run else ''}"
    chart = alt.LayerChart(layer=layers)
    return framed(chart, 260, title, text, note, f"{metric} over time: {text}")


def thinned(values: Values) -> npt.NDArray[np.intp]:
    """The indices of the values to draw: one at each regular step, and all of the slowest."""
    step = max(1, math.ceil(len(values) / POINTS))
    if step == 1:
        return np.arange(len(values))
    slowest = np.argsort(values)[-SLOWEST:]
    return np.unique(np.concatenate([np.arange(0, len(values), step), slowest]))
