"""Blocks and seconds to a verdict: ours beside fixed repeats, and pyperf's and benchstat's rules.

All see the same simulated blocks, equal or 5, 10, 20 and 50 % apart. pyperf compares 20 processes
by a two-sample t test at 95 %, benchstat ten runs by Mann and Whitney's U at 5 %. Neither calls
anything the same. Ours goes on until it is decided, or given up. Seconds are blocks of two runs of
6 s each, as `lat_ping` takes; nothing is timed here.
"""

import numpy as np
import scipy.stats
from _figures import at_most, beside, write
from looking import (
    GENERATORS,
    Doubts,
    sides,
    unpaid,
    until_decided,
)
from proof import BUDGET, EFFECTS

MANY, SAMPLES, RUN_SECONDS = 200, 200, 6.0
KINDS = ("lognormal, blocks 5 %", "bimodal 2 %", "Pareto 3", "AR(1) 0.9")


def pairs(made):
    """Both conditions at each effect; every rule sees the first blocks of the same studies."""
    rng = np.random.default_rng(31)
    return {effect: sides(made, rng, MANY, BUDGET, SAMPLES, effect) for effect in EFFECTS}


def medians(pair, blocks):
    """Those of the blocks of both conditions: [study, block] each."""
    return [np.percentile(side[:, :blocks], 50, axis=2, method="inverted_cdf") for side in pair]


def by_pyperf(pair, blocks=20):
    return scipy.stats.ttest_ind(*medians(pair, blocks), axis=1).pvalue <= 0.05


def by_benchstat(pair, blocks=10):
    return scipy.stats.mannwhitneyu(*medians(pair, blocks), axis=1).pvalue <= 0.05


def fixed(pair, blocks):
    """As many blocks for all, looked at once."""
    return unpaid([Doubts.of(*pair, count=blocks)], (blocks,)).share


def main():
    figures = []
    for name in KINDS:
        both, stem = pairs(GENERATORS[name]), f"verdict-{KINDS.index(name)}"
        found = {effect: until_decided(*pair, BUDGET) for effect, pair in both.items()}
        blocks = float(np.mean([one.blocks.mean() for one in found.values()]))
        share = float(np.mean([one.share for one in found.values()]))
        enough = (n for n in range(3, BUDGET)
                  if np.mean([fixed(pair, n) for pair in both.values()]) >= share)  # fmt: skip
        needed = next(enough, BUDGET)
        what = f"{name}: blocks until {100 * share:.0f} of 100 are decided"
        figures.append(at_most(f"{stem}-blocks", what, blocks, "fixed repeats", needed, 0.6))
        figures.append(at_most(f"{stem}-seconds", f"{name}: seconds to a verdict",
                               2 * RUN_SECONDS * blocks, "fixed repeats",
                               2 * RUN_SECONDS * needed, 0.6))  # fmt: skip
        for peer, rule, size in (("pyperf", by_pyperf, 20), ("benchstat", by_benchstat, 10)):
            told = np.mean([rule(both[e]).mean() for e in EFFECTS if e > 1])
            mine = np.mean([found[e].apart.mean() for e in EFFECTS if e > 1])
            wrong, alarms = rule(both[1.0]).mean(), found[1.0].apart.mean()
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
