"""Blocks and seconds to a verdict: ours beside fixed repeats, and pyperf's and benchstat's rules.

All see the same simulated blocks, equal or 5, 10, 20 and 50 % apart. pyperf compares 20 processes
by a two-sample t test at 95 %, benchstat ten runs by Mann and Whitney's U at 5 %. Neither calls
anything the same. Seconds are blocks of two runs of 6 s each, as `lat_ping` takes; nothing is timed
here.
"""

import sys
from pathlib import Path

import numpy as np
import scipy.stats

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "helpers"), str(Path(__file__).parent)]

from _figures import at_most, beside, write  # noqa: E402
from generators import GENERATORS  # noqa: E402
from looking import in_turn, paid, sides, unpaid  # noqa: E402
from proof import EFFECTS, GROWING  # noqa: E402

MANY, SAMPLES, RUN_SECONDS = 200, 200, 6.0
KINDS = ("lognormal, blocks 5 %", "bimodal 2 %", "Pareto 3", "AR(1) 0.9")


def figures_of(made, blocks, effect):
    """The medians of the blocks of both conditions: [study, block] each."""
    pair = sides(made, np.random.default_rng(31), MANY, blocks, SAMPLES, effect)
    return [side.each(50) for side in pair]


def by_pyperf(made, effect, blocks=20):
    one, other = figures_of(made, blocks, effect)
    return scipy.stats.ttest_ind(one, other, axis=1).pvalue <= 0.05


def by_benchstat(made, effect, blocks=10):
    one, other = figures_of(made, blocks, effect)
    return scipy.stats.mannwhitneyu(one, other, axis=1).pvalue <= 0.05


def ours(made, effect):
    """Until decided."""
    doubts = in_turn(made, np.random.default_rng(31), GROWING, MANY, SAMPLES, effect)
    return paid(doubts, GROWING)


def fixed(made, effect, blocks):
    """As many blocks for all, looked at once."""
    (doubts,) = in_turn(made, np.random.default_rng(31), (blocks,), MANY, SAMPLES, effect)
    return unpaid([doubts], (blocks,))


def main():
    figures = []
    for name in KINDS:
        made, stem = GENERATORS[name], f"verdict-{KINDS.index(name)}"
        found = {effect: ours(made, effect) for effect in EFFECTS}
        blocks = float(np.mean([one.blocks.mean() for one in found.values()]))
        share = float(np.mean([one.share for one in found.values()]))
        needed = next((n for n in range(4, GROWING[-1], 2)
                       if np.mean([fixed(made, e, n).share for e in EFFECTS]) >= share),
                      GROWING[-1])  # fmt: skip
        what = f"{name}: blocks until {100 * share:.0f} of 100 are decided"
        figures.append(at_most(f"{stem}-blocks", what, blocks, "fixed repeats", needed, 0.6))
        figures.append(at_most(f"{stem}-seconds", f"{name}: seconds to a verdict",
                               2 * RUN_SECONDS * blocks, "fixed repeats",
                               2 * RUN_SECONDS * needed, 0.6))  # fmt: skip
        for peer, rule, size in (("pyperf", by_pyperf, 20), ("benchstat", by_benchstat, 10)):
            told = np.mean([rule(made, e).mean() for e in EFFECTS if e > 1])
            mine = np.mean([found[e].apart.mean() for e in EFFECTS if e > 1])
            wrong, alarms = rule(made, 1.0).mean(), found[1.0].apart.mean()
            figures += [
                beside(f"{stem}-{peer}-blocks", f"{name}: blocks", blocks, peer, size),
                beside(f"{stem}-{peer}-found", f"{name}: effects found", mine, peer, told),
                beside(f"{stem}-{peer}-wrong", f"{name}: false alarms", alarms, peer,
                       max(wrong, 1 / MANY)),
                beside(f"{stem}-{peer}-same", f"{name}: equal ones called the same",
                       found[1.0].alike.mean(), f"{peer} never does (1 study)", 1 / MANY),
            ]  # fmt: skip
    write("verdict", figures)


if __name__ == "__main__":
    main()
