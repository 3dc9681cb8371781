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
    others = len(points) - MOST_ROWS
    parts = [
        f"{campaign.name}: {len(points)} points of {len({p.study for p in points})} studies",
        table(rows, head) + (f"\n... and {others} more; --json lists all" if others > 0 else ""),
        paragraph(_sentences(campaign, points, foreseen, finished)),
    ]
    return "\n\n".join(parts)


# The time that all points take.
def _sentences(
    campaign: Campaign, points: Sequence[CampaignPoint], foreseen: Mapping[str, Foreseen],
    finished: int,
) -> str:  # fmt: skip
    seconds = took(points, foreseen)
    texts = [f"All points take about {spoken(seconds)}."]
    if finished:
        texts.append(f"{finished} of them are finished already and are not run again.")
    if {forecast.by for forecast in foreseen.values()} & {"its plan", "a guess"}:
        texts.append("Where nothing was run here yet, the time is that of the plan: a first guess.")
    if campaign.deadline is not None and seconds > campaign.deadline:
        deadline = spoken(campaign.deadline)
        texts.append(f"The deadline of {deadline} comes first; run it again to go on.")
    return " ".join(texts)


def took(points: Sequence[CampaignPoint], foreseen: Mapping[str, Foreseen]) -> float:
    """Seconds of all points, where those on different labs run side by side."""
    needs = {lab: Needs.of(lab) for lab in {point.lab for point in points}}
    return together([(needs[point.lab], foreseen[point.name].seconds) for point in points])


def standing(state: CampaignStanding) -> str:
    """One line of progress: how many points, how long still, what is at work."""
    count = state.finished + state.failed
    full = round(BAR * count / state.of) if state.of else BAR
    bar = f"[{'#' * full}{'.' * (BAR - full)}]"
    failures = f", {state.failed} failed" if state.failed else ""
    rest_of = f", about {spoken(state.seconds_left)} left" if state.at_work else ""
    company = f" and {len(state.at_work) - 1} more" if len(state.at_work) > 1 else ""
    text = f": {state.at_work[0]}{company}" if state.at_work else ""
    return f"{bar} {state.finished} of {state.of} points{failures}{rest_of}{text}"


def ended(facts: Mapping[str, Any]) -> str:
    """Describe the state of a campaign: numbers of points, verdicts, and each point that failed."""
    points = facts["points"]
    states = Counter(str(point["state"]) for point in points)
    verdicts = Counter(str(v["verdict"]) for point in points for v in point["verdicts"])
    lines = [f"{facts['name']}: {_describe(states)}"]
    lines += [f"verdicts  {_describe(verdicts)}"] if verdicts else []
    head = ("number", "study", "state", "attempts")
    wrong = [
        (*(row[key] for key in head), row["why"].splitlines()[0]) for row in points if row["why"]
    ]
    if wrong:
        lines += ["", table(wrong[:MOST_ROWS], ("point", *head[1:], "why"))]
    return "\n".join(lines)


def _describe(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in counts.items())
