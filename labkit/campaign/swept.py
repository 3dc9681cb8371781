"""Pictures of sweeps: the figure of a study against each parameter that a campaign varied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from labkit import studies
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.points import CampaignPoint
from labkit.charts import bundle, ends
from labkit.charts.look import rounded
from labkit.charts.swept import swept
from labkit.charts.tradeoff import of_metric
from labkit.errors import LabkitError
from labkit.machine.units import shown
from labkit.results import Results
from labkit.running.open_lab import note
from labkit.statistics.estimate import estimated
from labkit.statistics.measurand import plain
from labkit.statistics.percentiles import Blocks, count
from labkit.statistics.quantity import Quantity

PER_SESSION = 10**6
"""Blocks of one session have numbers below it."""


def sweeps(folder: CampaignFolder) -> Iterator[str]:
    """A picture as SVG of each study on each lab along each parameter that was swept."""
    points: dict[tuple[str, str], list[CampaignPoint]] = defaultdict(list)
    for point in folder.points:
        points[point.study, point.place].append(point)
    for (study, place), some in points.items():
        for name in _varied(some):
            try:
                drawn = _drawn(folder, study, place, name, some)
            except LabkitError:  # its points say what is wrong with them
                continue
            yield bundle(drawn.to_dict())["image/svg+xml"]


def _varied(points: Sequence[CampaignPoint]) -> list[str]:
    names = dict.fromkeys(name for point in points for name in point.values if name != "seed")
    return [name for name in names if _numbers({point.values.get(name) for point in points})]


def _numbers(values: set[Any]) -> bool:
    return len(values) > 1 and all(type(value) in (int, float) for value in values)


def _drawn(
    folder: CampaignFolder, study: str, place: str, name: str, points: Sequence[CampaignPoint]
) -> alt.LayerChart:  # fmt: skip
    known, label = studies.find(study), ""
    measured: dict[tuple[str, float], Blocks] = defaultdict(dict)
    for point in points:
        if attempt := folder.finished(point):
            results = Results.open(folder.results(attempt))
            label = note(results)
            for condition, blocks in of_metric(known, results, plain(known.metric)).items():
                first = PER_SESSION * point.repetition
                key = f"{condition}{_others(point, name)}", float(point.values[name])
                measured[key] = {**measured[key], **{first + b: v for b, v in blocks.items()}}
    metric = f"{known.metric} ({shown(known.unit)})"
    rows = [_row(condition, at, blocks) for (condition, at), blocks in measured.items()]
    names = list(dict.fromkeys(row["condition"] for row in rows))
    return swept(rows, names, by=name, metric=metric, of=f"{study} on {place}", note=label)


# What else was swept tells lines apart.
def _others(point: CampaignPoint, name: str) -> str:
    others = {k: v for k, v in point.values.items() if k not in ("seed", name)}
    return "".join(f", {k} {v}" for k, v in others.items())


def _row(condition: str, at: float, blocks: Blocks) -> dict[str, Any]:
    many = count(blocks) > len(blocks)
    estimate = estimated(Quantity("'it'", 50.0 if many else "mean"), {"it": blocks})
    found = estimate.interval()
    sessions = len({block // PER_SESSION for block in blocks})
    return {
        "condition": condition,
        "at": at,
        "value": rounded(found.value),
        **ends.bar(found, estimate.blocks),
        "runs": f"{len(blocks)} in {sessions} sessions",
    }
