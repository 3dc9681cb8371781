"""Two ways to one figure give the same, also on a machine that has other work to do."""

import contextlib
import math
import os

import numpy as np
import pytest


@contextlib.contextmanager
def undisturbed():
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def best_of_both(one, other, agreed, least=2, most=10):
    """The best figure of each, taken in turn: more rounds are for a machine that is busy."""
    best, beside = 0.0, 0.0
    with undisturbed():
        for done in range(1, most + 1):
            best, beside = max(best, one()), max(beside, other())
            if done >= least and agreed(best / beside):
                break
    return best / beside


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
