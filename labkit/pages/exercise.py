"""The exercises of a notebook: the words about a reader's answer."""

import math
import tomllib
from collections.abc import Mapping
from numbers import Real
from typing import Any

from labkit.errors import Unknown
from labkit.machine.places import HOME
from labkit.machine.units import figure, shown

EXERCISES = HOME / "data/exercises"
EMPTY = "not yet: put your answer in place of None, and run the cell again"


def exercises(study: str) -> dict[int, dict[str, Any]]:
    """The exercises of a study's notebook by number: the right answer, a remark, a solution."""
    file = EXERCISES / f"{study}.toml"
    if not file.is_file():
        raise Unknown(
            "study with exercises", study, [path.stem for path in EXERCISES.glob("*.toml")]
        )
    entries = tomllib.loads(file.read_text("utf-8"))["exercise"]
    return {entry["number"]: entry for entry in entries}


def check(study: str, number: int, answer: object) -> str:
    """Whether this is the answer to the exercise of that number; it may be rounded."""
    entries = exercises(study)
    if number not in entries:
        raise Unknown("exercise", str(number), [str(n) for n in entries])
    entry = entries[number]
    within = entry.get("within", 0.01)
    return check_number(answer, entry["right"], entry.get("remark", ""), within=within)


def check_number(answer: object, right: float, text: str = "", *, within: float = 0.01) -> str:
    """Whether a number is right; it may be off by the share `within`, as rounded numbers are."""
    if answer is None:
        return EMPTY
    number = math.nan if isinstance(answer, bool) or not isinstance(answer, Real) else float(answer)
    if not math.isfinite(number):
        return f"not yet: answer with a number, without quotes, not {answer!r}"
    if abs(number - right) <= within * abs(right):
        return _right(text)
    return f"not yet: the right number is {'larger' if number < right else 'smaller'}"


def check_name(answer: object, names: Mapping[str, float], right: str, unit: str = "") -> str:
    """Whether the right one of these names is given; the answer to a name has its value."""
    if answer is None:
        return EMPTY
    choice = {name.lower(): name for name in names}.get(str(answer).strip().lower())
    if choice is None:
        texts = ", ".join(f'"{name}"' for name in names)
        return f"not yet: {answer!r} is not among the names: {texts}"
    measured_as = f"{choice} has {figure(names[choice])} {shown(unit)}".strip()
    return _right(measured_as) if choice == right else f"not yet: {measured_as}"


def _right(text: str) -> str:
    return f"right: {text}" if text else "right"
