"""Several metrics of one study beside each other, as tables and pictures: gains and what they cost.

A metric is written with `_` for blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

import altair as alt
import numpy as np

from labkit.charts import ends, look
from labkit.charts.compared import measured_ratio, over_one
from labkit.charts.curves import swept
from labkit.errors import BadInput, LabkitError, Unknown
from labkit.machine.units import figure, shown
from labkit.results import Results
from labkit.statistics.estimate import estimated
from labkit.statistics.interval import Interval
from labkit.statistics.measurand import Measurand, plain
from labkit.statistics.percentiles import Blocks, interval
from labkit.statistics.quantity import PARTS, Quantity
from labkit.study import Study


def of_metric(study: Study, results: Results, metric: str) -> dict[str, Blocks]:
    """Condition -> block -> values of one metric.

    Conditions come in the order of the study, whatever was measured first.
    """
    if metric == plain(study.metric):
        metric = ""
    pairs = [(Measurand.of(key), blocks) for key, blocks in study.measured(results).items()]
    blocks_of: dict[str, Blocks] = {name.at: b for name, b in pairs if name.metric == metric}
    if not blocks_of:
        metrics = {name.metric for name, _ in pairs if name.metric}
        raise Unknown("metric", metric, [plain(study.metric), *sorted(metrics)])
    return {name: blocks_of[name] for name in _in_order(study, blocks_of)}


def _in_order(study: Study, names: Iterable[str]) -> list[str]:
    names = list(names)
    firsts = [n for c in study.conditions for n in names if Measurand.of(n).is_of(c.name)]
    return list(dict.fromkeys([*firsts, *names]))


def at(blocks_of: Mapping[str, Blocks], point: str) -> dict[str, Blocks]:
    """The conditions at one point, such as `way=send`, named without it."""
    end = f" [{point}]"
    return {
        name.removesuffix(end): blocks for name, blocks in blocks_of.items() if name.endswith(end)
    }


def both_sides(study: Study, results: Results, metrics: Iterable[str]) -> list[dict[str, str]]:
    """A row for each condition: the mean of each metric over all blocks, and its 95 % interval.

    A metric that no host of the lab could measure says so in each row.
    """
    there = {plain(study.metric), *(Measurand.of(key).metric for key in study.measured(results))}
    units, columns = units_of(study, results), dict[str, dict[str, str]]()
    for metric in metrics:
        unit = units.get(metric, "")
        blocks_of = of_metric(study, results, metric) if metric in there else {}
        means = {name: mean_of(blocks, unit, "average") for name, blocks in blocks_of.items()}
        title = metric.replace("_", " ") + (f" ({unit})" if unit else "")
        columns[title] = {n: f"{figure(m.value)} ({m.ends(figure)})" for n, m in means.items()}
    names = _in_order(study, sorted({name for cells in columns.values() for name in cells}))
    return [
        {"condition": name} | {
            title: cells.get(name, "") if cells else "not reported by this lab"
            for title, cells in columns.items()
        }
        for name in names
    ]  # fmt: skip


def means(study: Study, results: Results, *metrics: str) -> list[dict[str, object]]:
    """A row for each metric, condition and point: the mean with its 95 % interval."""
    units = units_of(study, results)
    return [
        {"metric": metric.replace("_", " "), "condition": name, "mean": figure(mean.value),
         "95 % interval": mean.ends(figure), "unit": units.get(metric, "")}
        for metric in metrics
        for name, blocks in of_metric(study, results, metric).items()
        for mean in [mean_of(blocks, units.get(metric, ""))]
    ]  # fmt: skip


def times(blocks_of: Mapping[str, Blocks], point: str) -> list[dict[str, str]]:
    """A row for each condition: how many times what it does at the point, such as `servers=1`."""
    at_point = at(blocks_of, point)
    return [
        {"condition": name, "times": figure(i.value), "95 % interval": i.ends(figure)}
        for name, blocks in blocks_of.items() if name in at_point
        for sides in [{"a": blocks, "b": at_point[name]}]
        for i in [estimated(Quantity("'a' / 'b'", "mean"), sides).interval()]
    ]  # fmt: skip


def beside(study: Study, results: Results, metrics: Mapping[float, str]) -> list[dict[str, str]]:
    """Rows: a percentile of all values of the study's tool, and what another printed for it.

    `metrics` names the other tool's metric by percentile. It gives one number a run, so its middle
    one is shown and, behind it, the least and the greatest.
    """
    values_of, rows = study.measured(results), []
    for condition, runs in study.blocks(results).items():
        for q, metric in metrics.items():
            figures = values_of.get(f"{metric.replace(' ', '_')}: {condition}", {})
            values = np.concatenate(list(figures.values())) if figures else np.array([])
            spread = "not measured"
            if values.size:
                spread = f"{np.median(values):.0f} ({values.min():.0f} to {values.max():.0f})"
            bar = interval(runs, q)
            rows.append({
                "condition": condition, "percentile": f"{q:g} %",
                study.workload.name: f"{bar.value:.0f} ({bar.ends('{:.0f}'.format)})",
                metric.split()[0]: spread, "unit": study.unit,
            })  # fmt: skip
    return rows


def mean_of(blocks: Blocks, unit: str, statistic: str = "mean") -> Interval:
    """The mean of a condition, within what a figure in that unit can be."""
    kinds = {"it": PARTS[unit]} if unit in PARTS else {}
    return estimated(Quantity("'it'", statistic).of_kinds(kinds), {"it": blocks}).interval()


# A share has the unit 1, which says nothing beside a number.
def units_of(study: Study, results: Results) -> dict[str, str]:
    """The unit of each metric, as the first finished run has it."""
    samples = [sample for run in results.finished()[:1] for sample in study.samples(run)]
    return {plain(s.metric): "" if s.unit == "1" else shown(s.unit) for s in samples}


def run_2_over_run_1(study: Study, results: Results, note: str = "") -> alt.LayerChart:
    """The mean of every metric of Run 2 over that of Run 1, beside the document's two ratios."""
    rows: look.Rows = []
    paper: look.Rows = []
    printed = {
        (row["metric"], row["condition"].partition(":")[0]): float(row["value"])
        for row in study.published()
    }
    for metric in ("response_time", "throughput", "ready_time", "host_cpu_utilisation"):
        blocks_of, name = of_metric(study, results, metric), {"metric": metric.replace("_", " ")}
        if {"Run 1", "Run 2"} <= set(blocks_of):
            runs = results.by_block()
            with suppress(BadInput):  # nothing is so many times 0
                rows.append(
                    {**measured_ratio("Run 2", "Run 1", blocks_of, "average", runs), **name}
                )
            if (metric, "Run 1") in printed and (metric, "Run 2") in printed:
                quotient = printed[metric, "Run 2"] / printed[metric, "Run 1"]
                paper.append({**name, "value": round(quotient, 3)})
    rows = ends.reaching(rows, 1.0)
    x = alt.X("value:Q", title="Run 2, over Run 1 = 1").scale(type="log", nice=False, padding=20)
    y = alt.Y("metric:N", sort=[row["metric"] for row in rows], title=None)
    tips = look.tips("metric", ("value", ".3~f", "Run 2 / Run 1"), look.INTERVAL, "runs")
    return over_one(
        rows, y, x.axis(look.BELOW_NAMES), tips, color=alt.value(look.COLOURS[0]), shaded={},
        paper=paper, height=44 * max(1, len(rows)), title="What owning CPUs changes",
        text="Run 2 over Run 1", note=note,
    )  # fmt: skip


def against_rate(
    study: Study, results: Results, metric: str, unit: str, note: str = ""
) -> alt.LayerChart:
    """A figure of the packet rate study at each rate, with its 95 % interval."""
    names = [name for name in study.measured(results) if name.startswith(f"{metric}_at_")]
    rows, runs = [], results.by_block()
    for rate in sorted({int(re.split(r"_at_|: ", name)[1]) for name in names}):
        for condition, blocks in of_metric(study, results, f"{metric}_at_{rate}").items():
            row = {"condition": condition, "at": rate, "value": float("nan"), **ends.bar(None, 0)}
            with suppress(LabkitError):
                estimate = estimated(Quantity("'it'", "average"), {"it": blocks})
                i = estimate.interval()
                row |= {"value": look.rounded(i.value), **ends.bar(i, estimate.blocks)}
            rows.append({**row, "runs": look.runs_of(runs, condition, blocks)})
    title = metric.replace("_", " ").replace("cpu", "CPU")
    axis_title = title if unit == "1" else f"{title} ({shown(unit)})"
    order = [c.name for c in study.conditions]
    return swept(rows, order, by="datagrams a second", metric=axis_title, note=note)
