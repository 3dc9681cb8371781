"""Verdicts of many simulated studies at once: at one look, over several, until they are decided."""

from dataclasses import dataclass

import numpy as np
import simulated
from scipy.special import stdtr, stdtrit
from simulated import Many

from labkit.statistics.percentiles import NORMAL
from labkit.statistics.spending import SAME_FIRST, levels

MARGIN = 0.05


@dataclass(frozen=True)
class Doubts:
    """The p values of each study: for its side of 1, and for being within 5 % of 1."""

    value: np.ndarray
    apart: np.ndarray
    alike: np.ndarray

    @classmethod
    def of(cls, a, b, q=50):
        """As `verdict.Found`, of the interval that `simulated.ratio` computes."""
        low, high = simulated.ratio(a, b, q)
        t, freedom = stdtrit(a.count - 1, 0.975), a.count - 1
        at = np.log(a.percentile(q)) - np.log(b.percentile(q))
        middle = (at + np.log(a.each(q) / b.each(q)).mean(axis=1)) / 2
        clocks = [np.log1p(clock_of(side) / side.percentile(q)) for side in (a, b)]
        down, up = (np.hypot(np.maximum(x, 1e-12), NORMAL * np.hypot(*clocks)) / t
                    for x in (middle - low, high - middle))  # fmt: skip
        above = stdtr(freedom, -middle / down)
        below = stdtr(freedom, middle / up)
        edge = np.log1p(MARGIN)
        alike = np.maximum(stdtr(freedom, -(middle + edge) / down),
                           stdtr(freedom, -(edge - middle) / up))  # fmt: skip
        return cls(at, np.minimum(1, 2 * np.minimum(above, below)), alike)


def clock_of(side):
    """As `Pooled.clock`, of each study."""
    steps = np.diff(side.pooled, axis=1)
    steps = np.where(steps > 1e-12 * side.pooled[:, -1:], steps, np.inf).min(axis=1)
    return np.where(np.isfinite(steps), steps, 0) / np.sqrt(12)


def sides(made, rng, many, blocks, samples, by=1.0):
    """Two conditions, the first of them `by` times as slow."""
    first, second = (made(rng, (many, blocks, samples)) for _ in range(2))
    if np.array_equal(first, np.round(first)):
        return Many(np.sort(np.maximum(np.round(first * by), 1))), Many(np.sort(second))
    return Many(np.sort(first * by)), Many(np.sort(second))


def in_turn(made, rng, looks, many, samples, by=1.0, at_once=100, q=50):
    """Look -> the doubts at it, all of the same studies as they grow."""
    parts = []
    for _ in range(many // at_once):
        a, b = sides(made, rng, at_once, looks[-1], samples, by)
        parts.append([Doubts.of(a.first(n), b.first(n), q) for n in looks])
    return [
        Doubts(*(np.concatenate([getattr(part[at], name) for part in parts])
                 for name in ("value", "apart", "alike")))
        for at in range(len(looks))
    ]  # fmt: skip


@dataclass(frozen=True)
class Decided:
    """Of each study: the blocks that it took, whether it said apart, above 1, or the same."""

    blocks: np.ndarray
    apart: np.ndarray
    above: np.ndarray
    alike: np.ndarray

    @property
    def share(self):
        """The share of studies with a verdict."""
        return float((self.apart | self.alike).mean())


def decided(found, looks, at, same_at):
    """What these looks decide if each clears its level in `at`, of sameness in `same_at`."""
    many = len(found[0].value)
    blocks, open_ = np.full(many, looks[-1]), np.ones(many, bool)
    apart, above, alike = (np.zeros(many, bool) for _ in range(3))
    for doubts, n, level, same in zip(found, looks, at, same_at, strict=True):
        now_apart = open_ & (doubts.apart <= level)
        now_alike = open_ & ~now_apart & (doubts.alike <= same)
        above |= now_apart & (doubts.value > 0)
        apart, alike = apart | now_apart, alike | now_alike
        blocks[now_apart | now_alike] = n
        open_ &= ~(now_apart | now_alike)
    return Decided(blocks, apart, above, alike)


def paid(found, looks):
    """With looks that are paid for."""
    return decided(found, looks, levels(looks), levels(looks, share=SAME_FIRST))


def unpaid(found, looks):
    """As if each look were the only one."""
    return decided(found, looks, *[[0.05] * len(looks)] * 2)
