"""Two ways to one figure give the same, also on a machine that has other work to do."""

import math

import numpy as np
import pytest
from undisturbed import undisturbed

LOOKS = (6, 10, 15)
"""Pairs after which the two are looked at: on a quiet machine the first look is enough."""
SMALL = math.log(1.1)
"""What is too small to matter to any verdict, however clear it is."""
CLEAR = 0.001
"""How seldom two equal ways would be told apart."""


def pair(ours, by_hand, number):
    """How much more ours gives than the hand does, measured next to each other, in turn first."""
    with undisturbed():
        found = {way: math.log(float(way())) for way in ((ours, by_hand)[:: 1 - 2 * (number % 2)])}
    return found[ours] - found[by_hand]


def by_chance(apart):
    """How often equal ways would differ in the same direction in so many pairs."""
    more = sum(one > 0 for one in apart)
    rarer = min(more, len(apart) - more)
    return min(1.0, 2 * sum(math.comb(len(apart), k) for k in range(rarer + 1)) / 2 ** len(apart))


def insist_same(ours, by_hand):
    """The two give the same, or no more than chance lies between them.

    Other work on the machine comes and goes between pairs, seldom within one. Where even the last
    look cannot tell, the test is skipped, and says that the machine is too busy.
    """
    apart = []
    for look in LOOKS:
        apart += [pair(ours, by_hand, number) for number in range(len(apart), look)]
        if abs(np.median(apart)) <= SMALL:
            return
    often = f"{np.exp(np.median(apart)):.2f} times apart, and by chance in {by_chance(apart):.2%}"
    assert by_chance(apart) > CLEAR, f"{often}: {np.exp(apart).round(2)}"
    pytest.skip(f"this machine is too busy to tell two ways apart: {often}")
