"""All samples of one condition, pooled, each with its block.

Few samples are kept one by one, and many are counted in bins of 0.012 %. Questions to them are the
same either way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput

Values = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Blocks = Mapping[int, Values]
"""Block number -> all values that one condition gave in that block, in order."""

FEWEST_BLOCKS = 3
FEWEST_OF_INTERVAL = 4
"""Of fewer blocks each is shown, and no interval."""
BEYOND = 10
"""The fewest samples beyond a percentile that is called measured."""
SMALLEST, LARGEST = 1e-100, 1e100
"""No measurement is larger, or smaller but for 0; beyond them squares and ratios overflow."""
PIECES = 10
MOST_KEPT = 200_000
"""The most samples that are kept one by one; more would take too much memory."""
SHIFT = 52 - 13
"""Bits of a double that a bin drops: 13 of the 52 behind the point are kept, so that a value is off
by 0.006 % at most."""
FINE = 1e-3
"""Steps of a clock that are so small a share of the median matter to nobody."""


@dataclass(frozen=True)
class Pooled:
    """`below[block, i]` samples of a block are at or below `levels[i]`, which rise."""

    levels: Values
    below: Whole
    enough: bool
    spread_over: float = 0.0
    """The step of a clock that samples were spread over; 0 if they are as they were printed."""

    @classmethod
    def of(cls, blocks: Blocks) -> Pooled:
        """Pool the blocks; fewer than three are cut into pieces, which stand for one run only."""
        parts = list(blocks.values())
        if not parts:
            raise BadInput("there are no blocks to take a percentile of")
        is_enough = len(parts) >= FEWEST_BLOCKS
        if not is_enough:
            parts = [piece for part in parts for piece in pieces(part)]
        samples = [checked_samples(part) for part in parts]
        # Bins begin at 0, so what goes below it is kept however much there is.
        is_few = sum(part.size for part in samples) <= MOST_KEPT or min(map(np.min, samples)) < 0
        return cls(*(_one_by_one if is_few else _in_bins)(samples), is_enough)

    @cached_property
    def total(self) -> Whole:
        """The number of samples of all blocks at or below each level."""
        counts: Whole = self.below.sum(axis=0)
        return counts

    @property
    def size(self) -> int:
        """The number of samples."""
        return int(self.total[-1])

    @property
    def step(self) -> float:
        """The step that time is printed in, as far as samples show it: if none are alike, none."""
        steps = np.diff(self.levels)
        positive = steps > 1e-12 * abs(self.levels[-1])
        if not positive.any() or (positive.all() and len(self.levels) == self.size):
            return 0.0
        steps = steps[positive]
        lowest = float(self.levels[0])  # a multiple of the step, unless it lies below 0
        return min(float(steps.min()), lowest) if lowest > 0 else float(steps.min())

    @cached_property
    def finer(self) -> Pooled:
        """Itself, with the samples of a block that share a step of the clock spread evenly over it.

        So a percentile moves with the share of samples in its step, not from step to step.
        """
        step, counts = self.step, np.diff(self.below, axis=1, prepend=0)
        if step <= FINE * abs(self.percentile(50)) or len(self.levels) != self.size:
            return self
        parts = [spread_evenly(self.levels[row > 0], step) for row in counts]
        return Pooled(*_one_by_one(parts), self.enough, step)

    def clock(self, value: float) -> float:
        """The error of a percentile because time is printed in steps; all in one direction.

        Samples that were spread lie unevenly in their step, by about its share of all samples.
        """
        if not self.spread_over:
            return self.step / math.sqrt(12)
        half = self.spread_over / 2 * (1 + 1e-9)  # whatever the unit, its ends are in it
        ends = value - half, value + half
        first, last = np.searchsorted(self.levels, ends)
        return self.spread_over / math.sqrt(12) * float(last - first) / self.size

    def percentile(self, q: float) -> float:
        """The percentile of all samples."""
        return self._at(self.total, q)

    def each(self, q: float) -> Values:
        """The percentile of each block."""
        return np.array([self._at(row, q) for row in self.below])

    def block_levels(self, shares: Values) -> Values:
        """[block, share]: the value that so large a share of the block's samples do not exceed."""
        places = []
        for row in self.below:
            ranks = np.minimum((shares * row[-1]).astype(np.int64), row[-1] - 1)
            places.append(np.searchsorted(row, ranks, side="right"))
        levels: Values = self.levels[np.stack(places)]
        return levels

    def without_each(self, q: float) -> Values:
        """The percentile of all samples but one block's, for each block."""
        if len(self.below) < 2:
            return self.each(q)
        return np.array([self._at(self.total - row, q) for row in self.below])

    def rank_error(self, q: float, value: float) -> float:
        """The standard error, in percent, of the share of samples at or below the percentile."""
        at = np.searchsorted(self.levels, value, side="right") - 1
        shares = self.below[:, at] / self.below[:, -1]
        if shares.size < 2:  # a single sample
            return math.sqrt(q * (100 - q) / self.size)
        return 100 * float(np.std(shares, ddof=1)) / math.sqrt(shares.size)

    def around(self, q: float, value: float, errors: float) -> tuple[float, float]:
        """The percentile's possible range if its rank is that many standard errors off.

        Ranks that reach beyond all samples would end at the slowest one. They are held to where the
        blocks' own percentiles may lie, if each block has samples enough beyond its own.
        """
        off = errors * self.rank_error(q, value)
        low, high = self.percentile(max(q - off, 0.0)), self.percentile(min(q + off, 100.0))
        if len(self.below) < 2 or min(beyond(q, int(row[-1])) for row in self.below) < BEYOND:
            return low, high
        floor, ceiling = self._of_blocks(q, value, errors)
        return min(max(low, floor), value), max(min(high, ceiling), value)

    # The figures of blocks are taken to be normal, in logarithms where they can be.
    def _of_blocks(self, q: float, value: float, errors: float) -> tuple[float, float]:
        logarithmic, values = bool(self.levels[0] > 0), self.each(q)
        at, clock = (
            (np.log(values), math.log1p(self.clock(value) / value)) if logarithmic
            else (values, self.clock(value))
        )  # fmt: skip
        off = math.hypot(float(np.std(at, ddof=1)), clock)
        down, up = (off * far for far in reach(q, at.size, errors))
        ends = np.array([at.mean() - down, at.mean() + up])
        floor, ceiling = np.exp(np.clip(ends, -700, 700)) if logarithmic else ends
        return float(floor), float(ceiling)

    def _at(self, below: Whole, q: float) -> float:
        return float(self.levels[np.searchsorted(below, rank(q, int(below[-1])), side="right")])


