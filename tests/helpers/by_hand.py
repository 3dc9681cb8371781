"""Two ways to one figure are no further apart than each of them is from itself."""

from itertools import combinations

import numpy as np

BLOCKS = 6
SMALL = 1.1
"""What is too small to matter to any verdict, however clear it is."""


def turn_about(ours, by_hand, blocks=BLOCKS):
    """Medians of each, measured alternately, the first one changing."""
    found = {ours: [], by_hand: []}
    for block in range(blocks):
        for way in (ours, by_hand) if block % 2 else (by_hand, ours):
            found[way].append(float(way()))
    return np.log(found[ours]), np.log(found[by_hand])


def floor(values):
    """How far one half of these is from the other at most, however they are divided."""
    halves = (list(one) for one in combinations(range(len(values)), len(values) // 2))
    return max(abs(np.median(values[h]) - np.median(np.delete(values, h))) for h in halves)


def insist_same(ours, hand):
    """The two ways are no further apart than each of them is from itself."""
    apart = abs(np.median(ours) - np.median(hand))
    noise = max(floor(ours), floor(hand))
    assert apart <= max(noise, np.log(SMALL)), (
        f"{np.exp(apart):.2f} apart; each from itself {np.exp(noise):.2f}: {ours} {hand}"
    )
