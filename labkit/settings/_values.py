"""The fields of settings: what may stand in one, how it is written, and whether it says which."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.settings._ways import cpu_list, matching, named, number, one_of, whole

NAMING = {"which": True}
"""Marks a field that says which of several things on the host is meant; others say its value."""


@dataclass(frozen=True)
class Value:
    """The rule of one field: it refuses what is not legal, and writes what is."""

    check: Callable[[Any], object]
    text: Callable[[Any], str]
    legal: str
    """The values that can be asked for, in words."""


def value(
    check: Callable[[Any], object], text: Callable[[Any], str] = str, legal: str = ""
) -> dict[str, Any]:
    """The metadata of a field with a rule of its own."""
    return {"value": Value(check, text, legal)}


def amount(
    title: str, low: int, high: int, unit: str = "", text: Callable[[Any], str] = str
) -> dict[str, Any]:
    """A whole number from `low` to `high`."""
    legal = f"{low} to {high} {unit}".strip()
    return value(lambda n: whole(title, n, low, high, unit), text, legal)


def share(
    title: str, low: float, high: float, unit: str = "", text: Callable[[Any], str] = "{:g}".format
) -> dict[str, Any]:
    """Any number from `low` to `high`."""
    legal = f"{low} to {high} {unit}".strip()
    return value(lambda n: number(title, n, low, high, unit), text, legal)


def word(title: str, words: tuple[str, ...], text: Callable[[Any], str] = str) -> dict[str, Any]:
    """One of the known words."""
    return value(lambda word: one_of(title, word, words), text, ", ".join(words))


def switch(off: str, on: str) -> dict[str, Any]:
    """False or True, and how either is written."""
    return value(bool, (off, on).__getitem__, f"{on} or {off}")


def pattern(title: str, regex: str, like: str) -> dict[str, Any]:
    """A text of that pattern."""
    return value(lambda text: matching(title, text, regex, like))


def name(title: str) -> dict[str, Any]:
    """A plain name."""
    return value(lambda text: named(title, text))


CPU_LIST = value(cpu_list, cpu_list, "a list such as 0-1")
CPU_TIME = share("the limit", 0.01, 4096, "CPUs")
# The kernel takes any number and makes it fit without a word.
CPU_SHARES = amount("CPU shares", 2, 262_144)
