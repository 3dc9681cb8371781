"""Several metrics of one study beside each other: what is gained, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import altair as alt

from labkit.charts import ends
from labkit.charts.compared import measured_ratio, over_one
from labkit.charts.look import (
    BELOW_NAMES,
    COLOURS,
    framed,
    interval_tip,
    rounded,
    runs_of,
    tip,
)
from labkit.charts.swept import swept
from labkit.errors import BadInput, LabkitError, Unknown
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
    names = [n for c in study.conditions for n in blocks_of if Measurand.of(n).is_of(c.name)]
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
    units = units_of(study, results)
    found = sorted({name for column in columns.values() for name in column})
    names = [n for c in study.conditions for n in found if Measurand.of(n).is_of(c.name)]
    return [
        {"condition": name} | {
            metric.replace("_", " ") + (f" ({unit})" if (unit := units.get(metric)) else ""):
                cells.get(name, "") if cells else "not reported by this lab"
            for metric, cells in columns.items()
        }
        for name in dict.fromkeys(names)
    ]  # fmt: skip


# Condition -> what its row says; empty where no host could measure it.
def _column(study: Study, results: Results, metric: str) -> dict[str, str]:
    metrics = {Measurand.of(key).metric for key in study.measured(results)}
    if metric not in {*metrics, plain(study.metric)}:
        return {}
    blocks_of, unit = of_metric(study, results, metric), units_of(study, results).get(metric, "")
    means = {name: mean_of(blocks, unit, "average") for name, blocks in blocks_of.items()}
    return {name: f"{figure(mean.value)} ({mean.ends(figure)})" for name, mean in means.items()}


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
    printed = {
        (row["metric"], row["condition"].partition(":")[0]): float(row["value"])
        for row in study.published()
    }
    for metric in ("response_time", "throughput", "ready_time", "host_cpu_utilisation"):
        blocks_of, name = of_metric(study, results, metric), {"metric": metric.replace("_", " ")}
        if {"Run 1", "Run 2"} <= set(blocks_of):
            with suppress(BadInput):  # nothing is so many times 0
                ratio = measured_ratio("Run 2", "Run 1", blocks_of, "average", runs)
                rows.append({**ratio, **name})
            if (metric, "Run 1") in printed and (metric, "Run 2") in printed:
                quotient = printed[metric, "Run 2"] / printed[metric, "Run 1"]
                document.append({**name, "value": round(quotient, 3)})
    rows = ends.reaching(rows, 1.0)
    x = alt.X("value:Q", title="Run 2, over Run 1 = 1").scale(type="log", nice=False, padding=20)
    y = alt.Y("metric:N", sort=[row["metric"] for row in rows], title=None)
    tips = [tip("metric"), tip("value", ".3~f", "Run 2 / Run 1"), interval_tip(), tip("runs")]
    chart = over_one(rows, y, x.axis(BELOW_NAMES), tips, paper=document, color=alt.value(COLOUR))
    sentence = "; ".join(f"{row['metric']} {figure(row['value'])}" for row in rows)
    return framed(
        chart, 44 * max(1, len(rows)), "What owning CPUs changes",
        f"Diamonds: the document's. {ends.legend(rows)}".rstrip(), note,
        f"Run 2 over Run 1: {sentence}", ["◆ the document", *ends.brief(rows)],
    )  # fmt: skip


def against_rate(
    study: Study, results: Results, metric: str, unit: str, note: str = ""
) -> alt.LayerChart:
    """A figure of the packet rate study at each rate, with its 95 % interval."""
    names = [name for name in study.measured(results) if name.startswith(f"{metric}_at_")]
    rates = sorted({int(re.split(r"_at_|: ", name)[1]) for name in names})
    runs = results.by_block()
    rows = [
        {"condition": condition, "at": rate, **_mean(blocks),
         "runs": runs_of(runs, condition, blocks)}
        for rate in rates
        for condition, blocks in of_metric(study, results, f"{metric}_at_{rate}").items()
    ]  # fmt: skip
    title = metric.replace("_", " ").replace("cpu", "CPU")
    axis_title = title if unit == "1" else f"{title} ({shown(unit)})"
    order = [c.name for c in study.conditions]
    return swept(rows, order, by="datagrams a second", metric=axis_title, note=note)


def _mean(blocks: Blocks) -> dict[str, Any]:
    try:
        estimate = estimated(Quantity("'it'", "average"), {"it": blocks})
    except LabkitError:
        return {"value": float("nan"), **ends.bar(None, 0)}
    i = estimate.interval()
    return {"value": rounded(i.value), **ends.bar(i, estimate.blocks)}
