"""Blocks that lie apart from the others of their condition, and conditions of two states.

An odd block has a figure a quarter or more away from the median of its condition. That is also more
than five times the usual distance, over all conditions together. Two states are two groups of
blocks, both of two or more, with a gap that is twice as wide as each. Nothing is dropped.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

APART, TIMES = math.log(1.25), 5.0
SCALE = 1.4826
"""The deviation of normal values over the median of how far they are away."""
GAP, WIDER = math.log(1.5), 2.0
FEWEST = 4
"""Of fewer blocks nobody can say which is the odd one."""
FEWEST_OF_TWO = 5
"""Of four blocks two and two lie apart too often by chance."""


@dataclass(frozen=True)
class OddBlock:
    """A block whose figure lies apart from `usual`, the median of its condition."""

    condition: str
    block: int
    figure: float
    usual: float


@dataclass(frozen=True)
class TwoStates:
    """A condition whose blocks come from two states, and the blocks of both."""

    condition: str
    quick: tuple[int, ...]
    slow: tuple[int, ...]
    quick_figure: float
    slow_figure: float


def two_states(medians: Mapping[str, Mapping[int, float]]) -> list[TwoStates]:
    """The conditions whose figures fall into two groups."""
    states = [_two_groups(name, blocks) for name, blocks in medians.items()]
    return [state for state in states if state]


def odd_blocks(medians: Mapping[str, Mapping[int, float]]) -> list[OddBlock]:
    """The blocks that lie apart, of condition -> block -> figure."""
    away = {name: _away(blocks) for name, blocks in medians.items() if len(blocks) >= FEWEST}
    bimodal = {two_state.condition for two_state in two_states(medians)}
    distances_all = [x for distances in away.values() for x in distances.values()]
    usual = _spread(distances_all) if distances_all else 0.0
    return [
        OddBlock(name, block, medians[name][block], float(np.median([*medians[name].values()])))
        for name, distances in away.items() if name not in bimodal
        for block, x in distances.items()
        if abs(x) > max(APART, TIMES * max(usual, _spread(distances.values())))
    ]  # fmt: skip


def _spread(distances: Iterable[float]) -> float:
    return SCALE * float(np.median(np.abs([*distances])))


def _away(blocks: Mapping[int, float]) -> dict[int, float]:
    if min(blocks.values()) <= 0:
        return {}
    middle = math.log(float(np.median([*blocks.values()])))
    return {block: math.log(figure) - middle for block, figure in blocks.items()}


def _two_groups(name: str, blocks: Mapping[int, float]) -> TwoStates | None:
    if len(blocks) < FEWEST_OF_TWO or min(blocks.values()) <= 0:
        return None
    order = sorted(blocks, key=blocks.__getitem__)
    logs = [math.log(blocks[block]) for block in order]
    gaps = [b - a for a, b in pairwise(logs)]
    at = max(range(len(gaps)), key=gaps.__getitem__) + 1
    quick, slow = tuple(sorted(order[:at])), tuple(sorted(order[at:]))
    widest = max(logs[at - 1] - logs[0], logs[-1] - logs[at])
    if min(len(quick), len(slow)) < 2 or gaps[at - 1] < max(GAP, WIDER * widest):
        return None
    figures = (float(np.median([blocks[b] for b in group])) for group in (quick, slow))
    return TwoStates(name, quick, slow, *figures)
