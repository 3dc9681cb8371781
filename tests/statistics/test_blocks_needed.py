"""How many more blocks: to tell a difference, to measure a percentile."""

import re

import numpy as np
import pytest

from labkit.claim import Bound, Order, judge
from labkit.statistics.percentiles import samples_needed


def test_a_tail_without_samples_says_how_many_blocks_of_this_size_it_needs():
    blocks = {k: np.random.default_rng(k).lognormal(3, 0.3, 3000) for k in range(5)}
    assert samples_needed(blocks, 99.99) == 29  # 100,000 samples are 34 blocks
    assert samples_needed(blocks, 99.9) == 0
    assert samples_needed({0: blocks[0]}, 50) == 2


def pair(rng, effect, own, blocks=120):
    """Two conditions whose blocks share a luck of 5 % and have each a luck of their own."""
    luck = 0.05 * rng.standard_normal(blocks)
    return [
        {k: by * np.exp(luck[k] + own * rng.standard_normal()) * rng.lognormal(4, 0.05, 20)
         for k in range(blocks)}
        for by in (1.0, effect)
    ]  # fmt: skip


def first(sides, count):
    return [{k: side[k] for k in range(count)} for side in sides]


def by_ratio():
    return Order("o", "s", "f", (50,), ("a", "b"))


def by_difference():
    return Bound("o", "s", "f", what=("'a' - 'b'",), high=0)


def verdict_on(sides, judged, looks=()):
    """With no margin to speak of, so that a difference is what blocks are for."""
    return judge([judged()], dict(zip("ab", sides, strict=True)), looks=looks, margin=1e-6)[0]


def told(sides, judged):
    """How many more blocks a verdict advises; 201 for more than 200."""
    verdict = verdict_on(sides, judged)
    advised = re.search(r"(about|more than) (\d+) more block", verdict.why)
    return int(advised[2]) + (advised[1] != "about")


def unclear(sides, judged, looks=()):
    return verdict_on(sides, judged, looks).verdict == "undecided"


def needed(sides, have, judged):
    """How many more blocks it took to be clear at a second look; 120 in all at most."""
    for count in range(have + 1, len(sides[0])):
        if not unclear(first(sides, count), judged, (have, count)):
            return count - have
    return len(sides[0]) - have


def advice(have, effect, own, judged, many):
    """What was advised, and what it took, in so many studies that were undecided."""
    rng, advised, took = np.random.default_rng(18), [], []
    while len(took) < many:
        sides = pair(rng, effect, own)
        if unclear(first(sides, have), judged):
            advised.append(told(first(sides, have), judged))
            took.append(needed(sides, have, judged))
    return np.array(advised), np.array(took)


@pytest.mark.torture
@pytest.mark.parametrize("judged", [by_ratio, by_difference])
@pytest.mark.parametrize("have", [4, 6])
@pytest.mark.parametrize(("effect", "own"), [(1.05, 0.04), (1.05, 0.06), (1.03, 0.05)])
def test_the_advice_is_within_a_factor_of_two_in_the_median(have, effect, own, judged):
    advised, took = advice(have, effect, own, judged, 200)
    near = np.mean((advised >= took / 2) & (advised <= 2 * took))
    print(judged.__name__, f"{have} blocks, {effect}, {own}: advised {np.median(advised):g}, took "
          f"{np.median(took):g}, {100 * near:.0f} % of studies within a factor of 2")  # fmt: skip
    assert 0.5 <= np.median(advised) / np.median(took) <= 2
