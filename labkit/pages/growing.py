"""A picture that grows while a study measures: the figure of each condition on one scale."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labkit.charts.tradeoff import mean_of
from labkit.machine.units import figure, shown
from labkit.pages.filled import safe
from labkit.statistics.interval import Interval, lacking
from labkit.statistics.percentiles import count, interval
from labkit.statistics.pooled import Values

WIDE, HIGH, EDGE = 200, 16, 6
"""Pixels of one line of the picture, and of what is left free at each end."""
FARTHEST = 20.0
"""Medians further apart than this factor stand on a logarithmic scale."""
LINE = (
    '<svg width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" aria-hidden="true"'
    ' style="vertical-align: middle"><g stroke="currentColor" fill="currentColor">'
    '<path d="M{edge} {middle}H{end}" opacity="0.2"/>{marks}</g></svg> {words}'
)


@dataclass(frozen=True)
class Median:
    """The median so far of a condition in words, and where its marks stand.

    Where each run gives one figure it is the mean of the runs, as in reports and tables.
    """

    text: str
    value: float | None = None
    bounds: tuple[float, float] | None = None
    """The ends of the interval; None while there is none to be drawn."""
    each: tuple[float, ...] = ()
    """The median of each block, where these are too few for an interval."""
    single: bool = False
    """Whether each run gives one figure."""

    @property
    def marks(self) -> tuple[float, ...]:
        """All values that the picture has room for."""
        return tuple(v for v in (self.value, *(self.bounds or ()), *self.each) if v is not None)


def median(blocks: Mapping[int, Values], unit: str) -> Median:
    """The median of these blocks, with its interval once there are two of them."""
    if not blocks:
        return Median("no figure")
    single = count(blocks) == len(blocks)
    estimate = mean_of(blocks, unit) if single else interval(blocks, 50)
    text = f"{figure(estimate.value)} {shown(unit)}".strip()
    if len(blocks) < 2:
        return Median(text, estimate.value, single=single)
    low, high = estimate.least, estimate.most
    bounds = None if low is None or high is None else (low, high)
    return Median(f"{text}, {estimate.ends(figure)}{_width(estimate, len(blocks))}", estimate.value,
                  bounds, estimate.each, single)  # fmt: skip


def _width(estimate: Interval, blocks: int) -> str:
    if estimate.each:
        return ""
    if lack := lacking(estimate.least, estimate.most, blocks):
        return f" ({lack})"
    width = (estimate.high - estimate.low) / estimate.value if estimate.value else 0.0
    return f" ({width:.0%} wide)"


def lines(medians: Mapping[str, Median]) -> dict[str, str]:
    """A line of the picture for each condition as SVG, all on one scale, with its words."""
    at = _scale([mark for median_of in medians.values() for mark in median_of.marks])
    return {name: _line(median_of, at) for name, median_of in medians.items()}


# From 0, so that a mark twice as far is twice as much, unless the least would not be seen then.
def _scale(marks: list[float]) -> Callable[[float], float]:
    low, high = min(marks, default=0.0), max(marks, default=0.0)
    room = WIDE - 2 * EDGE
    if low > 0 and high > FARTHEST * low:
        return lambda mark: EDGE + room * math.log(mark / low) / math.log(high / low)
    low = min(low, 0.0)
    return lambda mark: EDGE + room * (mark - low) / ((high - low) or 1.0)


def _line(median_of: Median, at: Callable[[float], float]) -> str:
    middle = HIGH // 2
    marks = "".join(f'<circle cx="{at(v):.1f}" cy="{middle}" r="2"/>' for v in median_of.each)
    if median_of.bounds:
        low, high = map(at, median_of.bounds)
        marks += f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke-width="2"/>'
    if median_of.value is not None:
        marks += f'<circle cx="{at(median_of.value):.1f}" cy="{middle}" r="4"/>'
    return LINE.format(wide=WIDE, high=HIGH, edge=EDGE, end=WIDE - EDGE, middle=middle,
                       words=safe(median_of.text), marks=marks)  # fmt: skip
