"""Several metrics of one study beside each other: what is gained, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt

from labkit.charts import ends
from labkit.charts.look import (
    BELOW_NAMES,
    COLOURS,
    GREY,
    framed,
    inline,
    interval_tip,
    rounded,
    runs_of,
    tip,
)
from labkit.charts.swept import swept
from labkit.errors import LabkitError, Unknown
from labkit.machine.units import figure, shown
from labkit.results import Results
from labkit.statistics.estimate import estimated
from labkit.statistics.interval import Interval
from labkit.statistics.measurand import Measurand, plain
from labkit.statistics.percentiles import Blocks
from labkit.statistics.quantity import PARTS, Quantity
from labkit.study import Study

COLOUR = COLOURS[0]


def of_metric(study: Study, results: Results, metric: str) -> dict[str, Blocks]:
    """Condition -> block -> values of one metric, written with `_` for blanks.

    Conditions come in the order of the study, whatever was measured first.
    """
    blocks_of = _select(study, results, metric)
    names = [
        name
        for condition in study.conditions
        for name in blocks_of
        if Measurand.of(name).is_of(condition.name)
    ]
    return {name: blocks_of[name] for name in dict.fromkeys([*names, *blocks_of])}


def _select(study: Study, results: Results, metric: str) -> dict[str, Blocks]:
    blocks_of: Mapping[str, Blocks] = study.measured(results)
    if metric == plain(study.metric):
        metric = ""
    pairs = [(Measurand.of(key), blocks) for key, blocks in blocks_of.items()]
    matches = {name.at: blocks for name, blocks in pairs if name.metric == metric}
    if not matches:
        metrics = {name.metric for name, _ in pairs if name.metric}
        raise Unknown("metric", metric, [plain(study.metric), *sorted(metrics)])
    return matches


def both_sides(study: Study, results: Results, metrics: Iterable[str]) -> list[dict[str, str]]:
    """A row for each condition: the mean of each metric over all blocks, and its 95 % interval.

    A metric that no host of the lab could measure says so in each row.
    """
    columns = {metric: _column(study, results, metric) for metric in metrics}
    units, names_seen = (
        units_of(study, results),
        {name for column in columns.values() for name in column},
    )
    names = [
        n for c in study.conditions for n in sorted(names_seen) if Measurand.of(n).is_of(c.name)
    ]
    return [
        {"condition": name} | {
            _title(metric, units.get(metric, "")):
                cells.get(name, "") if cells else "not reported by this lab"
            for metric, cells in columns.items()
        }
        for name in dict.fromkeys(names)
    ]  # fmt: skip


def _title(metric: str, unit: str) -> str:
    title = metric.replace("_", " ")
    return f"{title} ({unit})" if unit else title


# Condition -> what its row says; empty where no host could measure it.
def _column(study: Study, results: Results, metric: str) -> dict[str, str]:
    metrics = {Measurand.of(key).metric for key in study.measured(results)}
    if metric not in {*metrics, plain(study.metric)}:
        return {}
    blocks_of, unit = of_metric(study, results, metric), units_of(study, results).get(metric, "")
    return {
        name: _with_ends(mean_of(blocks, unit, "average")) for name, blocks in blocks_of.items()
    }


def _with_ends(mean: Interval) -> str:
    return f"{figure(mean.value)} ({mean.ends(figure)})"


def mean_of(blocks: Blocks, unit: str, statistic: str = "mean") -> Interval:
    """The mean of a condition, within what a figure in that unit can be."""
    kinds = {"it": PARTS[unit]} if unit in PARTS else {}
    return estimated(Quantity("'it'", statistic).of_kinds(kinds), {"it": blocks}).interval()


# A share has the unit 1, which says nothing beside a number.
def units_of(study: Study, results: Results) -> dict[str, str]:
    """The unit of each metric, as the first finished run has it."""
    samples = [sample for run in results.finished()[:1] for sample in study.samples(run)]
    pairs = [(plain(s.metric), s.unit) for s in samples]
    return {name: "" if unit == "1" else shown(unit) for name, unit in pairs}


def run_2_over_run_1(study: Study, results: Results, note: str = "") -> alt.LayerChart:
    """The mean of every metric of Run 2 over that of Run 1, beside the document's two ratios."""
    rows, document, runs = [], [], results.by_block()
    figures = {row["metric"]: {} for row in study.published()}  # type: ignore[var-annotated]
    for row in study.published():
        figures[row["metric"]][row["condition"].partition(":")[0]] = float(row["value"])
    for metric in ("response_time", "throughput", "ready_time", "host_cpu_utilisation"):
        blocks_of = of_metric(study, results, metric)
        if {"Run 1", "Run 2"} <= set(blocks_of):
            name = metric.replace("_", " ")
            pair = "; over ".join(
                runs_of(runs, side, blocks_of[side]) for side in ("Run 2", "Run 1")
            )
            rows.append({"metric": name, **_mean("'Run 2' / 'Run 1'", blocks_of), "runs": pair})
            if {"Run 1", "Run 2"} <= set(figures.get(metric, {})):
                ratio = figures[metric]["Run 2"] / figures[metric]["Run 1"]
                document.append({"metric": name, "value": round(ratio, 3)})
    return _ratios(rows, document, note)


