"""The page of proof on verdicts, made from simulations with fixed seeds.

`PYTHONPATH=.:tests/helpers .venv/bin/python tests/helpers/proof.py` writes it (an hour of two
CPUs); `make torture` holds it to what comes out now.
"""

import itertools
import math
import re
from bisect import bisect_left
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from looking import GENERATORS, Doubts, in_turn, measured, paid, sides, unpaid, until_decided
from scipy.special import stdtr

from labkit.statistics.estimate import ratio
from labkit.statistics.percentiles import interval, percentile, spread
from labkit.statistics.pooled import BEYOND, Pooled, beyond
from labkit.statistics.spending import FIRST, RISK

REASONS = {
    ("each block x 3 with 10 %", "value"):
        "few blocks seldom show slow ones in their share of one in ten; if they show two, a remark "
        "names two states",
    ("each block x 3 with 10 %", "ratio"):
        "one condition has a slow block and the other has none, so two states are compared",
    ("one block x 3", "ratio"):
        "both conditions have the same slow block, and the interval allows for unlike ones",
}  # fmt: skip
MISSED = {
    "lognormal, blocks 20 %":
        "equal pairs, and effects of 5 and 10 %, mostly need more blocks than the budget has",
    "AR(1) 0.9": "equal pairs, and effects of 5 %, mostly need more blocks than the budget has",
    "drift": "one in ten of equal pairs, and of effects of 5 %, go on to the end of the budget",
    "1-us steps at 8 us":
        "one in five of equal pairs, and of effects of 5 %, go on to the end of the budget, as "
        "what the clock leaves over does not shrink with blocks",
}  # fmt: skip
"""Why a study that stops by itself takes more than the goal."""


def why(name, figure, q, blocks, samples, chance):
    """The reason of a cell of the page of proof that lies outside."""
    few = beyond(q, blocks * samples)
    if few < BEYOND and name != "one block x 3" and not chance:
        are = "sample lies" if few == 1 else "samples lie"
        return f"{few} {are} beyond it, so it is not called measured, and no verdict rests on it"
    if chance and (figure == "ratio" or (name, figure) not in REASONS):
        return chance
    return REASONS[name, figure]


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
    true = {q: truth(name, q) for q in percentiles if name not in NO_TRUTH}
    for _ in range(many // AT_ONCE):
        a, b = sides(GENERATORS[name], rng, AT_ONCE, max(counts), SAMPLES)
        for n, q in itertools.product(counts, percentiles):
            for study in measured(a, b, n):
                found = {"ratio": (ratio(study["a"], study["b"], q), 1.0)}
                if q in true:
                    found["value"] = interval(study["a"], q), true[q]
                for figure, (i, truth_of) in found.items():
                    held.setdefault((figure, q, n), []).append(i.low <= truth_of <= i.high)
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
        ours.append([Doubts.of(a, b, q, n).apart <= FIRST * RISK for n in COUNTS])
        students.append([by_student(a, b, q, n) <= FIRST * RISK for n in COUNTS])
    return [100 * np.mean(found, axis=(0, 2)) for found in (ours, students)]


def by_student(a, b, q, count):
    """The p values of Student's t on the blocks' own percentiles."""
    each = ([Pooled.of(study[name]).finer.each(q) for name in "ab"]
            for study in measured(a, b, count))  # fmt: skip
    logs = [np.log(one / other) for one, other in each]
    return np.array([2 * stdtr(count - 1, -abs(x.mean()) / max(spread(x), 1e-12)) for x in logs])


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
        looked = (Doubts.of(*pair, count=count) for pair in pairs)
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
    """The whole page: its text as it stands, with what comes out now in its tables."""
    cells = {name: one[0] for name, one in found.items()}
    alarms = [row(name, *map("{:.1f}".format, one[1])) for name, one in found.items()]
    powers, spent, missed = [], [], []
    for name, (_, _, (near, far), (share, blocks, needed, wrong)) in found.items():
        three = [near[0][0], *near[1], near[2][0], *far]
        powers.append(row(name, *(" / ".join(f"{x:.0f}" for x in one) for one in three)))
        told = f"{share:.0f}", f"{blocks:.1f}", f"{needed}", f"{100 * blocks / needed:.0f} %"
        spent.append(row(name, *told, f"{wrong:.1f}"))
        missed += [row(name, MISSED[name])] if blocks > GOAL * needed else []
    return filled(PAGE, _coverage(cells), _outside(cells), alarms, powers, spent, missed)


def filled(page, *tables):
    """The text of a page with these rows in its tables, one after another."""
    rows_of = iter(tables)
    return re.sub(
        r"(?<=\n)(\|(?:---\|)+\n)(?:\|.*\n)*",
        lambda head: head[1] + "".join(f"{row}\n" for row in next(rows_of)),
        page.read_text("utf-8"),
    )


def row(*parts):
    """A row of a table."""
    return f"| {' | '.join(map(str, parts))} |"


def _coverage(cells):
    return [row(f"{name}, {figure}", *(of_counts(cell, figure, q) for q in FAR))
            for figure in ("value", "ratio") for name, cell in cells.items()]  # fmt: skip


def _outside(cells):
    rows = []
    for name, cell in cells.items():
        odd = {key: x for key, x in cell.items() if not LOW <= x <= HIGH}
        for (figure, q, n), x in odd.items():
            limit = LOW if x < LOW else HIGH
            error = 100 * math.sqrt(limit / 100 * (1 - limit / 100) / STUDIES)
            chance = f"within chance of {STUDIES:,} studies" if abs(x - limit) <= 2 * error else ""
            reason = why(name, figure, q, n, SAMPLES, chance)
            rows.append(row(f"{name}, {figure}", f"p{q:g}", n, f"{x:.1f}", reason))
    return rows


if __name__ == "__main__":
    PAGE.write_text(page(simulated_studies()), "utf-8")
    print(PAGE)
