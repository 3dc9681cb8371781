"""Verdicts of many simulated studies at once: at one look, over several, until they are decided."""

from dataclasses import dataclass

import numpy as np
import simulated
from generators import CLOCKS
from scipy.special import stdtr, stdtrit
from simulated import Many

from labkit.running.until_decided import FIRST_BLOCKS, can_hope, next_step
from labkit.statistics.percentiles import MOST_BLOCKS, counted
from labkit.statistics.spending import SAME_FIRST, levels

MARGIN = 0.05
MORE = np.arange(1, MOST_BLOCKS + 1)


@dataclass(frozen=True)
class Doubts:
    """The p values of each study: for its side of 1, and for being within 5 % of 1.

    `away` and `inside` are the errors by which it is away from 1, and inside of 5 %.
    """

    apart: np.ndarray
    alike: np.ndarray
    away: np.ndarray
    inside: np.ndarray

    @classmethod
    def of(cls, a, b, q=50):
        """As `verdict.Found`, of the interval that `simulated.ratio` computes."""
        a, b = a.finer, b.finer
        low, high = simulated.ratio(a, b, q)
        t, freedom = stdtrit(a.count - 1, 0.975), a.count - 1
        at = np.log(a.percentile(q)) - np.log(b.percentile(q))
        middle = (at + np.log(a.each(q) / b.each(q)).mean(axis=1)) / 2
        down, up = (np.maximum(x, 1e-12) / t for x in (middle - low, high - middle))
        above, below = stdtr(freedom, -middle / down), stdtr(freedom, middle / up)
        edge = np.log1p(MARGIN)
        alike = np.maximum(stdtr(freedom, -(middle + edge) / down),
                           stdtr(freedom, -(edge - middle) / up))  # fmt: skip
        away = np.abs(at) / np.where(at < 0, up, down)
        inside = np.minimum((at + edge) / down, (edge - at) / up)
        return cls(np.minimum(1, 2 * np.minimum(above, below)), alike, away, inside)

    def more(self, study, blocks, level):
        """As `verdict.Found.after`: how many more blocks are foreseen to decide it."""
        grown = np.sqrt((counted(blocks) + MORE) / counted(blocks))
        tails = (stdtr(blocks - 1 + MORE, -t[study] * grown) for t in (self.away, self.inside))
        apart, alike = tails
        found = np.flatnonzero((apart <= level / 2) | (alike <= level))
        return int(MORE[found[0]]) if found.size else MOST_BLOCKS + 1


def sides(made, rng, many, blocks, samples, by=1.0):
    """Two conditions, the first of them `by` times as slow before its clock is read."""
    clock = CLOCKS.get(made, lambda took: took)
    first, second = (made(rng, (many, blocks, samples)) for _ in range(2))
    return Many(np.sort(clock(first * by))), Many(np.sort(clock(second)))


def in_turn(made, rng, looks, many, samples, by=1.0, at_once=100, q=50):
    """Look -> the doubts at it, all of the same studies as they grow."""
    parts = []
    for _ in range(many // at_once):
        a, b = sides(made, rng, at_once, looks[-1], samples, by)
        parts.append([Doubts.of(a.first(n), b.first(n), q) for n in looks])
    return [
        Doubts(*(np.concatenate([getattr(part[at], name) for part in parts])
                 for name in ("apart", "alike", "away", "inside")))
        for at in range(len(looks))
    ]  # fmt: skip


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
    many = len(a.blocks)
    looks, at = [[] for _ in range(many)], np.full(many, FIRST_BLOCKS)
    blocks = np.zeros(many, int)
    apart, alike = (np.zeros(many, bool) for _ in range(2))
    for now in range(FIRST_BLOCKS, budget + 1):
        some = np.flatnonzero((at == now) & (blocks == 0))
        if not some.size:
            continue
        doubts = Doubts.of(*(Many(side.blocks[some, :now]) for side in (a, b)))
        for k, study in enumerate(some):
            looks[study].append(now)
            apart[study] = doubts.apart[k] <= levels(looks[study])[-1]
            alike[study] = doubts.alike[k] <= levels(looks[study], share=SAME_FIRST)[-1]
            more = doubts.more(k, now, levels([*looks[study], 2 * now])[-1])
            if apart[study] or alike[study] or not can_hope(more, budget - now):
                blocks[study] = now
            at[study] = now + next_step(now, more, budget - now)
    return Decided(blocks, apart, alike & ~apart)
