"""Points before they run: how long each will take, and all of them for a person to read."""

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from labkit import studies
from labkit.campaign.asked import Campaign, CampaignPoint
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.places import Needs
from labkit.errors import LabkitError
from labkit.machine.places import out
from labkit.machine.units import spoken
from labkit.pages.terminal import paragraph, table
from labkit.running import until_decided
from labkit.running.notebook import as_run
from labkit.running.sizes import Demand

AROUND_SECONDS = 10.0
"""About what a notebook and its report take beside measuring, until one was run here."""
MOST_CAMPAIGNS, ENOUGH_POINTS = 20, 5
"""Campaigns looked through, the newest first, and points of each question that are enough."""
MOST_ROWS = 60
Earlier = Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True)
class Foreseen:
    """Seconds of a point, and what they were foreseen by."""

    seconds: float
    by: str


def earlier(points: Iterable[CampaignPoint]) -> Earlier:
    """Seconds that such points took in the newest campaigns here, by question and lab."""
    times: dict[tuple[str, str], list[float]] = {(p.question, p.lab): [] for p in points}
    files = out().glob("campaigns/*/campaign.json")
    newest = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
    for file in newest[:MOST_CAMPAIGNS]:
        with suppress(LabkitError):
            folder = CampaignFolder.open(file.parent)
            for point in folder.points:
                took = times.get((point.question, point.lab))
                if took is None or len(took) >= ENOUGH_POINTS:
                    continue
                if attempt := folder.finished(point):
                    took.append(attempt.seconds)
    return times


def foreseen(points: Sequence[CampaignPoint]) -> dict[str, Foreseen]:
    """The expected times by point name; points of one question on one lab take the same."""
    before = earlier(points)
    one_of = {(point.question, point.lab): point for point in points}
    best = {key: best_known(point, before) for key, point in one_of.items()}
    return {point.name: best[point.question, point.lab] for point in points}


def best_known(point: CampaignPoint, before: Earlier) -> Foreseen:
    """The best estimate of the time that a point will take."""
    if took := before.get((point.question, point.lab)):
        source = f"{len(took)} earlier points" if len(took) > 1 else "an earlier point"
        return Foreseen(statistics.median(took), source)
    if point.stored:
        return Foreseen(AROUND_SECONDS, "a guess")
    study, repeats = as_run(studies.find(point.study), point.values, point.lab)
    if (budget := until_decided.asked(repeats)) is not None:
        return Foreseen(60 * budget.minutes + AROUND_SECONDS, "its budget")
    plan = Demand.of(study, study.conditions, int(repeats))
    return Foreseen(plan.seconds + AROUND_SECONDS, "its plan")


def together(times: Sequence[tuple[Needs, float]]) -> float:
    """Seconds of points with these needs, where those on different labs run side by side."""
    alone, beside = 0.0, defaultdict[frozenset[str], float](float)
    for needs, seconds in times:
        if needs.alone:
            alone += seconds
        else:
            share = os.cpu_count() or 1 if needs.stored else 1
            beside[needs.hosts] += seconds / share
    return alone + max(beside.values(), default=0.0)


def explained(
    campaign: Campaign, points: Sequence[CampaignPoint], foreseen: Mapping[str, Foreseen],
    finished: int,
) -> str:  # fmt: skip
    """Every point with its values, and how long all will take."""
    rows = [
        (point.number, point.study, point.place, point.repetition, spoken(at.seconds), at.by,
         point.said or "the notebook's own values")
        for point in points[:MOST_ROWS] for at in [foreseen[point.name]]
    ]  # fmt: skip
    head = ("point", "study", "lab", "repetition", "about", "foreseen by", "values")
    others, seconds = len(points) - MOST_ROWS, took(points, foreseen)
    told = [f"All points take about {spoken(seconds)}."]
    if finished:
        told.append(f"{finished} of them are finished already and are not run again.")
    if {forecast.by for forecast in foreseen.values()} & {"its plan", "a guess"}:
        told.append("Where nothing was run here yet, the time is that of the plan: a first guess.")
    if campaign.deadline is not None and seconds > campaign.deadline:
        deadline = spoken(campaign.deadline)
        told.append(f"The deadline of {deadline} comes first; run it again to go on.")
    return "\n\n".join([
        f"{campaign.name}: {len(points)} points of {len({p.study for p in points})} studies",
        table(rows, head) + (f"\n... and {others} more; --json lists all" if others > 0 else ""),
        paragraph(" ".join(told)),
    ])  # fmt: skip


def took(points: Sequence[CampaignPoint], foreseen: Mapping[str, Foreseen]) -> float:
    """Seconds of all points, where those on different labs run side by side."""
    needs = {lab: Needs.of(lab) for lab in {point.lab for point in points}}
    return together([(needs[point.lab], foreseen[point.name].seconds) for point in points])