def against_rate(
    study: Study, results: Results, metric: str, unit: str, note: str = ""
) -> alt.LayerChart:
    """A figure of the packet rate study at each rate, with its 95 % interval."""
    names = [name for name in study.measured(results) if name.startswith(f"{metric}_at_")]
    rates = sorted({int(re.split(r"_at_|: ", name)[1]) for name in names})
    runs = results.by_block()
    rows = [
        {"condition": condition, "at": rate, **_mean(f"'{condition}'", {condition: blocks}),
         "runs": runs_of(runs, condition, blocks)}
        for rate in rates
        for condition, blocks in of_metric(study, results, f"{metric}_at_{rate}").items()
    ]  # fmt: skip
    title = metric.replace("_", " ").replace("cpu", "CPU")
    axis_title = title if unit == "1" else f"{title} ({shown(unit)})"
    order = [c.name for c in study.conditions]
    return swept(rows, order, by="datagrams a second", metric=axis_title, note=note)


def _ratios(
    rows: list[dict[str, Any]], document: list[dict[str, Any]], note: str
) -> alt.LayerChart:
    rows, names = ends.reaching(rows, 1.0), [row["metric"] for row in rows]
    x = alt.X("value:Q", title="Run 2, over Run 1 = 1").scale(type="log", nice=False, padding=20)
    x = x.axis(BELOW_NAMES)
    y = alt.Y("metric:N", sort=names, title=None)
    base = alt.Chart(inline(rows)).encode(y=y)
    line_of_one = (
        alt.Chart(inline([{"value": 1}])).mark_rule(strokeDash=[6, 4], color=GREY).encode(x=x)
    )
    tips = [tip("metric"), tip("value", ".3~f", "Run 2 / Run 1"), interval_tip(),
            tip("runs")]  # fmt: skip
    layers = [
        line_of_one,
        base.mark_rule(strokeWidth=2, color=COLOUR)
        .encode(x="low:Q", x2="high:Q", tooltip=tips).transform_filter("isValid(datum.low)"),
        base.mark_point(filled=True, size=90, opacity=1, color=COLOUR).encode(x=x, tooltip=tips),
        *ends.beside_bars(rows, base.encode(color=alt.value(COLOUR)), "x", tips),
        alt.Chart(inline(document)).mark_point(shape="diamond", filled=True, size=110, color=GREY)
        .encode(x=x, y=y, tooltip=tip("value", ".3~f", "the document's")),
    ]  # fmt: skip
    sentence = "; ".join(f"{row['metric']} {figure(row['value'])}" for row in rows)
    legend = f"Diamonds: the document's. {ends.legend(rows)}".rstrip()
    chart, height = alt.LayerChart(layer=layers), 44 * max(1, len(rows))
    sentence = f"Run 2 over Run 1: {sentence}"
    return framed(chart, height, "What owning CPUs changes", legend, note, sentence,
                  ["◆ the document", *ends.brief(rows)])  # fmt: skip


def _mean(expression: str, sides: Mapping[str, Blocks]) -> dict[str, Any]:
    try:
        estimate = estimated(Quantity(expression, "average"), sides)
    except LabkitError:
        return {"value": float("nan"), **ends.bar(None, 0)}
    i = estimate.interval()
    return {"value": rounded(i.value), **ends.bar(i, estimate.blocks)}
