"""The points of a campaign: each a study with its values, on one lab, in one repetition."""

import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.campaign.asked import SHUFFLED, TWICE, AskedStudy, Campaign, word
from labkit.errors import BadInput
from labkit.running import notebook
from labkit.running.open_lab import is_stored

MOST_POINTS = 100_000


@dataclass(frozen=True)
class CampaignPoint:
    """One notebook that is to be run; `number` is its place in the order."""

    number: int
    study: str
    lab: str
    values: Mapping[str, Any]
    repetition: int

    @cached_property
    def key(self) -> str:
        """A few letters that no other point of the campaign has, whatever its place."""
        question = {**asdict(self), "number": 0}
        return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:04d}-{self.study}-{self.key}"

    @cached_property
    def question(self) -> str:
        """The study and its values, which all repetitions of the point share on whatever lab."""
        values = {name: value for name, value in self.values.items() if name != "seed"}
        return json.dumps([self.study, values], sort_keys=True)

    @property
    def said(self) -> str:
        """The values that were asked for, as words."""
        pairs = ((name, value) for name, value in self.values.items() if name != "seed")
        return ", ".join(f"{name}={word(value)}" for name, value in pairs)

    @property
    def title(self) -> str:
        """The point as notes name it."""
        repetition = f", repetition {self.repetition}" if self.repetition > 1 else ""
        values = f" ({self.said})" if self.said else ""
        return f"{self.number:04d} {self.study} on {self.place}{values}{repetition}"

    @property
    def place(self) -> str:
        """The lab as people call it."""
        return Path(self.lab).stem if "/" in self.lab else self.lab

    @property
    def stored(self) -> bool:
        """Whether it reads results, and measures nothing."""
        return is_stored(self.lab)

    def given(self, label: str) -> dict[str, str]:
        """The words that its notebook is run with."""
        words = {name: word(value) for name, value in self.values.items()}
        return {**words, "where": self.lab, "label": f"{label}-{self.key}"}


def points(campaign: Campaign) -> tuple[CampaignPoint, ...]:
    """All points in the order in which they run.

    Each repetition holds every point once. In shuffled order a drift of the lab hits all alike.
    """
    campaign_points: list[CampaignPoint] = []
    names = {study.name for study in campaign.studies}
    seeded = {name for name in names if "seed" in notebook.parameters(notebook.notebook(name))}
    for repetition in range(1, max(study.repetitions for study in campaign.studies) + 1):
        seed = campaign.seed + repetition - 1
        round_of = [
            point for study in campaign.studies
            for point in _of(study, {"seed": seed} if study.name in seeded else {}, repetition)
        ]  # fmt: skip
        if campaign.order == SHUFFLED:
            random.Random(f"{campaign.seed}/{repetition}").shuffle(round_of)
        campaign_points += round_of
        if len(campaign_points) > MOST_POINTS:
            problem = f"{campaign.path}: has more than {MOST_POINTS:,} points"
            raise BadInput(problem, hint="sweep over fewer values, or name fewer repetitions")
    in_order = tuple(replace(point, number=n) for n, point in enumerate(campaign_points, 1))
    keys: set[str] = set()
    for point in in_order:
        if point.key in keys:
            values = point.said or "its own values"
            problem = f"{campaign.path}: {point.study} with {values} is there twice"
            raise BadInput(problem, hint=TWICE)
        keys.add(point.key)
    return in_order


def _of(study: AskedStudy, seed: Mapping[str, int], repetition: int) -> Iterator[CampaignPoint]:
    if repetition > study.repetitions:
        return
    for lab in study.labs:
        for choice in itertools.product(*study.values.values()):
            values = {**seed, **dict(zip(study.values, choice, strict=True))}
            yield CampaignPoint(0, study.name, lab, values, repetition)
