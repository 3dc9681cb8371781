"""The smallest difference that a number of blocks would find, before any is made.

Student's t test of paired blocks, at the level that a first look spends: the noncentral t
distribution says how large a difference must be for 80 of 100 studies to find it.
"""

import math

from labkit.errors import BadInput
from labkit.statistics.interval import Interval
from labkit.statistics.spending import FIRST, RISK

POWER, SURE = 0.8, 0.8


def at_most(scatter: float, blocks: int) -> float:
    """Limit of 80 % above the scatter that this number of blocks showed."""
    from scipy.special import chdtri

    return scatter * math.sqrt((blocks - 1) / float(chdtri(blocks - 1, SURE)))


def per_block(interval: Interval, blocks: int) -> float:
    """The scatter of the logarithms of single blocks, given the interval of all."""
    from scipy.special import stdtrit

    half = (math.log(interval.high) - math.log(interval.low)) / 2
    return half / float(stdtrit(blocks - 1, 0.975)) * math.sqrt(blocks)


def smallest(scatter: float, blocks: int, among: int = 1) -> float:
    """The difference, as a share, that 80 of 100 studies of this length find.

    `scatter` is how far the logarithms of single blocks differ; `among` comparisons share the risk.
    """
    from scipy.special import nctdtrinc, stdtrit

    if blocks < 2 or among < 1:
        raise BadInput(f"a difference shows from 2 blocks on, not from {blocks}")
    limit = stdtrit(blocks - 1, 1 - FIRST * RISK / among / 2)
    # Standard errors that the truth must be away for 80 of 100 to come out beyond the limit.
    away = float(nctdtrinc(blocks - 1, 1 - POWER, limit))
    return math.expm1(min(away * scatter / math.sqrt(blocks), 700.0))
