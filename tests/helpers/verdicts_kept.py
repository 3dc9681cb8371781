"""The page of proof on looks, margins and trends, made from simulations with fixed seeds.

`PYTHONPATH=.:tests/helpers .venv/bin/python tests/helpers/verdicts_kept.py` writes it; `make
torture` holds it to what comes out now. A block is the logarithm of a ratio, whose luck is normal.
"""

from pathlib import Path

import numpy as np
from proof import filled, row
from scipy.special import stdtr, stdtrit

from labkit.noise_floor import at_most, smallest
from labkit.running.until_decided import FIRST_BLOCKS, next_step
from labkit.statistics.odd_blocks import change_points
from labkit.statistics.spending import FIRST, RISK, SAME_FIRST, levels

PAGE = Path(__file__).resolve().parents[2] / "notebooks/docs/proof/looks.md"
STUDIES, LUCK, MARGIN, BUDGET = 4000, 0.05, 0.05, 60
PAIRS = ((1.0, 1.0), (1.02, 1.02), (1.03, 1.1), (1.0, 1.2), (1.05, 1.05), (1.2, 1.2))


def at_looks(most=BUDGET):
    """The blocks at each look of a claim that stays open: half as many more each time."""
    found = [FIRST_BLOCKS]
    while (step := next_step(found[-1], found[-1] // 2, most - found[-1])) > 0:
        found.append(found[-1] + step)
    return found


def blocks(rng, effects, studies, most=BUDGET):
    """[claim, study, block]: each condition over the one that all claims share."""
    luck = LUCK * rng.standard_normal((len(effects) + 1, studies, most))
    return np.log(effects)[:, None, None] + luck[1:] - luck[0]


def doubts(some):
    """The mean of each study, its error, and its p values: of its side, and of sameness."""
    mean, n = some.mean(-1), some.shape[-1]
    error = some.std(-1, ddof=1) / np.sqrt(n)
    edge = np.log1p(MARGIN)
    apart = 2 * stdtr(n - 1, -abs(mean) / error)
    alike = stdtr(n - 1, -(edge - abs(mean)) / error)
    return mean, error, apart, alike


def until_decided(effects, studies=STUDIES, seed=1, first=FIRST):
    """What each claim of each study says at the end, its interval as shown, and the blocks it took.

    A claim that is decided is looked at no more, and leaves its risk to the other. The first look
    spends the part `first` of the risk.
    """
    every = blocks(np.random.default_rng([seed, *np.round(1000 * np.array(effects)).astype(int)]),
                   effects, studies)  # fmt: skip
    said = np.zeros(every.shape[:2], int)  # 1: apart, 2: the same
    ends = {level: np.zeros((*said.shape, 2)) for level in ("look", "all")}
    looks, took = at_looks(), np.zeros(said.shape, int)
    for at, n in enumerate(looks):
        mean, error, apart, alike = doubts(every[..., :n])
        open_ = said == 0
        took[open_] = n
        for level, of in (("look", RISK), ("all", levels(looks[: at + 1], share=first)[-1])):
            off = stdtrit(n - 1, 1 - of / 2) * error
            ends[level][open_] = np.stack([mean - off, mean + off], -1)[open_]
        left = (said != 1).sum(0)
        for _ in range(len(effects)):  # Holm's steps
            for risk_of in set(left):
                level = levels(looks[: at + 1], RISK / max(risk_of, 1), first)[-1]
                said[open_ & (left == risk_of) & (said == 0) & (apart <= level)] = 1
            left = (said != 1).sum(0)
        same = levels(looks[: at + 1], RISK / len(effects), SAME_FIRST)[-1]
        said[open_ & (said == 0) & (alike <= same)] = 2
    return said, ends, took


def first_look(first, effects=(1.0, 1.05, 1.1, 1.2, 1.5)):
    """Blocks until decided, of 100 those that find 5 %, and what one look of 5 or 10 blocks finds.

    The mean of blocks is over all effects; one look of 5 blocks is at 10 %, one of 10 at 5 %.
    """
    each = {by: until_decided((by,), first=first) for by in effects}
    once = []
    for n, by in ((5, 1.1), (10, 1.05)):
        _, _, apart, _ = doubts(blocks(np.random.default_rng(n), (by,), STUDIES, n))
        once.append(100 * (apart <= first * RISK).mean())
    found = 100 * (each[1.05][0] == 1).mean()
    return float(np.mean([took for _, _, took in each.values()])), found, *once


def kept(effects):
    """A row of the table."""
    said, ends, _ = until_decided(effects)
    truth = np.log(effects)[:, None, None]
    held = [100 * ((of[..., :1] <= truth) & (truth <= of[..., 1:])).mean() for of in ends.values()]
    wrong = ((said == 1) & (np.array(effects) == 1)[:, None]).any(0).mean()
    return [100 * (said == 1).mean(1), 100 * (said == 2).mean(1), 100 * wrong, held]


def related(rng, count, alike, noise=0.03):
    """Sessions of which each takes a part of the one before."""
    at = rng.standard_normal(count + 40)
    for k in range(1, at.size):
        at[k] = alike * at[k - 1] + np.sqrt(1 - alike**2) * at[k]
    return noise * at[40:]


def alarms(alike, count=30, studies=200, series=1, shift=None, by=0.0):
    """Of 100 studies of so many series, those in which one is said to have changed.

    With a `shift`, one series changes `by` so much from there on, and it has to be that one.
    """
    rng, found = np.random.default_rng([count, series, int(10 * alike)]), 0
    for _ in range(studies):
        some = [related(rng, count, alike) for _ in range(1 if shift else series)]
        if shift:
            some[0][shift:] += by
        points = (change_points(one, shuffles=max(499, 40 * series)) for one in some)
        found += any(p.p <= RISK / series for point in points for p in point)
    return 100 * found / studies


def noise(count, sessions=3000):
    """The median margin in percent after so many blocks of noise, and the power it promises."""
    rng, scatter = np.random.default_rng([9, count]), LUCK * np.sqrt(2)
    seen = scatter * np.sqrt(rng.chisquare(count - 1, sessions) / (count - 1))
    margin = np.expm1(1.96 / np.sqrt(5) * np.median(seen))
    told = []
    for n in (5, 10, 20):
        one = np.log1p(smallest(1.0, n))  # in proportion to the scatter
        truth = one * np.array([at_most(x, count) for x in seen])
        some = truth[:, None] + scatter * rng.standard_normal((sessions, n))
        t = abs(some.mean(1)) / (some.std(1, ddof=1) / np.sqrt(n))
        told.append(100 * (2 * stdtr(n - 1, -t) <= FIRST * RISK).mean())
    return 100 * margin, told


def _cells(some, form="{:.1f}"):
    return " / ".join(form.format(x) for x in some)


def page():
    """The whole page: its text as it stands, with what comes out now in its tables."""
    pairs, trends, finds, margins = [], [], [], []
    for effects in PAIRS:
        apart, same, wrong, held = kept(effects)
        alarm = f"{wrong:.1f}" if 1.0 in effects else "-"
        pairs.append(row(_cells(effects, "{:g}"), _cells(apart), _cells(same), alarm,
                         *(f"{x:.1f}" for x in held)))  # fmt: skip
    spending = [row(f"{100 * first:.0f} %", *(f"{x:.1f}" for x in first_look(first)))
                for first in (0.15, 0.3, FIRST, 0.9)]  # fmt: skip
    for alike in (0.0, 0.3, 0.5):
        each = [alarms(alike), alarms(alike, 12), alarms(alike, studies=240, series=14)]
        trends.append(row(f"{alike:g}", *(f"{x:.1f}" for x in each)))
    for by in (1.05, 1.1, 3):
        each = [alarms(0, studies=50, shift=15, by=np.log(by), series=n) for n in (1, 14, 26)]
        finds.append(row(f"{by:g}", *(f"{x:.0f}" for x in each)))
    for count in (3, 6, 12):
        margin, told = noise(count)
        known = "5 %" if count == 3 else f"{margin:.1f} %"
        margins.append(row(count, known, _cells(told, "{:.0f}")))
    return filled(PAGE, pairs, spending, trends, finds, margins)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
