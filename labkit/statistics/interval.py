"""An interval, and which of its ends the measurements bind.

Student's t of few blocks, on logarithms, may put an end a millionfold away. Nobody measured that
limit, so it is not given as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FAR = 100.0
"""An end that is further than by this factor from a value above 0 is no limit."""


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval; not `enough` when blocks or samples are too few for it."""

    value: float
    low: float
    high: float
    enough: bool
    each: tuple[float, ...] = ()
    """The figure in each block, where these are too few for an interval that teaches anything."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Interval:
        """Make it of the fields that JSON has kept."""
        return cls(**{**fields, "each": tuple(fields.get("each", ()))})

    @property
    def least(self) -> float | None:
        """The low end; None if the measurements set no lower limit."""
        far = self._positive and self.low * FAR < self.value
        return None if self.each or far else self.low

    @property
    def most(self) -> float | None:
        """The high end; None if the measurements set no upper limit."""
        far = self._positive and self.high > FAR * self.value
        return None if self.each or far else self.high

    def ends(self, form: Callable[[float], str]) -> str:
        """Both ends for a table: `3 to 5`, `> 3` without an upper limit, or the few blocks."""
        return within(self.each, self.least, self.most, form)

    # What may lie on either side of 0 has no factor to be away by.
    @property
    def _positive(self) -> bool:
        return self.value > 0 and self.low >= 0


def within(
    each: Sequence[float], low: float | None, high: float | None, form: Callable[[float], str]
) -> str:
    """The few blocks, or both ends where there are enough for an interval."""
    return in_blocks(each, form) or ends(low, high, form)


def in_blocks(figures: Sequence[float], form: Callable[[float], str]) -> str:
    """The figures of few blocks, in place of an interval."""
    if len(figures) == 1:
        return "one block"
    return f"blocks: {', '.join(map(form, figures))}" if figures else ""


def ends(low: float | None, high: float | None, form: Callable[[float], str]) -> str:
    """Format ends as `Interval.ends` does; an end is None if there is no limit."""
    if low is None and high is None:
        return "no limits"
    if low is None or high is None:
        return f"< {form(high)}" if high is not None else f"> {form(low or 0.0)}"
    return f"{form(low)} to {form(high)}"


def percent(share: float) -> str:
    """A share as a reader sees it."""
    if share > FAR:
        return f"more than a factor of {FAR:g}"
    return f"{100 * share:.2g} %" if share < 0.995 else f"a factor of {1 + share:.2g}"


def lacking(low: float | None, high: float | None, blocks: int) -> str:
    """The remark behind such ends: `no upper limit from 5 blocks`; empty if both are there."""
    if low is not None and high is not None:
        return ""
    sides = {"lower": low, "upper": high}
    missing = " or ".join(side for side, end in sides.items() if end is None)
    return f"no {missing} limit from {blocks} block{'s' * (blocks != 1)}"
