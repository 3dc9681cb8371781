"""The points of a campaign: each a study with its values, on one lab, in one repetition."""

import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.campaign.asked import SHUFFLED, TWICE, AskedStudy, Campaign
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
        return ", ".join(f"{name}={_word(value)}" for name, value in pairs)

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
        words = {name: _word(value) for name, value in self.values.items()}
        return {**words, "where": self.lab, "label": f"{label}-{self.key}"}


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def points(campaign: Campaign) -> tuple[CampaignPoint, ...]:
    """All points in the order in which they run.

    Each repetition holds every point once. In shuffled order a drift of the lab hits all alike.
    """
    campaign_points: list[CampaignPoint] = []
    has_seed = {study.name: _is_seeded(study.name) for study in campaign.studies}
    for repetition in range(1, max(study.repetitions for study in campaign.studies) + 1):
        seed = campaign.seed + repetition - 1
        round_of = [
            point for study in campaign.studies
            for point in _of(study, {"seed": seed} if has_seed[study.name] else {}, repetition)
        ]  # fmt: skip
        if campaign.order == SHUFFLED:
            random.Random(f"{campaign.seed}/{repetition}").shuffle(round_of)
        campaign_points += round_of
        if len(campaign_points) > MOST_POINTS:
            problem = f"{campaign.path}: has more than {MOST_POINTS:,} points"
            raise BadInput(problem, hint="sweep over fewer values, or name fewer repetitions")
    in_order = tuple(
        CampaignPoint(n, point.study, point.lab, point.values, point.repetition)
        for n, point in enumerate(campaign_points, 1)
    )
    _refuse_twins(campaign, in_order)
    return in_order


def _is_seeded(study: str) -> bool:
    return "seed" in notebook.parameters(notebook.notebook(study))


def _of(study: AskedStudy, seed: Mapping[str, int], repetition: int) -> Iterator[CampaignPoint]:
    if repetition > study.repetitions:
        return
    for lab in study.labs:
        for choice in itertools.product(*study.sweep.values()):
            values = {**seed, **study.fixed, **dict(zip(study.sweep, choice, strict=True))}
            yield CampaignPoint(0, study.name, lab, values, repetition)


def _refuse_twins(campaign: Campaign, campaign_points: tuple[CampaignPoint, ...]) -> None:
    keys: set[str] = set()
    for point in campaign_points:
        if point.key in keys:
            values = point.said or "its own values"
            problem = f"{campaign.path}: {point.study} with {values} is there twice"
            raise BadInput(problem, hint=TWICE)
        keys.add(point.key)
