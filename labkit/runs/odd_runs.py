"""Remarks on runs that lie apart: when they were made, what gates saw, where the study changed."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from labkit.machine.units import figure, shown
from labkit.results import Results, Run
from labkit.statistics.odd_blocks import OddBlock, TwoStates, change_points, odd_blocks, two_states
from labkit.statistics.percentiles import percentile
from labkit.statistics.pooled import Values

Gates = Mapping[str, Mapping[str, str]]
Medians = Mapping[str, Mapping[int, float]]
RISK = 0.01
"""A change is named beside what is odd, so it has to be clear."""
FEWEST_RUNS = 10


def remarks(
    results: Results,
    blocks_of: Mapping[str, Mapping[int, Values]],
    unit: str,
    gates: Callable[[Run], Gates] = lambda run: run.gates,
) -> list[str]:
    """List what lies apart in a study, a sentence each; nothing is dropped.

    `gates` says of a run, by role, what was wrong on its hosts.
    """
    medians = {
        name: {block: percentile(values, 50) for block, values in blocks.items()}
        for name, blocks in blocks_of.items()
    }
    runs = {(run.condition, run.block): run for run in results.finished()}
    states = [_states(two_state, unit) for two_state in two_states(medians)]
    odd = [_odd(block, run := runs[block.condition, block.block], gates(run), len(runs), unit)
           for block in odd_blocks(medians)]  # fmt: skip
    return [*states, *odd, *_changes(medians, [*runs.values()])]


def _states(states: TwoStates, unit: str) -> str:
    quick, slow = (
        f"{figure(value)} {shown(unit)} (blocks {', '.join(map(str, blocks))})"
        for value, blocks in (
            (states.quick_figure, states.quick),
            (states.slow_figure, states.slow),
        )
    )
    text = f"{states.condition}: these runs come from two states, of {quick} and {slow}"
    return f"{text}; more blocks of each are needed"


def _odd(block: OddBlock, run: Run, trips: Gates, runs: int, unit: str) -> str:
    gates = [f"{gate} on {role}" for role, names in trips.items() for gate in names]
    clock = f", at {run.started[11:16]}" if len(run.started) > 16 else ""
    saw = f"; its gates saw {', '.join(gates)}" if gates else "; no gate saw why"
    return (
        f"{block.condition}: block {block.block} lies apart, with a median of "
        f"{figure(block.figure)} {shown(unit)} where the others have {figure(block.usual)}; it was "
        f"run {run.order} of {runs}{clock}{saw}; nothing was dropped"
    )


# Each run beside the median of its condition, in the order of time.
def _changes(medians: Medians, runs: Sequence[Run]) -> list[str]:
    middles = {name: float(np.median([*blocks.values()])) for name, blocks in medians.items()}
    # What is nothing in most blocks is no measure of the others.
    usual = {name: middle for name, middle in middles.items() if middle > 0}
    in_order = sorted((run for run in runs if run.condition in usual), key=lambda run: run.order)
    in_order = [run for run in in_order if medians[run.condition][run.block] > 0]
    if len(in_order) < FEWEST_RUNS:
        return []
    over_usual = (medians[run.condition][run.block] / usual[run.condition] for run in in_order)
    texts = []
    for point in change_points([math.log(ratio) for ratio in over_usual], RISK):
        run, by = in_order[point.at], point.after - point.before
        way = f"{'slower' if by > 0 else 'quicker'} by about {100 * math.expm1(abs(by)):.2g} %"
        begin = f"from run {run.order} on ({run.condition}, block {run.block})"
        texts.append(f"{begin} all conditions were {way}: something changed in the lab")
    return texts
