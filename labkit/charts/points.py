"""Tables and pictures of what a study measures at several points, such as both ways of a stream."""

from __future__ import annotations

from collections.abc import Mapping

from labkit.charts.tradeoff import mean_of, of_metric, units_of
from labkit.machine.units import figure
from labkit.results import Results
from labkit.statistics.estimate import estimated
from labkit.statistics.percentiles import Blocks
from labkit.statistics.quantity import Quantity
from labkit.study import Study


def at(blocks_of: Mapping[str, Blocks], point: str) -> dict[str, Blocks]:
    """The conditions at one point, such as `way=send`, named without it."""
    end = f" [{point}]"
    return {
        name.removesuffix(end): blocks for name, blocks in blocks_of.items() if name.endswith(end)
    }


def means(study: Study, results: Results, *metrics: str) -> list[dict[str, object]]:
    """A row for each metric, condition and point: the mean with its 95 % interval."""
    units = units_of(study, results)
    return [
        {"metric": metric.replace("_", " "), "condition": name,
         **_mean(blocks, units.get(metric, "")),
         "unit": units.get(metric, "")}
        for metric in metrics
        for name, blocks in of_metric(study, results, metric).items()
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


def _mean(blocks: Blocks, unit: str) -> dict[str, str]:
    interval = mean_of(blocks, unit)
    return {"mean": figure(interval.value), "95 % interval": interval.ends(figure)}
