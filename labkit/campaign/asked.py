"""The file of a campaign, and its points: which studies, with which values, where, how often."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit import studies
from labkit.errors import BadInput
from labkit.machine.written import Keys, Written
from labkit.results import check_label
from labkit.running import notebook
from labkit.running.open_lab import (
    check_parameters,
    check_place,
    check_quick,
    is_stored,
    stored_results,
)

NAME_LETTERS = 60
MOST_REPETITIONS = 1000
MOST_RETRIES = 10
TWICE = "repetitions = 2 asks for the same again"
SHUFFLED, AS_WRITTEN = "shuffled", "as written"
KEYS = {"name", "labs", "repetitions", "order", "seed", "retries", "deadline", "limit", "study"}
STUDY_KEYS = {"name", "labs", "repetitions", "parameters", "sweep"}
RESERVED_NAMES = {
    "where": 'labs = ["box"] says where a study runs',
    "label": "a campaign names its results itself",
}
"""Parameters of notebooks that a campaign sets."""
FILES = (".toml", ".labkit")
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)")
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}

Values = Mapping[str, Any]


@dataclass(frozen=True)
class AskedStudy:
    """One study of a campaign; a parameter that is swept over has several values."""

    name: str
    labs: tuple[str, ...]
    repetitions: int
    values: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Campaign:
    """Requests of a campaign file; spans of time are in seconds, and None is no limit."""

    name: str
    path: Path
    text: str
    studies: tuple[AskedStudy, ...]
    order: str
    seed: int
    retries: int
    deadline: float | None
    limit: float | None

    @classmethod
    def read(cls, path: Path) -> Campaign:
        """The campaign that a file describes; whatever cannot be run is refused with its line."""
        hint = f"`labkit campaign new {path.name}` writes one to begin with"
        toml = Written.read(path, "campaign", hint)
        tables = toml.tables()
        toml.insist_known(tables, KEYS)
        entries = tables.get("study", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise toml.wrong("study is a list of tables", "study", hint="[[study]] begins each")
        if not entries:
            hint = '[[study]] and below it name = "lat_ping"; `labkit studies` lists all names'
            raise BadInput(f"{path}: names no study", hint=hint)
        name = str(tables.get("name", path.stem))
        with toml.locating("name"):
            check_label(name)
            if len(name) > NAME_LETTERS:
                raise BadInput(f"the name of a campaign has at most {NAME_LETTERS} letters")
        order = tables.get("order", SHUFFLED)
        if order not in (SHUFFLED, AS_WRITTEN):
            hint = f'order = "{SHUFFLED}" or "{AS_WRITTEN}"'
            raise toml.wrong(f"no such order: {order!r}", "order", hint=hint)
        return cls(
            name, path.resolve(), toml.text,
            tuple(_Entry(toml, tables, n, entry).read() for n, entry in enumerate(entries)), order,
            _whole_number(toml, tables.get("seed", 1), ("seed",), 0, 2**31),
            _whole_number(toml, tables.get("retries", 2), ("retries",), 0, MOST_RETRIES),
            _span(toml, tables, "deadline"), _span(toml, tables, "limit"),
        )  # fmt: skip


@dataclass(frozen=True)
class _Entry:
    """One [[study]] of the file, number `n`; what it does not say the campaign may say for all."""

    toml: Written
    tables: Values
    n: int
    values: Values

    def read(self) -> AskedStudy:
        toml, above = self.toml, ("study", self.n)
        toml.insist_known(self.values, STUDY_KEYS, *above)
        if not isinstance(self.values.get("name"), str):
            hint = "`labkit studies` lists all names"
            raise toml.wrong('a study needs name = "..."', *above, hint=hint)
        with toml.locating(*above, "name"):
            name = studies.find(self.values["name"]).name
        labs = self._labs(name)
        repetitions = _whole_number(toml, *self._of_all("repetitions", 1), 1, MOST_REPETITIONS)
        return AskedStudy(name, labs, repetitions, self._values(name, labs[0]))

    def _of_all(self, key: str, usual: Any) -> tuple[Any, Keys]:
        if key in self.values:
            return self.values[key], ("study", self.n, key)
        return self.tables.get(key, usual), (key,)

    def _labs(self, study: str) -> tuple[str, ...]:
        places, keys = self._of_all("labs", ["box"])
        if not (isinstance(places, list) and places and all(isinstance(x, str) for x in places)):
            hint = 'such as: labs = ["box", "basement.toml"]'
            raise self.toml.wrong("labs is a list of places", *keys, hint=hint)
        with self.toml.locating(*keys):
            return tuple(dict.fromkeys(_place(self.toml.path, study, name) for name in places))

    def _values(self, study: str, lab: str) -> Mapping[str, tuple[Any, ...]]:
        read: dict[str, tuple[Any, ...]] = {}
        for table in ("parameters", "sweep"):
            for name, given in self._table(table).items():
                keys = ("study", self.n, table, name)
                if name in read:
                    hint = "keep it under sweep, or under parameters"
                    raise self.toml.wrong(f"{name} is both swept and fixed", *keys, hint=hint)
                choices = [given] if table == "parameters" else given
                if not isinstance(choices, list) or not choices:
                    hint = f"such as: {name} = [1, 2]; a single value stands under parameters"
                    problem = f"a sweep over {name} is a list of values"
                    raise self.toml.wrong(problem, *keys, hint=hint)
                read[name] = tuple(self._value(study, keys, value, lab) for value in choices)
                if len(set(map(repr, read[name]))) < len(choices):
                    problem = f"the sweep over {name} has a value twice"
                    raise self.toml.wrong(problem, *keys, hint=TWICE)
        table = "sweep" if "quick" in self._table("sweep") else "parameters"
        with self.toml.locating("study", self.n, table, "quick"):
            quick = any(read.get("quick", ()))
            check_quick(studies.find(study), {**read, "quick": quick})
        return read

    def _table(self, name: str) -> Values:
        table = self.values.get(name, {})
        if not isinstance(table, dict):
            hint = f"[study.{name}] and below it lines such as repeats = 5"
            raise self.toml.wrong(f"{name} is a table", "study", self.n, name, hint=hint)
        return table

    # One value as the notebook takes it; ranges are those of the study and of its workload.
    def _value(self, study: str, keys: Keys, value: Any, lab: str) -> Any:
        name = str(keys[-1])
        if isinstance(value, list):
            hint = f"under [study.sweep], {name} takes several values"
            raise self.toml.wrong(f"parameter {name} is one value, not a list", *keys, hint=hint)
        if not isinstance(value, str | bool | int | float):
            problem = f"parameter {name} is a number, a text or true or false"
            raise self.toml.wrong(problem, *keys)
        with self.toml.locating(*keys):
            if hint := RESERVED_NAMES.get(name, ""):
                raise BadInput(f"{name} is not a parameter of a campaign", hint=hint)
            read = notebook.read_parameters(notebook.notebook(study), {name: word(value)})
            check_parameters(studies.find(study), {"where": lab, "label": "x", **read})
            return read[name]


def word(value: Any) -> str:
    """A parameter's value as `labkit run -p` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# A path is meant from where the campaign's file lies.
def _place(file: Path, study: str, place: str) -> str:
    if "/" in place or place.endswith(FILES):
        place = str(file.resolve().parent / os.path.expanduser(place))
    check_place(place)
    if is_stored(place):
        of_study = stored_results(study, place).study
        if of_study != study:
            raise BadInput(f"{place} holds results of {of_study}, not of {study}")
    return place


def _whole_number(toml: Written, number: Any, keys: Keys, low: int, high: int) -> int:
    if type(number) is not int or not low <= number <= high:
        problem = f"{keys[-1]} is a whole number from {low} to {high}, not {number!r}"
        raise toml.wrong(problem, *keys, hint=f"such as: {keys[-1]} = {max(low, 1)}")
    return number


def _span(toml: Written, tables: Values, key: str) -> float | None:
    span = tables.get(key)
    if span is None:
        return None
    match = SPAN.fullmatch(span.strip()) if isinstance(span, str) else None
    if not match or not float(match[1]):
        hint = f'such as: {key} = "90 min", or "30 s", "8 h", "2 d"'
        raise toml.wrong(f"{key} is a span of time, not {span!r}", key, hint=hint)
    return float(match[1]) * UNITS[match[2]]


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