def spread_evenly(values: Values, step: float) -> Values:
    """Sorted samples, those that are equal spread over a step around them; never to half of it."""
    levels, counts = np.unique(values, return_counts=True)
    place = np.arange(values.size) - np.repeat(np.cumsum(counts) - counts, counts)
    share = (place + 0.5) / np.repeat(counts, counts) - 0.5
    at: Values = np.repeat(levels, counts)
    spread: Values = np.where(at > 0, np.maximum(at + step * share, at / 2), at + step * share)
    return spread


def percentile(values: npt.ArrayLike, q: float) -> float:
    """The nearest-rank percentile: the smallest value that q percent of all do not exceed."""
    samples = checked_samples(values)
    at = rank(q, samples.size)
    return float(np.partition(samples, at)[at])


def rank(q: float, n: int) -> int:
    """The place of a percentile among that many sorted samples, from 0."""
    if not 0 <= q <= 100:
        raise BadInput(f"a percentile lies between 0 and 100, not at {q}")
    # Rounded first: 99.9 % of 1,000 is 999.0000000000001 in binary, and is the 999th.
    return min(max(math.ceil(round(q * n / 100, 6)) - 1, 0), n - 1)


def beyond(q: float, samples: int) -> int:
    """The number of these samples beyond the percentile, on its nearer side."""
    at = rank(q, samples)
    return min(at, samples - 1 - at) if q < 50 else samples - 1 - at


