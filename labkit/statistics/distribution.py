"""Distributions of more samples than one wants to keep: counts in bins that are 0.012 % wide.

A bin is the first bits of a number as the processor holds it: its power of two and 13 bits behind
the point. So a sample is counted with one shift, and a value that is read back is off by 0.006 % at
most. Two distributions are merged by adding their counts, which loses nothing more: percentiles
come from merged counts and are never averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput

Values = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

KEPT_BITS = 13
"""Bits behind the point that are kept; the largest error is 2**-(KEPT_BITS + 1)."""
SHIFT = 52 - KEPT_BITS  # IEEE 754: a double has 52 bits behind the point
INFINITE = 0x7FF << KEPT_BITS
AT_ONCE = 1 << 18
WIDEST = 1 << 20
"""Bins side by side that are counted in one go: 128 powers of two."""
MOST_STRAYS = 32


@dataclass(frozen=True, eq=False)
class Distribution:
    """The number of values in each bin; `least` and `most` are exact."""

    bins: Whole
    counts: Whole
    least: float
    most: float

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Distribution:
        """The distribution of values from 0 up; memory for it does not grow with their number."""
        flat = np.asarray(values)
        flat = flat.reshape(-1) if flat.flags.c_contiguous else flat.ravel()
        if not flat.size:
            raise BadInput("there are no samples to take a percentile of")
        return _count(flat)

    @classmethod
    def merged(cls, parts: Iterable[Distribution]) -> Distribution:
        """All samples of all parts, as if they had been counted together."""
        parts = list(parts)
        if not parts:
            raise BadInput("there are no distributions to merge")
        bins, counts = _add([(part.bins, part.counts) for part in parts])
        return cls(bins, counts, min(p.least for p in parts), max(p.most for p in parts))

    def __eq__(self, value: object) -> bool:
        return (
            isinstance(value, Distribution)
            and (self.least, self.most) == (value.least, value.most)
            and np.array_equal(self.bins, value.bins)
            and np.array_equal(self.counts, value.counts)
        )

    @property
    def size(self) -> int:
        """The number of samples."""
        return int(self.counts.sum())

    @property
    def values(self) -> Values:
        """The value that stands for each bin: its middle, but the extremes are exact."""
        lower, upper = _value(self.bins), _value(self.bins + 1)
        middles = lower + (upper - lower) / 2
        middles[-1], middles[0] = self.most, self.least
        return middles

    def counts_in(self, bins: Whole) -> Whole:
        """Its counts in these bins, among which are all of its own."""
        first, span = int(bins[0]), int(bins[-1] - bins[0]) + 1
        if span > WIDEST:
            values = np.zeros(bins.size, np.int64)
            values[np.searchsorted(bins, self.bins)] = self.counts
            return values
        dense = np.zeros(span, np.int64)
        dense[self.bins - first] = self.counts
        side_by_side: Whole = dense[bins - first]
        return side_by_side


def tail_note(q: float, samples: int, beyond: int = 10) -> str:
    """The samples a percentile lacks to be called measured; empty if it lacks none."""
    share = min(q, 100 - q) / 100
    has, need = int(share * samples + 1e-6), int(np.ceil(round(beyond / share, 6)))
    if samples >= need:
        return ""
    return (
        f"p{q:g} of {samples} samples has {has} beyond it; "
        f"{beyond} beyond it, or {need} samples in all, are needed"
    )


def _bins(values: npt.NDArray[Any], room: Whole | None = None) -> Whole:
    # A double from 0 up, read as an integer, grows with its value.
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.right_shift(bits, SHIFT, out=None if room is None else room[: bits.size])


def _value(bins: Whole) -> Values:
    return (bins << SHIFT).view(np.float64)


Counted = tuple[Whole, Whole]
"""Bins and their counts, in rising order."""


def _count(flat: npt.NDArray[Any]) -> Distribution:
    # Counts lie side by side while values are within WIDEST of each other, as they mostly are.
    first, dense = 0, np.zeros(0, np.int64)
    strays: list[Counted] = []
    lowest, highest, smallest, largest = INFINITE, -1, np.inf, 0.0
    # Used again for each chunk: new memory would cost more than the counting.
    room = np.empty(min(AT_ONCE, flat.size), np.int64)
    for at in range(0, flat.size, AT_ONCE):
        chunk = flat[at : at + AT_ONCE]
        bins = _bins(chunk, room)
        low, high = int(bins.min()), int(bins.max())
        if low < 0 or high >= INFINITE:
            chunk = _insist_positive(chunk) + 0.0
            bins = _bins(chunk, room)
            low, high = int(bins.min()), int(bins.max())
        if low <= lowest:
            lowest, smallest = low, min(smallest, float(chunk.min()))
        if high >= highest:
            highest, largest = high, max(largest, float(chunk.max()))
        first = first if dense.size else low
        begin = min(first, low)
        end = max(first + dense.size, high + 1)
        if end - begin > WIDEST:
            strays.append(np.unique(bins, return_counts=True))
            strays = [_add(strays)] if len(strays) > MOST_STRAYS else strays
            continue
        if end - begin > dense.size:
            wider = np.zeros(end - begin, np.int64)
            wider[first - begin : first - begin + dense.size] = dense
            dense = wider
        first = begin
        # In place, at half the time of bincount, which makes its counts anew for each chunk.
        np.add.at(dense, np.subtract(bins, first, out=bins), 1)
    used = np.flatnonzero(dense)
    counts = used + first, dense[used]
    return Distribution(*(_add([counts, *strays]) if strays else counts), smallest, largest)


def _insist_positive(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # -0.0 is 0, and comes here because its sign makes it look negative.
    if not np.isfinite(values).all():
        raise BadInput("some samples are not numbers")
    if (smallest := values.min()) < 0:
        raise BadInput(f"a distribution holds values from 0 up, and there is {smallest:g}")
    return values


def _add(parts: Sequence[Counted]) -> Counted:
    first = min(int(bins[0]) for bins, _ in parts if bins.size)
    end = max(int(bins[-1]) for bins, _ in parts if bins.size) + 1
    if end - first <= WIDEST:
        dense = np.zeros(end - first, np.int64)
        for bins, counts in parts:
            dense[bins - first] += counts
        used = np.flatnonzero(dense)
        return used + first, dense[used]
    values, at = np.unique(np.concatenate([bins for bins, _ in parts]), return_inverse=True)
    # Not bincount with weights: those are doubles, and counts are exact.
    sums = np.zeros(values.size, np.int64)
    np.add.at(sums, at, np.concatenate([counts for _, counts in parts]))
    return values, sums
