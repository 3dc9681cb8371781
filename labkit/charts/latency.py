"""Pictures of latency: the ladder of percentiles, the whole distribution, one run by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import numpy.typing as npt

from labkit.charts import ends, look
from labkit.errors import BadInput
from labkit.machine.units import capital, figure, shown
from labkit.statistics import percentiles as stats
from labkit.statistics.steady import WORTH_TELLING, steady

SHARE = "share of requests answered within the time shown"
MOST_TICKS = 12
"""More runs of a condition than this are not drawn one by one."""


def ladder(
    blocks_of: Mapping[str, look.Blocks],
    published: Iterable[Mapping[str, str]] = (),
    *,
    percentiles: Sequence[float] = look.PERCENTILES,
    scale: str = "log",
    metric: str = "round trip",
    unit: str = "us",
    note: str = "",
    among: Sequence[str] = (),
    runs: look.Runs | None = None,
) -> alt.LayerChart:
    """Response time from the median up to the worst, by condition, the document's in grey.

    `among` names all conditions, so that a choice of some keeps everyone's colour and place.
    `runs` (`results.by_block()`) names the runs that a mark was made of when it is hovered.
    """
    look.insist(blocks_of, scale)
    rows = ends.reaching(_rungs(blocks_of, percentiles, runs))
    paper = _document_rows(published, list(blocks_of), percentiles)
    names = list(among or blocks_of)
    ticks = _rows_of(blocks_of, percentiles, runs)
    axis = look.time_axis(metric, unit, scale, [*rows, *paper, *ticks])
    selection, opacity = look.fading()
    rungs = [named(q) for q in sorted(percentiles)]
    base = alt.Chart(look.inline(rows)).encode(
        x=alt.X("percentile:O", sort=rungs, title=SHARE).axis(labelAngle=0).scale(domain=rungs),
        y=alt.Y("value:Q", **axis),
        xOffset=alt.XOffset("condition:N", sort=names),
        color=look.colour(names),
        opacity=opacity,
    )
    tips = look.tips("condition", "percentile", ("value", ",.1f", shown(unit)), look.INTERVAL,
                     ("from", "", "measured"), "runs")  # fmt: skip
    bars = base.mark_rule(strokeWidth=2).transform_filter("isValid(datum.low)")
    layers: list[alt.Chart] = [
        base.mark_line(strokeWidth=1, strokeDash=[3, 3]).add_params(selection),
        bars.encode(y=alt.Y("low:Q", **axis), y2="high:Q", tooltip=tips),
        *ends.beside_bars(rows, base, "y", tips),
        *([_ticks(ticks, base, unit)] if ticks else []),
        *_dots(rows, base.encode(shape=look.shape(names), tooltip=tips)),
        *([_diamonds(paper, base, unit)] if paper else []),
    ]
    texts = [f"{r['condition']} {r['percentile']} {figure(r['value'])}" for r in rows]
    text = f"Percentiles of the {metric}, in {shown(unit)}: {'; '.join(texts)}"
    key = ends.key(rows, paper) + [("Ticks: single runs.", "")] * bool(ticks)
    key += [("Hollow: too few values for one.", "")] * (not all(row["enough"] for row in rows))
    chart = alt.LayerChart(layer=layers)
    return look.framed(chart, 340, f"{capital(metric)} by percentile", key, note, text)


def spread(
    blocks_of: Mapping[str, look.Blocks],
    *,
    metric: str = "round trip",
    unit: str = "us",
    note: str = "",
    runs: look.Runs | None = None,
) -> alt.Chart:
    """The whole distribution: which share of all values was slower than this.

    A mark is one value that was measured, and says in which of the `runs`.
    """
    look.insist(blocks_of)
    pairs = [(name, block) for name, blocks in blocks_of.items() for block in blocks]
    rows: look.Rows = [
        {"condition": name, "value": value, "share": share, "of": pairs.index((name, block))}
        for name, blocks in blocks_of.items()
        for value, share, block in _slower(blocks)
    ]
    names = list(blocks_of)
    selection, opacity = look.fading()
    shares = "'1 in ' + format(round(1 / datum.value), ',')"
    deepest = min(row["share"] for row in rows)
    chart: alt.Chart = (
        look.with_runs(alt.Chart(look.inline(rows)), [look.run_of(runs, *pair) for pair in pairs])
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", **look.time_axis(metric, unit, "log", rows)),
            y=alt.Y("share:Q", title="share that took longer")
            .scale(type="log", domain=[deepest, 1])
            .axis(labelExpr=shares, values=[10.0**-power for power in range(7)]),
            color=look.colour(names),
            strokeDash=look.dash(names),
            opacity=opacity,
            tooltip=look.tips(
                "condition", ("share", ".2~%", "share that took longer"),
                ("value", ",.1f", f"than ({shown(unit)})"), ("run", "", "measured in"),
            ),
        )
        .add_params(selection)
    )  # fmt: skip
    sentence = f"Distribution of the {metric} of {', '.join(blocks_of)}"
    return look.framed(chart, 320, f"Every {metric}: how many took longer", "", note, sentence)


def _rungs(
    blocks_of: Mapping[str, look.Blocks], percentiles: Sequence[float], runs: look.Runs | None
) -> look.Rows:
    rows: look.Rows = []
    for name, blocks in blocks_of.items():
        count = sum(len(values) for values in blocks.values())
        for q, at in zip(percentiles, stats.intervals(blocks, percentiles), strict=True):
            # Few values give a bar so long that it would hide all the others.
            wide = at.enough and math.isfinite(at.low + at.high) and (at.low > 0 or not at.least)
            rows.append({
                "condition": name, "percentile": named(q), "value": look.rounded(at.value),
                # Its runs are ticks already, one by one.
                **{key: end for key, end in ends.bar(at if wide else None, len(blocks)).items()
                   if key != "each"},
                "enough": bool(at.enough), "from": f"{count:,} values, {len(blocks)} blocks"
                if at.enough else f"too few values for sure: {count:,} in {len(blocks)} blocks",
                "runs": look.runs_of(runs, name, blocks),
            })  # fmt: skip
    return rows


# The percentile of each run by itself: how far runs differ, and which of them is the odd one.
def _rows_of(
    blocks_of: Mapping[str, look.Blocks], percentiles: Sequence[float], runs: look.Runs | None
) -> look.Rows:
    if max(len(blocks) for blocks in blocks_of.values()) > MOST_TICKS:
        return []
    return [
        {"condition": name, "percentile": named(q), "run": look.run_of(runs, name, block),
         "value": look.rounded(stats.percentile(values, q))}
        for name, blocks in blocks_of.items() for block, values in blocks.items()
        for q in percentiles if stats.beyond(q, len(values)) >= 1
    ]  # fmt: skip


def _document_rows(
    rows: Iterable[Mapping[str, str]], names: Sequence[str], percentiles: Sequence[float]
) -> look.Rows:
    at = {("median" if q == 50 else f"p{q:g}"): named(q) for q in percentiles}
    return [
        {
            "condition": row["condition"], "percentile": at[row["statistic"]],
            "value": float(row["value"]), "source": row.get("source", ""),
        }
        for row in rows
        if row["condition"] in names and row["statistic"] in at
    ]  # fmt: skip


def _ticks(rows: look.Rows, base: alt.Chart, unit: str) -> alt.Chart:
    marks: alt.Chart = base.mark_tick(orient="horizontal", size=9, thickness=1, opacity=0.5)
    value = ("value", ",.1f", shown(unit))
    tips = look.tips("condition", "percentile", value, ("run", "", "one run"))
    return marks.properties(data=look.inline(rows)).encode(tooltip=tips)


def _dots(rows: look.Rows, base: alt.Chart) -> list[alt.Chart]:
    return [
        base.mark_point(filled=is_enough, size=80).properties(data=look.inline(rows_of))
        for is_enough in (False, True)
        if (rows_of := [row for row in rows if row["enough"] is is_enough])
    ]


def _diamonds(rows: look.Rows, base: alt.Chart, unit: str) -> alt.Chart:
    value = ("value", ",~f", shown(unit))
    tips = look.tips(("condition", "", "the document's"), "percentile", value, "source")
    marks: alt.Chart = base.mark_point(shape="diamond", size=90, strokeWidth=1.5, fill=look.GREY)
    return marks.properties(data=look.inline(rows)).encode(tooltip=tips)


def named(q: float) -> str:
    """The spoken name of a percentile: `median`, `99.9 %`."""
    return "median" if q == 50 else f"{q:g} %"


# The share of values above each, and its block; all of the slowest twenty, and ever fewer towards
# the fast end.
def _slower(blocks: look.Blocks) -> list[tuple[float, float, int]]:
    values = np.concatenate(list(blocks.values()))
    owner = np.repeat(list(blocks), [len(part) for part in blocks.values()])
    order = np.argsort(values, kind="stable")
    count = len(order)
    above = np.unique(np.geomspace(1, count, 90).astype(int))[::-1]
    return [
        (look.rounded(values[at]), round(float(n / count), 7), int(owner[at]))
        for n, at in zip(above, order[count - above], strict=True)
    ]


def round_trips(
    values: look.Values, *, metric: str = "round trip", unit: str = "us", run: str = "",
    note: str = "",
) -> alt.LayerChart:  # fmt: skip
    """One run from its first value to its last; of many, some are drawn, the slowest always.

    Where a warm-up ends is marked; nothing is cut. `run` says which run it was.
    """
    if not len(values):
        raise BadInput("nothing to draw: the run has no values")
    if not np.isfinite(values).all():
        raise BadInput("some values of the run are not numbers")
    indices = thinned(values)
    typical, worst = stats.percentile(values, 50), float(values.max())
    rows = [{"n": int(n) + 1, "value": look.rounded(values[n])} for n in indices]
    base, of = look.of_run(alt.Chart(look.inline(rows)), run)
    dots = (
        base
        .mark_point(size=14, filled=True, opacity=1, color=look.COLOURS[0], aria=False)
        .encode(
            x=alt.X("n:Q", title="request, in the order sent").scale(nice=False)
            .axis(tickCount=6),
            y=alt.Y("value:Q", **look.time_axis(metric, unit, "log", rows)),
            tooltip=look.tips(
                ("n", ",", "request"), ("value", ",.1f", f"{metric} ({shown(unit)})"), *of
            ),
        )
    )  # fmt: skip
    line = alt.Chart(look.inline([{"value": look.rounded(typical)}])).mark_rule(
        color=look.COLOURS[1], strokeDash=[6, 4], strokeWidth=2
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
        end = alt.Chart(look.inline([{"n": cut}]))
        layers.append(
            end.mark_rule(color=look.GREY, strokeDash=[2, 3], strokeWidth=2).encode(x="n:Q")
        )
    title = f"One run, request by request{f': {run}' if run else ''}"
    chart = alt.LayerChart(layer=layers)
    return look.framed(chart, 260, title, text, note, f"{metric} over time: {text}")


def thinned(values: look.Values) -> npt.NDArray[np.intp]:
    """The indices of the values to draw: one at each regular step, and all of the slowest."""
    step = max(1, math.ceil(len(values) / look.POINTS))
    if step == 1:
        return np.arange(len(values))
    slowest = np.argsort(values)[-look.SLOWEST :]
    return np.unique(np.concatenate([np.arange(0, len(values), step), slowest]))
