"""The file of a campaign: which studies, with which values, how often, where, and until when."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import studies
from labkit.errors import BadInput
from labkit.machine.written import Written
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
KEYS = {
    "name", "labs", "repetitions", "order", "seed", "retries", "deadline", "limit", "study",
}  # fmt: skip
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
    """One study of a campaign; `sweep` has several values for each of its names."""

    name: str
    labs: tuple[str, ...]
    repetitions: int
    fixed: Values
    sweep: Mapping[str, tuple[Any, ...]]


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
        entries = _insist_list(toml, tables, "study", dict)
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
            tuple(_study(toml, tables, entry, n) for n, entry in enumerate(entries)),
            order,
            _whole_number(toml, tables, "seed", 1, 0, 2**31),
            _whole_number(toml, tables, "retries", 2, 0, MOST_RETRIES),
            _span(toml, tables, "deadline"),
            _span(toml, tables, "limit"),
        )  # fmt: skip


def _study(toml: Written, tables: Values, values: Values, n: int) -> AskedStudy:
    keys_above = ("study", n)
    toml.insist_known(values, STUDY_KEYS, *keys_above)
    if not isinstance(values.get("name"), str):
        hint = "`labkit studies` lists all names"
        raise toml.wrong('a study needs name = "..."', *keys_above, hint=hint)
    with toml.locating(*keys_above, "name"):
        name = studies.find(values["name"]).name
    labs = _labs(toml, name, values if "labs" in values else tables, keys_above, "labs" in values)
    holder, at = (values, keys_above) if "repetitions" in values else (tables, ())
    return AskedStudy(
        name, labs, _whole_number(toml, holder, "repetitions", 1, 1, MOST_REPETITIONS, at),
        *_values(toml, name, values, keys_above, labs[0]),
    )  # fmt: skip


def _labs(
    toml: Written, study: str, holder: Values, above: tuple[str, int], of_study: bool
) -> tuple[str, ...]:
    keys: tuple[str | int, ...] = (*above, "labs") if of_study else ("labs",)
    places = holder.get("labs", ["box"])
    if not isinstance(places, list) or not places or not all(isinstance(x, str) for x in places):
        hint = 'such as: labs = ["box", "basement.toml"]'
        raise toml.wrong("labs is a list of places", *keys, hint=hint)
    with toml.locating(*keys):
        return tuple(dict.fromkeys(_place(toml.path, study, name) for name in places))


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


def _values(
    toml: Written, study: str, values: Values, above: tuple[str, int], lab: str
) -> tuple[Values, Mapping[str, tuple[Any, ...]]]:
    parameters = _table(toml, values, "parameters", above)
    choices_of = _table(toml, values, "sweep", above)
    source = notebook.notebook(study)
    read = {
        name: _read(toml, source, study, (*above, "parameters", name), value, lab)
        for name, value in parameters.items()
    }
    sweep = {}
    for name, choices in choices_of.items():
        keys = (*above, "sweep", name)
        if name in parameters:
            hint = "keep it under sweep, or under parameters"
            raise toml.wrong(f"{name} is both swept and fixed", *keys, hint=hint)
        if not isinstance(choices, list) or not choices:
            hint = f"such as: {name} = [1, 2]; a single value stands under parameters"
            raise toml.wrong(f"a sweep over {name} is a list of values", *keys, hint=hint)
        values_read = [_read(toml, source, study, keys, value, lab) for value in choices]
        if len({repr(value_read) for value_read in values_read}) < len(values_read):
            raise toml.wrong(f"the sweep over {name} has a value twice", *keys, hint=TWICE)
        sweep[name] = tuple(values_read)
    with toml.locating(*above, "sweep" if "quick" in sweep else "parameters", "quick"):
        check_quick(studies.find(study), {**sweep, **read})
    return read, sweep


def _table(toml: Written, values: Values, name: str, above: tuple[str, int]) -> Values:
    table = values.get(name, {})
    if not isinstance(table, dict):
        hint = f"[study.{name}] and below it lines such as repeats = 5"
        raise toml.wrong(f"{name} is a table", *above, name, hint=hint)
    return table


# One value as the notebook takes it; ranges are those of the study and of its workload.
def _read(
    toml: Written, source: Path, study: str, keys: tuple[str | int, ...], value: Any, lab: str
) -> Any:
    name = str(keys[-1])
    if isinstance(value, list):
        hint = f"under [study.sweep], {name} takes several values"
        raise toml.wrong(f"parameter {name} is one value, not a list", *keys, hint=hint)
    if not isinstance(value, str | bool | int | float):
        raise toml.wrong(f"parameter {name} is a number, a text or true or false", *keys)
    with toml.locating(*keys):
        if name in RESERVED_NAMES:
            raise BadInput(f"{name} is not a parameter of a campaign", hint=RESERVED_NAMES[name])
        word = str(value).lower() if isinstance(value, bool) else str(value)
        read = notebook.read_parameters(source, {name: word})
        check_parameters(studies.find(study), {"where": lab, "label": "x", **read})
        return read[name]


def _insist_list(toml: Written, tables: Values, key: str, kind: type) -> list[Any]:
    entries = tables.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, kind) for entry in entries):
        raise toml.wrong(f"{key} is a list of tables", key, hint=f"[[{key}]] begins each")
    return entries


def _whole_number(
    toml: Written, tables: Values, key: str, usual: int, low: int, high: int,
    above: tuple[str | int, ...] = (),
) -> int:  # fmt: skip
    number = tables.get(key, usual)
    if type(number) is not int or not low <= number <= high:
        problem = f"{key} is a whole number from {low} to {high}, not {number!r}"
        raise toml.wrong(problem, *above, key, hint=f"such as: {key} = {max(usual, low)}")
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
