"""The cost of repeated looks at growing results: the levels at which each look may decide.

The risk is spent as blocks come in (Lan and DeMets, Biometrika 70, 1983). The first look spends
`FIRST` of it; the rest goes as `1 - (first / blocks) ** SLOWLY`, so that it lasts for any number of
looks, at whatever blocks. The level of a look is the p value that spends no more than its part. It
is computed for a sum that grows by independent blocks (Armitage, McPherson and Rowe, 1969).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from labkit.errors import BadInput
from labkit.statistics.pooled import Values

RISK = 0.05
"""The risk of being wrong, shared by everything that is looked at together."""
FIRST, SAME_FIRST, SLOWLY = 0.6, 0.3, 0.5
"""The part of the risk that the first look spends (of sameness less, as few blocks never show it),
and how fast the rest goes.

Most studies look once, so the first look gets most. A smaller part saves studies that stop by
themselves 2 % of their blocks. It costs one look at 5 blocks a third of what it finds
(notebooks/docs/proof/looks.md)."""
MOST_LOOKS = 1000
POINTS = 48
"""Points of the sum at each look, between its bounds; more of them if a step is small."""
FARTHEST = 9.0
RISKS = (1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.9)
"""The risks at which p values are held against levels; between them it is interpolated."""


@dataclass(frozen=True)
class History:
    """The looks at one comparison: its blocks at each, and the boundary that it crossed.

    A boundary that was crossed stays crossed, as the risk of that look was paid for it.
    """

    looks: tuple[int, ...] = ()
    crossed: str = ""
    at: int = 0
    """The blocks when it crossed."""
    counted: float = 1.0
    """The p value as it counted then."""

    def with_look(self, blocks: int) -> tuple[int, ...]:
        """The looks with one at this number of blocks; none if they have not become more."""
        return (*self.looks, blocks) if blocks > max(self.looks, default=0) else self.looks


def holm(p: Sequence[float]) -> list[float]:
    """Each p value as it counts when all are looked at (Holm's step-down), in the same order."""
    risks, largest = [0.0] * len(p), 0.0
    for rank, at in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[at]))
        risks[at] = largest
    return risks


def spent(risk: float, first: float, blocks: float, share: float = FIRST) -> float:
    """The part of a risk spent by a look at this number of blocks."""
    return risk * (1.0 - (1.0 - share) * math.pow(first / blocks, SLOWLY))


def levels(looks: Sequence[int], risk: float = RISK, share: float = FIRST) -> list[float]:
    """The level of each look that keeps the risk of all looks together.

    Looks that cannot have been are refused: each is at more blocks than the one before.
    """
    if not looks or looks[0] < 1 or any(b <= a for a, b in pairwise(looks)):
        text = ", ".join(map(str, looks)) or "none"
        raise BadInput(f"looks are at 1 block or more, each at more than the last, not at {text}")
    if len(looks) > MOST_LOOKS:
        raise BadInput(f"{len(looks)} looks are too many; at most {MOST_LOOKS} are counted")
    return list(_after(tuple(looks), risk, share)[0])


def counted(p: float, looks: Sequence[int], share: float = FIRST) -> float:
    """A p value as it counts at the last of these looks: the least risk that it would clear."""
    values = _last_levels(tuple(looks), share)
    if p <= values[0]:
        return p * RISKS[0] / float(values[0])
    at = float(np.interp(math.log(p), np.log(values), np.log(RISKS), right=0.0))
    return min(1.0, math.exp(at))


@lru_cache(256)
def _last_levels(looks: tuple[int, ...], share: float) -> Values:
    return np.array([levels(looks, risk, share)[-1] for risk in RISKS])


# The levels of these looks, and the chance of each sum that has not crossed at any of them.
@lru_cache(4096)
def _after(
    looks: tuple[int, ...], risk: float, share: float
) -> tuple[tuple[float, ...], Values, Values]:
    from scipy.special import ndtr, ndtri

    first, last = looks[0], looks[-1]
    if len(looks) == 1:
        level = spent(risk, first, first, share)
        limit = min(-float(ndtri(level / 2)), FARTHEST)
        root = math.sqrt(first)
        return (level,), *_move(np.zeros(1), np.ones(1), root, limit * root)
    before = looks[-2]
    levels, at, mass = _after(looks[:-1], risk, share)
    part = spent(risk, first, last, share) - spent(risk, first, before, share)
    limit = _spending(at, mass, math.sqrt(last - before), math.sqrt(last), part)
    to = _move(at, mass, math.sqrt(last - before), limit * math.sqrt(last))
    return (*levels, 2 * float(ndtr(-limit))), *to


_nodes = lru_cache(64)(np.polynomial.legendre.leggauss)


# The sum of the blocks so far, where it has not crossed: points, and the chance at each.
def _move(at: Values, mass: Values, step: float, edge: float) -> tuple[Values, Values]:
    nodes, weights = _nodes(POINTS * math.ceil(max(edge / step / 12, 1)))
    to = nodes * edge
    away = (to[:, None] - at[None, :]) / step
    density = np.exp(-0.5 * away**2) @ mass / (step * math.sqrt(2 * math.pi))
    return to, density * weights * edge


# The bound, in deviations of the sum, that is crossed for the first time with this chance.
def _spending(at: Values, mass: Values, step: float, scale: float, part: float) -> float:
    from scipy.special import ndtr

    low, high = 0.0, FARTHEST
    for _ in range(50):
        limit = (low + high) / 2
        share = ndtr((at - limit * scale) / step) + ndtr((-at - limit * scale) / step)
        low, high = (limit, high) if float(share @ mass) > part else (low, limit)
    return high
