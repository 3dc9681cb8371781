"""Several metrics of one study beside each other: what is gained, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt

from labkit.charts.look import colour, figure, inline, insist, rounded, shape, titled
from labkit.errors import LabkitError, Unknown
from labkit.quantity import Quantity
from labkit.results import Results
from labkit.stats import Blocks
from labkit.study import Study

FEWEST = 3
"""Blocks, before an interval is told."""


def of_metric(study: Study, results: Results, metric: str) -> dict[str, Blocks]:
    """Condition -> block -> values of one metric, written with `_` for blanks."""
    measured: Mapping[str, Blocks] = study.measured(results)
    if metric == study.metric.replace(" ", "_"):
        return {name: blocks for name, blocks in measured.items() if ": " not in name}
    found = {name.partition(": ")[2]: blocks for name, blocks in measured.items()
             if name.startswith(f"{metric}: ")}  # fmt: skip
    if not found:
        known = {name.partition(": ")[0] for name in measured if ": " in name}
        raise Unknown("metric", metric, [study.metric.replace(" ", "_"), *sorted(known)])
    return found


def both_sides(study: Study, results: Results, metrics: Iterable[str]) -> list[dict[str, object]]:
    """A row for each metric and condition: its mean over all blocks, with its 95 % interval."""
    rows: list[dict[str, object]] = []
    for metric in metrics:
        for name, blocks in of_metric(study, results, metric).items():
            mean = _mean(f"'{name}'", {name: blocks})
            rows.append({"metric": metric.replace("_", " "), "condition": name,
                         "mean": figure(mean["value"]), "low": _shown(mean["low"]),
                         "high": _shown(mean["high"]), "blocks": len(blocks)})  # fmt: skip
    return rows


def run_2_over_run_1(study: Study, results: Results, note: str = "") -> alt.LayerChart:
    """The mean of every metric of Run 2 over that of Run 1, beside the document's two ratios."""
    rows, theirs = [], []
    printed = {row["metric"]: {} for row in study.published()}  # type: ignore[var-annotated]
    for row in study.published():
        printed[row["metric"]][row["condition"].partition(":")[0]] = float(row["value"])
    for metric in ("response_time", "throughput", "ready_time", "host_cpu_utilisation"):
        both = of_metric(study, results, metric)
        if {"Run 1", "Run 2"} <= set(both):
            name = metric.replace("_", " ")
            rows.append({"metric": name, **_mean("'Run 2' / 'Run 1'", both)})
            if {"Run 1", "Run 2"} <= set(printed.get(metric, {})):
                ratio = printed[metric]["Run 2"] / printed[metric]["Run 1"]
                theirs.append({"metric": name, "value": round(ratio, 3)})
    return _ratios(rows, theirs, note)


def against_rate(
    study: Study, results: Results, metric: str, unit: str, note: str = ""
) -> alt.LayerChart:
    """A figure of the packet rate study at each rate, with its 95 % interval."""
    names = [name for name in study.measured(results) if name.startswith(f"{metric}_at_")]
    rates = sorted({int(re.split(r"_at_|: ", name)[1]) for name in names})
    rows = [
        {"condition": condition, "rate": rate, **_mean(f"'{condition}'", {condition: blocks})}
        for rate in rates
        for condition, blocks in of_metric(study, results, f"{metric}_at_{rate}").items()
    ]
    insist(study.blocks(results))
    order = [c.name for c in study.conditions]
    what = metric.replace("_", " ").replace("cpu", "CPU")
    x = alt.X("rate:Q", title="datagrams sent in each second").scale(type="log", nice=False)
    x = x.axis(values=rates, format=",d")
    y = alt.Y("value:Q", title=what if unit == "1" else f"{what} ({unit})".replace("(us)", "(µs)"))
    base = alt.Chart(inline(rows)).encode(x=x, color=colour(order))
    bars = base.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q")
    tips = [alt.Tooltip("condition:N"), alt.Tooltip("rate:Q", format=",d"),
            alt.Tooltip("value:Q", format=".4~f"), alt.Tooltip("low:Q", format=".4~f"),
            alt.Tooltip("high:Q", format=".4~f")]  # fmt: skip
    layers = [base.mark_line().encode(y=y), bars.transform_filter("isValid(datum.low)"),
              base.mark_point(filled=True, size=80, opacity=1)
              .encode(y=y, shape=shape(order), tooltip=tips)]  # fmt: skip
    said = "; ".join(f"{r['condition']} at {r['rate']}: {figure(r['value'])}" for r in rows)
    return alt.LayerChart(layer=layers).properties(
        width=640, height=280,
        title=titled(f"{what[:1].upper()}{what[1:]} by packet rate", "Bars: 95 % intervals.", note),
        description=f"{what} by packet rate: {said}. {note}".strip(),
    )  # fmt: skip


def _ratios(rows: list[dict[str, Any]], theirs: list[dict[str, Any]], note: str) -> alt.LayerChart:
    names = [row["metric"] for row in rows]
    x = alt.X("value:Q", title="Run 2, over Run 1 = 1").scale(type="log", nice=False, padding=20)
    y = alt.Y("metric:N", sort=names, title=None)
    base = alt.Chart(inline(rows)).encode(y=y)
    one = alt.Chart(inline([{"value": 1}])).mark_rule(strokeDash=[6, 4]).encode(x=x)
    tips = [alt.Tooltip("metric:N"), alt.Tooltip("value:Q", format=".3~f"),
            alt.Tooltip("low:Q", format=".3~f"), alt.Tooltip("high:Q", format=".3~f")]  # fmt: skip
    layers = [
        one,
        base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
        .transform_filter("isValid(datum.low)"),
        base.mark_point(filled=True, size=90, opacity=1).encode(x=x, tooltip=tips),
        alt.Chart(inline(theirs)).mark_point(shape="diamond", filled=True, size=110, color="grey")
        .encode(x=x, y=y, tooltip=alt.Tooltip("value:Q", title="the document's")),
    ]  # fmt: skip
    said = "; ".join(f"{row['metric']} {figure(row['value'])}" for row in rows)
    legend = "Bars: 95 % intervals. Grey diamonds: the document's own."
    return alt.LayerChart(layer=layers).properties(
        width=640, height=44 * max(1, len(rows)),
        title=titled("What owning CPUs changes", legend, note),
        description=f"Run 2 over Run 1: {said}. {note}".strip(),
    )  # fmt: skip


def _mean(what: str, sides: Mapping[str, Blocks]) -> dict[str, Any]:
    try:
        estimate = Quantity(what, "mean").estimate(sides)
    except LabkitError:
        estimate = None
    if estimate is None:
        return {"value": float("nan"), "low": None, "high": None}
    i = estimate.interval()
    if estimate.blocks < FEWEST:
        return {"value": rounded(i.value), "low": None, "high": None}
    return {"value": rounded(i.value), "low": rounded(i.low), "high": rounded(i.high)}


def _shown(limit: float | None) -> str:
    return "" if limit is None else figure(limit)
