"""The page of proof on verdicts, made from simulations with fixed seeds.

`PYTHONPATH=.:tests/helpers .venv/bin/python tests/helpers/proof.py` writes it (some minutes of one
CPU); `make torture` holds it to what comes out now.
"""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import simulated
from generators import GENERATORS, ODD, WHY
from looking import clock_of, in_turn, paid, sides, unpaid

from labkit.statistics.percentiles import NORMAL, percentile

PAGE = Path(__file__).resolve().parents[2] / "notebooks/docs/proof/verdicts.md"
STUDIES, FEWER, SAMPLES = 200, 100, 1000
COUNTS, FAR = (3, 5, 10), (50, 90, 99, 99.9)
LOOKS = (5, 8, 12, 18, 27, 40)
MANY_LOOKS = tuple(range(5, 25))
GROWING = (4, 6, 9, 13, 19, 28, 42, 60)
"""As a study does that goes on until it is decided."""
FIXED = tuple(sorted({*range(3, 13), *range(14, 60, 3), *GROWING}))
EFFECTS = (1.0, 1.05, 1.1, 1.2, 1.5)
GOAL = 0.6
LOW, HIGH = 93.0, 99.0
NO_TRUTH = ("drift", "one block x 3")


def truth(name, q, runs=4000):
    """The percentile of endlessly many blocks."""
    made = GENERATORS[name]
    parts = [made(np.random.default_rng(90 + n), (1, 100, 250)) for n in range(runs // 100)]
    return percentile(np.concatenate([part.ravel() for part in parts]), q)


def with_clock(side, q, low, high):
    """As `percentiles.estimate`, which widens an interval by the steps of its clock."""
    at = np.log(side.percentile(q))
    off = NORMAL * np.log1p(clock_of(side) / side.percentile(q))
    return at - np.hypot(at - low, off), at + np.hypot(high - at, off)


def coverage(name, many=STUDIES, percentiles=FAR, counts=COUNTS, at_once=100):
    """(figure, percentile, blocks) -> of 100 intervals, those that hold the truth."""
    rng, held = np.random.default_rng(24), {}
    true = {q: np.log(truth(name, q)) for q in percentiles if name not in NO_TRUTH}
    for _ in range(many // at_once):
        a, b = sides(GENERATORS[name], rng, at_once, max(counts), SAMPLES)
        for q in percentiles:
            for n in counts:
                one, other = a.first(n), b.first(n)
                low, high = simulated.ratio(one, other, q)
                held.setdefault(("ratio", q, n), []).append((low <= 0) & (high >= 0))
                if q in true:
                    low, high = with_clock(one, q, *simulated.value(one, q))
                    held.setdefault(("value", q, n), []).append(
                        (low <= true[q]) & (true[q] <= high)
                    )
    return {key: 100 * float(np.mean(parts)) for key, parts in held.items()}


def false_alarms(name, many=STUDIES, samples=200):
    """Of 100 studies of equal conditions, those that one look, 6 and 20 looks call different."""
    found = []
    for looks in (LOOKS[:1], LOOKS, MANY_LOOKS):
        doubts = in_turn(GENERATORS[name], np.random.default_rng(25), looks, many, samples)
        found += [100 * way(doubts, looks).apart.mean() for way in (unpaid, paid)]
    return found


def power(name, effect, many=STUDIES, samples=200):
    """Of 100 studies, those that one look at 3, 5 and 10 blocks tells the effect in."""
    doubts = in_turn(GENERATORS[name], np.random.default_rng(26), COUNTS, many, samples, effect)
    return [100 * paid([one], (n,)).apart.mean() for one, n in zip(doubts, COUNTS, strict=True)]


def spent_blocks(name, many=STUDIES, samples=200):
    """Until decided: share decided, its blocks, and those of a fixed design that decides as many.

    Over equal conditions and the effects, each as often; a fixed design looks once, at 5 %.
    """
    growing, fixed = [], {n: [] for n in FIXED}
    for effect in EFFECTS:
        rng = np.random.default_rng(27)
        every = tuple(fixed)
        doubts = in_turn(GENERATORS[name], rng, every, many, samples, effect)
        by = dict(zip(every, doubts, strict=True))
        growing.append(paid([by[n] for n in GROWING], GROWING))
        for n in every:
            fixed[n].append(unpaid([by[n]], (n,)).share)
    share = float(np.mean([one.share for one in growing]))
    blocks = float(np.mean([one.blocks.mean() for one in growing]))
    needed = next((n for n, of in fixed.items() if np.mean(of) >= share), GROWING[-1])
    wrong = 100 * growing[0].apart.mean()
    return 100 * share, blocks, needed, wrong


def of_counts(cells, figure, q):
    """Three cells as one."""
    return " / ".join(f"{cells[figure, q, n]:.1f}" if (figure, q, n) in cells else "-"
                      for n in COUNTS)  # fmt: skip


def of_one(name, many=STUDIES):
    """All that the page says of one kind of latency."""
    return (
        coverage(name, many), false_alarms(name, many),
        [power(name, by, many) for by in EFFECTS[1:4]], spent_blocks(name, FEWER),
    )  # fmt: skip


def page(names=tuple(GENERATORS), many=STUDIES):
    """The whole page; a few processes work at it."""
    with ProcessPoolExecutor(4) as beside:
        found = dict(zip(names, beside.map(of_one, names, [many] * len(names)), strict=True))
    cells = {name: one[0] for name, one in found.items()}
    parts = [HEAD.format(many=many), _coverage(cells), _outside(cells), ALARMS.format(many=many)]
    parts += [_row(name, *(f"{x:.1f}" for x in one[1])) for name, one in found.items()]
    parts += [POWER.format(many=many)]
    parts += [
        _row(name, *(" / ".join(f"{x:.0f}" for x in three) for three in one[2]))
        for name, one in found.items()
    ]
    parts += [SPENT.format(goal=100 * GOAL, most=GROWING[-1], many=FEWER)]
    for name, one in found.items():
        share, blocks, needed, wrong = one[3]
        told = f"{share:.0f}", f"{blocks:.1f}", f"{needed}", f"{100 * blocks / needed:.0f} %"
        parts.append(_row(name, *told, f"{wrong:.1f}"))
    return "\n".join(parts) + "\n"


def _coverage(cells):
    rows = []
    for figure in ("value", "ratio"):
        rows += [
            _row(f"{name}, {figure}", *(of_counts(found, figure, q) for q in FAR))
            for name, found in cells.items()
        ]
    return "\n".join(rows)


def _outside(cells):
    rows = []
    for name, found in cells.items():
        odd = {key: x for key, x in found.items() if not LOW <= x <= HIGH}
        for (figure, q, n), x in odd.items():
            why = ODD.get(name) if x < LOW or q < 99 else WHY
            why = why or ("a tail that few blocks do not show" if x < LOW else WHY)
            rows.append(_row(f"{name}, {figure}", f"p{q:g}", n, f"{x:.1f}", why))
    return "\n".join([OUTSIDE, *rows])


def _row(*parts):
    return f"| {' | '.join(map(str, parts))} |"


HEAD = """# Verdicts: how often they are right, and what they cost

Figures behind [statistics](../statistics.md), from {many} simulated studies for each cell. These
know 95 % to 1.5 %, and 5 % likewise. Each block has 1,000 samples for coverage, and 200 elsewhere.
Seeds are fixed. To repeat it:
`.venv/bin/python -m pytest -m torture tests/statistics/test_proof.py`.

## Coverage

Of 100 intervals of 95 %, those that held the truth, at 3 / 5 / 10 blocks. A dash stands where
blocks have no common truth.

| latency, figure | median | p90 | p99 | p99.9 |
|---|---|---|---|---|"""
OUTSIDE = """
Cells below 93 or above 99, and why:

| latency, figure | percentile | blocks | held | reason |
|---|---|---|---|---|"""
ALARMS = """
## False alarms

Of 100 studies of equal conditions ({many} each), those that were called different. One look is at
5 blocks, six looks are at 5 to 40, twenty at 5 to 24. *Unpaid* is each look at 5 % of its own.

| latency | one look, unpaid | paid | six, unpaid | paid | twenty, unpaid | paid |
|---|---|---|---|---|---|---|"""
POWER = """
## Power

Of 100 studies ({many} each) with one paid look at the median, those that found the effect, at
3 / 5 / 10 blocks.

| latency | 5 % | 10 % | 20 % |
|---|---|---|---|"""
SPENT = """
## Blocks until decided

Equal conditions, and effects of 5, 10, 20 and 50 %, {many} studies each. A study looks after 4, 6,
9 blocks and so on, up to {most}, until it says different, or the same within 5 %. The fixed design
looks once, at 5 %, and decides as many studies. The goal is {goal:.0f} %.

| latency | decided of 100 | blocks, mean | of the fixed design | share | false alarms |
|---|---|---|---|---|---|"""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
