"""The page of proof on verdicts, made from simulations with fixed seeds.

`PYTHONPATH=.:tests/helpers .venv/bin/python tests/helpers/proof.py` writes it (a quarter of an hour
of one CPU); `make torture` holds it to what comes out now.
"""

import math
from bisect import bisect_left
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import simulated
from generators import GENERATORS
from looking import Doubts, in_turn, paid, sides, unpaid, until_decided
from scipy.special import stdtr
from why import MISSED, why

from labkit.statistics.percentiles import percentile
from labkit.statistics.spending import FIRST, RISK

PAGE = Path(__file__).resolve().parents[2] / "notebooks/docs/proof/verdicts.md"
STUDIES, MORE, SAMPLES, AT_ONCE = 1000, 2000, 1000, 100
COUNTS, FAR = (3, 5, 10), (50, 90, 99, 99.9)
LOOKS = (5, 8, 12, 18, 27, 40)
MANY_LOOKS = tuple(range(5, 25))
BUDGET = 60
EFFECTS = (1.0, 1.05, 1.1, 1.2, 1.5)
GOAL = 0.6
LOW, HIGH = 93.0, 99.0
NO_TRUTH = ("drift", "one block x 3")


def seeded(name, what):
    """Chance of its own for each kind of latency, and for each table."""
    return np.random.default_rng([what, sorted(GENERATORS).index(name)])


