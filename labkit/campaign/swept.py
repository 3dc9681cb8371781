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
from labkit.charts.curves import swept
from labkit.charts.look import rounded
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
    for (study, place), group in points.items():
        for name in _parameters(group):
            try:
                chart = _draw(folder, study, place, name, group)
            except LabkitError:  # its points say what is wrong with them
                continue
            yield bundle(chart.to_dict())["image/svg+xml"]


def _parameters(points: Sequence[CampaignPoint]) -> Iterator[str]:
    for name in dict.fromkeys(name for point in points for name in point.values if name != "seed"):
        values = {point.values.get(name) for point in points}
        if len(values) > 1 and all(type(value) in (int, float) for value in values):
            yield name


def _draw(
    folder: CampaignFolder, study: str, place: str, name: str, points: Sequence[CampaignPoint]
) -> alt.LayerChart:  # fmt: skip
    study_of, label = studies.find(study), ""
    blocks_at: dict[tuple[str, float], Blocks] = defaultdict(dict)
    for point in points:
        if attempt := folder.finished(point):
            results = Results.open(folder.results(attempt))
            label = note(results)
            for condition, blocks in of_metric(study_of, results, plain(study_of.metric)).items():
                first = PER_SESSION * point.repetition
                # What else was swept tells lines apart.
                rest = {k: v for k, v in point.values.items() if k not in ("seed", name)}
                others = "".join(f", {k} {v}" for k, v in rest.items())
                key = f"{condition}{others}", float(point.values[name])
                blocks_at[key] = {**blocks_at[key], **{first + b: v for b, v in blocks.items()}}
    metric = f"{study_of.metric} ({shown(study_of.unit)})"
    rows = [_row(condition, at, blocks) for (condition, at), blocks in blocks_at.items()]
    names = list(dict.fromkeys(row["condition"] for row in rows))
    return swept(rows, names, by=name, metric=metric, of=f"{study} on {place}", note=label)


def _row(condition: str, at: float, blocks: Blocks) -> dict[str, Any]:
    has_many = count(blocks) > len(blocks)
    estimate = estimated(Quantity("'it'", 50.0 if has_many else "mean"), {"it": blocks})
    interval = estimate.interval()
    sessions = len({block // PER_SESSION for block in blocks})
    return {
        "condition": condition,
        "at": at,
        "value": rounded(interval.value),
        **ends.bar(interval, estimate.blocks),
        "runs": f"{len(blocks)} in {sessions} sessions",
    }
