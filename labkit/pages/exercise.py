"""The exercises of a notebook: the words about a reader's answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real

from labkit.machine.units import figure, shown

EMPTY = "not yet: put your answer in place of None, and run the cell again"


def check_number(answer: object, right: float, said: str = "", *, within: float = 0.01) -> str:
    """Whether a number is right; it may be off by the share `within`, as rounded numbers are."""
    if answer is None:
        return EMPTY
    found = math.nan if isinstance(answer, bool) or not isinstance(answer, Real) else float(answer)
    if not math.isfinite(found):
        return f"not yet: answer with a number, without quotes, not {answer!r}"
    if abs(found - right) <= within * abs(right):
        return _right(said)
    return f"not yet: the right number is {'larger' if found < right else 'smaller'}"


def check_name(answer: object, names: Mapping[str, float], right: str, unit: str = "") -> str:
    """Whether the right one of these names is given; the answer to a name has its value."""
    if answer is None:
        return EMPTY
    found = {name.lower(): name for name in names}.get(str(answer).strip().lower())
    if found is None:
        known = ", ".join(f'"{name}"' for name in names)
        return f"not yet: {answer!r} is not among the names: {known}"
    seen = f"{found} has {figure(names[found])} {shown(unit)}".strip()
    return _right(seen) if found == right else f"not yet: {seen}"


def _right(said: str) -> str:
    return f"right: {said}" if said else "right"
