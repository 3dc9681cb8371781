"""The fields of settings: what may stand in one, how it is written, and whether it says which."""

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any

from labkit.errors import BadInput, Unknown
from labkit.machine.cpus import cpus_of, ranges

# The kernel takes any number and makes it fit without a word.
CPU_SHARES = (2, 262_144)


def number(title: str, value: object, low: float, high: float, unit: str = "") -> None:
    """Refuse what is no number from `low` to `high`; a text with a unit in it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"{title} is a number{' of ' * bool(unit)}{unit} from {low} to {high}, "
                       f"not {value!r}")  # fmt: skip


def whole(title: str, value: object, low: int, high: int, unit: str = "") -> None:
    """Refuse what is no whole number from `low` to `high`."""
    number(title, value, low, high, unit)
    if not isinstance(value, int):
        raise BadInput(f"{title} is a whole number{' of ' * bool(unit)}{unit}, not {value!r}")


def one_of(title: str, value: str, words: tuple[str, ...]) -> None:
    """Refuse a word that is not among the known ones."""
    if value not in words:
        raise Unknown(title, str(value), words)


def matching(title: str, value: object, pattern: str, like: str) -> None:
    """Refuse a text that is not wholly of a pattern; none of ours has room for a shell's signs."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
        raise BadInput(f"{value!r} is not a {title}", hint=f"one looks like {like}")


def named(title: str, value: object) -> None:
    """Refuse what is no plain name: letters, digits, and - _ . @ after the first."""
    matching(title, value, r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}", "lab-1")


def cpu_list(text: object) -> str:
    """A list of CPUs as the kernel writes it: `3,0,1` becomes `0-1,3`."""
    matching("list of CPUs", text, r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", "0-3,6")
    return ranges(cpus_of(str(text)))


@dataclass(frozen=True)
class Value:
    """The rule of one field: it refuses what is not legal, and writes what is."""

    check: Callable[[Any], object]
    text: Callable[[Any], str]
    legal: str
    """The values that can be asked for, in words."""


def rule(
    check: Callable[[Any], object], text: Callable[[Any], str] = str, legal: str = "", *,
    which: bool | None = False, default: Any = MISSING,
) -> Any:  # fmt: skip
    """A field with a rule of its own, and whether it says `which` thing is meant; None: neither."""
    return field(default=default, metadata={"value": Value(check, text, legal), "which": which})


def amount(
    title: str, low: int, high: int, unit: str = "", text: Callable[[Any], str] = str, **how: Any
) -> Any:
    """A whole number from `low` to `high`."""
    legal = f"{low} to {high} {unit}".strip()
    return rule(lambda n: whole(title, n, low, high, unit), text, legal, **how)


def share(
    title: str, low: float, high: float, unit: str = "", text: Callable[[Any], str] = "{:g}".format,
    **how: Any,
) -> Any:  # fmt: skip
    """Any number from `low` to `high`."""
    legal = f"{low} to {high} {unit}".strip()
    return rule(lambda n: number(title, n, low, high, unit), text, legal, **how)


def word(title: str, words: tuple[str, ...], text: Callable[[Any], str] = str, **how: Any) -> Any:
    """One of the known words."""
    return rule(lambda word: one_of(title, word, words), text, ", ".join(words), **how)


def switch(off: str, on: str, **how: Any) -> Any:
    """False or True, and how either is written."""
    return rule(bool, (off, on).__getitem__, f"{on} or {off}", **how)


def pattern(title: str, regex: str, like: str, **how: Any) -> Any:
    """A text of that pattern."""
    return rule(lambda text: matching(title, text, regex, like), **how)


def name(title: str, **how: Any) -> Any:
    """A plain name."""
    return rule(lambda text: named(title, text), **how)


def aside(*, default: Any = MISSING, kw_only: bool = False) -> Any:
    """A field that neither says which thing is meant nor is part of its value."""
    return field(default=default, kw_only=kw_only, metadata={"which": None})


def cpu_set(legal: str = "a list such as 0-1") -> Any:
    """A list of CPUs, or of what else has numbers."""
    return rule(cpu_list, cpu_list, legal)
