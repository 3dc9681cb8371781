"""A campaign in a terminal: what it will do, how far it is, and how it ended."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from labkit.campaign.asked import Campaign
from labkit.campaign.conductor import CampaignStanding
from labkit.campaign.foreseen import Foreseen, together
from labkit.campaign.places import Needs
from labkit.campaign.points import CampaignPoint
from labkit.machine.units import spoken
from labkit.pages.terminal import BAR, paragraph, table

MOST_ROWS = 60


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
    more = len(points) - MOST_ROWS
    parts = [
        f"{campaign.name}: {len(points)} points of {len({one.study for one in points})} studies",
        table(rows, head) + (f"\n... and {more} more; --json lists all" if more > 0 else ""),
        paragraph(whole(campaign, points, foreseen, finished)),
    ]
    return "\n\n".join(parts)


def whole(
    campaign: Campaign, points: Sequence[CampaignPoint], foreseen: Mapping[str, Foreseen],
    finished: int,
) -> str:  # fmt: skip
    """The time that all points take, in sentences."""
    seconds = took(points, foreseen)
    texts = [f"All points take about {spoken(seconds)}."]
    if finished:
        texts.append(f"{finished} of them are finished already and are not run again.")
    guessed = {forecast.by for forecast in foreseen.values()} & {"its plan", "a guess"}
    if guessed:
        texts.append("Where nothing was run here yet, the time is that of the plan: a first guess.")
    if campaign.deadline is not None and seconds > campaign.deadline:
        texts.append(
            f"The deadline of {spoken(campaign.deadline)} comes first; run it again to go on."
        )
    return " ".join(texts)


def took(points: Sequence[CampaignPoint], foreseen: Mapping[str, Foreseen]) -> float:
    """Seconds of all points, where those on different labs run side by side."""
    needs = {lab: Needs.of(lab) for lab in {point.lab for point in points}}
    return together([(needs[point.lab], foreseen[point.name].seconds) for point in points])


def standing(now: CampaignStanding) -> str:
    """One line of progress: how many points, how long still, what is at work."""
    count = now.finished + now.failed
    full = round(BAR * count / now.of) if now.of else BAR
    bar = f"[{'#' * full}{'.' * (BAR - full)}]"
    failed = f", {now.failed} failed" if now.failed else ""
    left = f", about {spoken(now.seconds_left)} left" if now.at_work else ""
    others = f" and {len(now.at_work) - 1} more" if len(now.at_work) > 1 else ""
    text = f": {now.at_work[0]}{others}" if now.at_work else ""
    return f"{bar} {now.finished} of {now.of} points{failed}{left}{text}"


def ended(told: Mapping[str, Any]) -> str:
    """Describe the state of a campaign: numbers of points, verdicts, and each point that failed."""
    points = told["points"]
    states = Counter(str(point["state"]) for point in points)
    verdicts = Counter(str(v["verdict"]) for point in points for v in point["verdicts"])
    lines = [
        f"{told['name']}: {_counted(states)}",
        f"verdicts  {_counted(verdicts)}" if verdicts else "",
    ]
    wrong = [
        (row["number"], row["study"], row["state"], row["attempts"], row["why"].splitlines()[0])
        for row in points if row["why"]
    ]  # fmt: skip
    if wrong:
        lines += ["", table(wrong[:MOST_ROWS], ("point", "study", "state", "attempts", "why"))]
    return "\n".join(line for n, line in enumerate(lines) if line or n > 1)


def _counted(many: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in many.items())