def reach(q: float, blocks: int, errors: float = 0.0) -> tuple[float, float]:
    """The reach of the percentile of all, down and up, in deviations of the blocks' own.

    As far as the next block's own may lie (a prediction limit). Away from the median it also
    reaches as far as the q-th percentile of all blocks' own may lie (a tolerance limit). Where
    blocks hardly overlap, the slowest make the tail of all. Both hold 97.5 times of 100, and more
    if more `errors` are asked for; not less if luck is shared, as tails are not.
    """
    from scipy.special import nctdtrit, ndtri, stdtrit

    student, root = float(stdtrit(blocks - 1, 0.975)), math.sqrt(blocks)
    near = student * math.sqrt(1 + 1 / blocks)
    tail = float(nctdtrit(blocks - 1, abs(float(ndtri(q / 100))) * root, 0.975)) / root
    factor = max(errors / student, 1.0)
    near, far = factor * near, factor * max(near, tail)
    return (near, far) if q >= 50 else (far, near)


def pieces(values: npt.ArrayLike) -> list[Values]:
    """One run cut into up to ten stretches, for the times when there is nothing better."""
    flat = np.asarray(values).ravel()
    return list(np.array_split(flat, min(PIECES, max(flat.size, 1))))


def checked_samples(values: npt.ArrayLike) -> Values:
    """The samples as numbers; none, or something that is no number, is refused."""
    samples = np.asarray(values, dtype=np.float64).ravel()
    if not samples.size:
        raise BadInput("there are no samples to take a percentile of")
    if not np.isfinite(samples).all():
        raise BadInput("some samples are not numbers")
    check_range(samples)
    return samples


def check_range(values: Values, name: str = "") -> None:
    """Refuse numbers that are no measurement in any unit."""
    sizes = np.abs(values)
    odd = (sizes > LARGEST) | ((sizes < SMALLEST) & (sizes != 0))
    if odd.any():
        problem = f"{values[odd][0]:g} is no measurement{f': {name}' if name else ''}"
        raise BadInput(problem, hint=f"sizes lie within {SMALLEST:g} to {LARGEST:g}, or are 0")


def as_blocks(samples: npt.ArrayLike | Blocks, first: int, name: str) -> Blocks:
    """The given samples of `name` by block; one run is cut into stretches from `first` on."""
    if not isinstance(samples, Mapping):
        return dict(enumerate(pieces(_samples(samples, name)), first))
    if not samples:
        raise BadInput(f"there are no samples of {name} to compare")
    return {
        block: _samples(values, f"{name} in block {block}") for block, values in samples.items()
    }


def _samples(samples: npt.ArrayLike, name: str) -> Values:
    try:
        values = np.asarray(samples, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"the samples of {name} are not numbers", said=str(error)) from None
    if values.ndim != 1:
        hint = "one list of numbers, or several by their blocks: {1: [...], 2: [...]}"
        raise BadInput(f"the samples of {name} have {values.ndim} dimensions, not 1", hint=hint)
    if not values.size:
        raise BadInput(f"there are no samples of {name} to compare")
    check_range(values, name)
    return values


def _one_by_one(parts: list[Values]) -> tuple[Values, Whole]:
    # Equal samples are levels of their own: only the last of them shows how many are at or below.
    values = np.concatenate(parts)
    order = np.argsort(values)
    owner = np.repeat(np.arange(len(parts), dtype=np.int16), [part.size for part in parts])[order]
    below = np.stack([np.cumsum(owner == at, dtype=np.int64) for at in range(len(parts))])
    return values[order], below


# A double from 0 up, read as a whole number, grows with its value: its first bits are its bin. A
# level is the middle of a bin, but the extremes are exact.
def _in_bins(parts: list[Values]) -> tuple[Values, Whole]:
    bins = [np.right_shift((part + 0.0).view(np.int64), SHIFT) for part in parts]
    used = np.unique(np.concatenate(bins))
    lower, upper = (np.left_shift(at, SHIFT).view(np.float64) for at in (used, used + 1))
    levels: Values = lower + (upper - lower) / 2
    levels[-1], levels[0] = max(map(np.max, parts)), min(map(np.min, parts))
    counts = [np.bincount(np.searchsorted(used, at), minlength=used.size) for at in bins]
    return levels, np.cumsum(counts, axis=1)