def truth(name, q, runs=4000):
    """The percentile of endlessly many blocks, whatever their clock prints."""
    made = GENERATORS[name]
    parts = [made(np.random.default_rng(90 + n), (1, 100, 250)) for n in range(runs // 100)]
    return percentile(np.concatenate([part.ravel() for part in parts]), q)


def coverage(name, many=STUDIES, percentiles=FAR, counts=COUNTS):
    """(figure, percentile, blocks) -> of 100 intervals, those that hold the truth."""
    rng, held = seeded(name, 24), {}
    true = {q: np.log(truth(name, q)) for q in percentiles if name not in NO_TRUTH}
    for _ in range(many // AT_ONCE):
        a, b = sides(GENERATORS[name], rng, AT_ONCE, max(counts), SAMPLES)
        for n in counts:
            one, other = a.first(n), b.first(n)
            for q in percentiles:
                low, high = simulated.ratio(one, other, q)
                held.setdefault(("ratio", q, n), []).append((low <= 0) & (high >= 0))
                if q in true:
                    low, high = simulated.value(one, q)
                    held.setdefault(("value", q, n), []).append(
                        (low <= true[q]) & (true[q] <= high)
                    )
    return {key: 100 * float(np.mean(parts)) for key, parts in held.items()}


def false_alarms(name, many=MORE, samples=200):
    """Of 100 studies of equal conditions, those that one look, 6 and 20 looks call different."""
    found = []
    every = tuple(sorted({*LOOKS, *MANY_LOOKS}))
    by = dict(zip(every, in_turn(GENERATORS[name], seeded(name, 25), every, many, samples),
                  strict=True))  # fmt: skip
    for looks in (LOOKS[:1], LOOKS, MANY_LOOKS):
        doubts = [by[n] for n in looks]
        found += [100 * way(doubts, looks).apart.mean() for way in (unpaid, paid)]
    return found


def power(name, effect, many=STUDIES, samples=200, q=50):
    """Of 100 studies, those that one look at 3, 5 and 10 blocks tells the effect in; by Student."""
    rng, ours, students = seeded(name, 26), [], []
    for _ in range(many // AT_ONCE):
        a, b = sides(GENERATORS[name], rng, AT_ONCE, COUNTS[-1], samples, effect)
        firsts = [(a.first(n), b.first(n)) for n in COUNTS]
        ours.append([Doubts.of(*pair, q).apart <= FIRST * RISK for pair in firsts])
        students.append([by_student(*pair, q) <= FIRST * RISK for pair in firsts])
    return [100 * np.mean(found, axis=(0, 2)) for found in (ours, students)]


def by_student(a, b, q):
    """The p value of Student's t on the blocks' own percentiles."""
    logs = np.log(a.finer.each(q) / b.finer.each(q))
    t = np.abs(logs.mean(axis=1)) / np.maximum(simulated.spread(logs), 1e-12)
    return 2 * stdtr(a.count - 1, -t)


def spent_blocks(name, many=STUDIES // 5, samples=200):
    """Until decided: share decided, its blocks, and those of a fixed design that decides as many.

    Over equal conditions and the effects, each as often; a fixed design looks once, at 5 %.
    """
    pairs = [
        sides(GENERATORS[name], seeded(name, 27), many, BUDGET, samples, effect)
        for effect in EFFECTS
    ]
    growing = [until_decided(*pair, BUDGET) for pair in pairs]
    share = float(np.mean([one.share for one in growing]))
    blocks = float(np.mean([one.blocks.mean() for one in growing]))

    def enough(count):
        looked = (Doubts.of(*(side.first(count) for side in pair)) for pair in pairs)
        return np.mean([unpaid([one], (count,)).share for one in looked]) >= share

    needed = bisect_left(range(BUDGET), True, lo=3, key=enough)
    return 100 * share, blocks, needed, 100 * growing[0].apart.mean()


def of_counts(cells, figure, q):
    """Three cells as one."""
    return " / ".join(f"{cells[figure, q, n]:.1f}" if (figure, q, n) in cells else "-"
                      for n in COUNTS)  # fmt: skip


def of_one(name, many=STUDIES):
    """All that the page says of one kind of latency."""
    told = power(name, 1.05), power(name, 1.1), power(name, 1.2)
    far = power(name, 1.1, many=400, samples=SAMPLES, q=99)
    return coverage(name, many), false_alarms(name), (told, far), spent_blocks(name)


def simulated_studies(names=tuple(GENERATORS), beside=2):
    """What all kinds of latency came to; a few processes work at it."""
    with ProcessPoolExecutor(beside) as beside:
        return dict(zip(names, beside.map(of_one, names), strict=True))


def page(found):
    """The whole page."""
    cells = {name: one[0] for name, one in found.items()}
    parts = [HEAD.format(many=STUDIES), _coverage(cells), _outside(cells)]
    parts += [ALARMS.format(many=MORE), *_of_each(found, 1, "{:.1f}")]
    parts += [POWER.format(many=STUDIES)]
    for name, (_, _, (near, far), _) in found.items():
        three = [near[0][0], *near[1], near[2][0], *far]
        parts.append(_row(name, *(" / ".join(f"{x:.0f}" for x in one) for one in three)))
    parts += [SPENT.format(goal=100 * GOAL, most=BUDGET, many=STUDIES // 5)]
    for name, one in found.items():
        share, blocks, needed, wrong = one[3]
        told = f"{share:.0f}", f"{blocks:.1f}", f"{needed}", f"{100 * blocks / needed:.0f} %"
        parts.append(_row(name, *told, f"{wrong:.1f}"))
    over = [name for name, one in found.items() if one[3][1] > GOAL * one[3][2]]
    parts += [MISSES, *(_row(name, MISSED[name]) for name in over)]
    return "\n".join(parts) + "\n"


def _of_each(found, at, form):
    return [_row(name, *map(form.format, one[at])) for name, one in found.items()]


def _coverage(cells):
    rows = []
    for figure in ("value", "ratio"):
        rows += [
            _row(f"{name}, {figure}", *(of_counts(cell, figure, q) for q in FAR))
            for name, cell in cells.items()
        ]
    return "\n".join(rows)


def _outside(cells):
    rows = []
    for name, cell in cells.items():
        odd = {key: x for key, x in cell.items() if not LOW <= x <= HIGH}
        for (figure, q, n), x in odd.items():
            limit = LOW if x < LOW else HIGH
            error = 100 * math.sqrt(limit / 100 * (1 - limit / 100) / STUDIES)
            chance = f"within chance of {STUDIES:,} studies" if abs(x - limit) <= 2 * error else ""
            reason = why(name, figure, q, n, SAMPLES, chance)
            rows.append(_row(f"{name}, {figure}", f"p{q:g}", n, f"{x:.1f}", reason))
    return "\n".join([OUTSIDE, *rows])


def _row(*parts):
    return f"| {' | '.join(map(str, parts))} |"


HEAD = """# Verdicts: how often they are right, and what they cost

Figures behind [statistics](../statistics.md). Each cell of coverage comes from {many:,} simulated
studies, which know 95 % to 0.7 %. Each block has 1,000 samples for coverage, and 200 elsewhere if
nothing else is said. Seeds are fixed. To repeat it:
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

Of 100 studies of equal conditions ({many:,} each, which know 5 % to 0.5 %), those that were called
different. One look is at 5 blocks, six looks are at 5 to 40, twenty at 5 to 24. *Unpaid* is each
look at 5 % of its own.

| latency | one look, unpaid | paid | six, unpaid | paid | twenty, unpaid | paid |
|---|---|---|---|---|---|---|"""
POWER = """
## Power

Of 100 studies with one paid look, those that found the effect, at 3 / 5 / 10 blocks: at the median
({many:,} studies each), and at p99 (400 each, blocks of 1,000 samples). *Student* is Student's t of
the blocks' own figures, at the same level.
Where each block is slow with 10 %, most of what p99 finds at 10 blocks is chance: its interval
holds in half of the studies only, as shown above.

| latency | 5 % | 10 % | 10 %, Student | 20 % | p99, 10 % | p99, Student |
|---|---|---|---|---|---|---|"""
SPENT = """
## Blocks until decided

Equal conditions, and effects of 5, 10, 20 and 50 %, {many} studies each. A study goes on as labkit
does: its first look is at 4 blocks, and it ends when it says different, or the same within 5 %. Its
budget is {most} blocks. It gives up when the rest of them will not decide it by far. The fixed
design looks once, at 5 %, and decides as many studies. The goal is {goal:.0f} %.
200 studies know 5 % to 1.5 %.

| latency | decided of 100 | blocks, mean | of the fixed design | share | false alarms |
|---|---|---|---|---|---|"""
MISSES = """
Above the goal, and why:

| latency | reason |
|---|---|"""


if __name__ == "__main__":
    PAGE.write_text(page(simulated_studies()), "utf-8")
    print(PAGE)
