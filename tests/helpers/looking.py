"""Latencies of the page of proof, and verdicts of many such studies, each by labkit itself.

Latencies are [study, block, sample], in microseconds around 50. They are not those that intervals
were chosen by (latencies.py). Blocks of the two conditions share nothing but drift.
"""

from dataclasses import dataclass

import numpy as np

from labkit.claim import Order, judge
from labkit.running.until_decided import FIRST_BLOCKS, can_hope, next_step
from labkit.statistics.comparison import Comparison, Found
from labkit.statistics.spending import SAME_FIRST, levels
from labkit.verdict import CONTRADICTED, HOLDS, SAME, UNDECIDED

MARGIN = 0.05
ORDER = Order("order", "a is lower", "", conditions=("a", "b"))


def lognormal(between):
    def made(rng, shape):
        luck = between * rng.standard_normal((*shape[:2], 1))
        return 50 * np.exp(luck + 0.25 * rng.standard_normal(shape))

    return made


def bimodal(share):
    """So large a share of the samples takes three times as long; blocks differ by 5 %."""

    def made(rng, shape):
        return lognormal(0.05)(rng, shape) * np.where(rng.random(shape) < share, 3, 1)

    return made


def pareto(shape_of):
    def made(rng, shape):
        luck = np.exp(0.05 * rng.standard_normal((*shape[:2], 1)))
        return 40 * luck * (1 + 0.25 * rng.pareto(shape_of, shape))

    return made


def autoregressive(rng, shape):
    """Neighbouring samples are related by 0.9."""
    at = rng.standard_normal(shape)
    for n in range(1, shape[-1]):
        at[..., n] = 0.9 * at[..., n - 1] + np.sqrt(1 - 0.9**2) * at[..., n]
    return 50 * np.exp(0.05 * rng.standard_normal((*shape[:2], 1)) + 0.25 * at)


def drifting(rng, shape):
    """2 % slower from block to block, whatever is measured in them."""
    return lognormal(0.05)(rng, shape) * 1.02 ** np.arange(shape[1])[:, None]


def one_block(rng, shape):
    """The second block takes three times as long."""
    took = lognormal(0.05)(rng, shape)
    took[:, 1] *= 3
    return took


def tenth_of_blocks(rng, shape):
    """Each block takes three times as long with 10 %."""
    return lognormal(0.05)(rng, shape) * np.where(rng.random((*shape[:2], 1)) < 0.1, 3, 1)


def eight(rng, shape):
    """About 8 us, which a clock will print in whole microseconds."""
    return lognormal(0.05)(rng, shape) * 8 / 50


def whole(took):
    """A clock of 1-us steps."""
    return np.maximum(np.round(took), 1)


def spikes(rng, shape):
    """A spike each ten milliseconds: one sample in ten takes three times as long."""
    at = (np.arange(shape[-1]) + rng.integers(10, size=(*shape[:2], 1))) % 10 == 0
    return lognormal(0.05)(rng, shape) * np.where(at, 3, 1)


GENERATORS = {
    "lognormal, blocks alike": lognormal(0.0),
    "lognormal, blocks 5 %": lognormal(0.05),
    "lognormal, blocks 20 %": lognormal(0.20),
    "bimodal 1 %": bimodal(0.01),
    "bimodal 2 %": bimodal(0.02),
    "Pareto 1.5": pareto(1.5),
    "Pareto 3": pareto(3.0),
    "AR(1) 0.9": autoregressive,
    "drift": drifting,
    "one block x 3": one_block,
    "each block x 3 with 10 %": tenth_of_blocks,
    "1-us steps at 8 us": eight,
    "a spike each 10 ms": spikes,
}
CLOCKS = {eight: whole}
"""Those that are not printed exactly, and what is printed of them."""


def sides(made, rng, many, blocks, samples, by=1.0):
    """Two conditions, the first of them `by` times as slow before its clock is read."""
    clock = CLOCKS.get(made, lambda took: took)
    first, second = (made(rng, (many, blocks, samples)) for _ in range(2))
    return clock(first * by), clock(second)


def of_blocks(side, count=None):
    """The first blocks of a condition of one study, as labkit has them."""
    return dict(enumerate(side[:count].astype(float)))


def measured(a, b, count=None):
    """Each study: the first blocks of both conditions."""
    return [{"a": of_blocks(one, count), "b": of_blocks(other, count)}
            for one, other in zip(a, b, strict=True)]  # fmt: skip


@dataclass(frozen=True)
class Doubts:
    """The p values of each study: for its side of 1, and for being within 5 % of 1."""

    apart: np.ndarray
    alike: np.ndarray

    @classmethod
    def of(cls, a, b, q=50, count=None):
        """Of the first blocks."""
        comparison = Comparison.lower("a", "b", q).near(MARGIN, {})
        found = [Found.of(comparison, study) for study in measured(a, b, count)]
        return cls(np.array([f.p for f in found]), np.array([f.p_same for f in found]))


def in_turn(made, rng, looks, many, samples, by=1.0, at_once=100, q=50):
    """Look -> the doubts at it, all of the same studies as they grow."""
    parts = []
    for _ in range(many // at_once):
        a, b = sides(made, rng, at_once, looks[-1], samples, by)
        parts.append([Doubts.of(a, b, q, n) for n in looks])
    return [Doubts(*(np.concatenate([getattr(part[at], name) for part in parts])
                     for name in ("apart", "alike"))) for at in range(len(looks))]  # fmt: skip


@dataclass(frozen=True)
class Decided:
    """Of each study: the blocks that it took, whether it said apart, or the same."""

    blocks: np.ndarray
    apart: np.ndarray
    alike: np.ndarray

    @property
    def share(self):
        """The share of studies with a verdict."""
        return float((self.apart | self.alike).mean())


def decided(found, looks, at, same_at):
    """What these looks decide if each clears its level in `at`, of sameness in `same_at`."""
    many = len(found[0].apart)
    blocks, open_ = np.full(many, looks[-1]), np.ones(many, bool)
    apart, alike = (np.zeros(many, bool) for _ in range(2))
    for doubts, n, level, same in zip(found, looks, at, same_at, strict=True):
        now_apart = open_ & (doubts.apart <= level)
        now_alike = open_ & ~now_apart & (doubts.alike <= same)
        apart, alike = apart | now_apart, alike | now_alike
        blocks[now_apart | now_alike] = n
        open_ &= ~(now_apart | now_alike)
    return Decided(blocks, apart, alike)


def paid(found, looks):
    """With looks that are paid for."""
    return decided(found, looks, levels(looks), levels(looks, share=SAME_FIRST))


def unpaid(found, looks):
    """As if each look were the only one."""
    return decided(found, looks, *[[0.05] * len(looks)] * 2)


def until_decided(a, b, budget):
    """What studies do that stop by themselves, of both sides of which there are `budget` blocks.

    The next look is where the product takes it, and a study is given up where the product does.
    """
    said, took = zip(*(_ended(*pair, budget) for pair in zip(a, b, strict=True)), strict=True)
    apart = np.isin(said, (HOLDS, CONTRADICTED))
    return Decided(np.array(took), apart, np.array(said) == SAME)


def _ended(a, b, budget):
    blocks, kept = FIRST_BLOCKS, {}
    while True:
        study = {"a": of_blocks(a, blocks), "b": of_blocks(b, blocks)}
        (verdict,) = judge([ORDER], study, before=kept, margin=MARGIN)
        more, kept = verdict.more, verdict.comparisons
        if verdict.verdict != UNDECIDED or not can_hope(more, budget - blocks):
            return verdict.verdict, blocks
        blocks += next_step(blocks, more, budget - blocks)
