"""How many more blocks: to tell a difference, to measure a percentile."""

import numpy as np
import pytest

from labkit.claim import Bound, Order, judge
from labkit.statistics.percentiles import samples_needed
from labkit.verdict import UNDECIDED

BLOCKS = 120
JUDGED = [Order("ratio", "s", "f", (50,), ("a", "b")),
          Bound("difference", "s", "f", what=("'a' - 'b'",), high=0)]  # fmt: skip


def test_a_tail_without_samples_says_how_many_blocks_of_this_size_it_needs():
    blocks = {k: np.random.default_rng(k).lognormal(3, 0.3, 3000) for k in range(5)}
    assert samples_needed(blocks, 99.99) == 29  # 100,000 samples are 34 blocks
    assert samples_needed(blocks, 99.9) == 0
    assert samples_needed({0: blocks[0]}, 50) == 2


def pair(rng, effect, own):
    """Two conditions whose blocks share a luck of 5 % and have each a luck of their own."""
    luck = 0.05 * rng.standard_normal(BLOCKS)
    return {
        name: {k: by * np.exp(luck[k] + own * rng.standard_normal()) * rng.lognormal(4, 0.05, 20)
               for k in range(BLOCKS)}
        for name, by in (("a", 1.0), ("b", effect))
    }  # fmt: skip


def verdict(sides, count, claim, looks=()):
    """Of the first blocks, with no margin to speak of: so a difference is what blocks are for."""
    first = {name: {k: side[k] for k in range(count)} for name, side in sides.items()}
    return judge([claim], first, looks=looks, margin=1e-6)[0]


def needed(sides, have, claim):
    """How many more blocks it took to be clear at a second look; 120 in all at most."""
    clear = (n for n in range(have + 1, BLOCKS)
             if verdict(sides, n, claim, (have, n)).verdict != UNDECIDED)  # fmt: skip
    return next(clear, BLOCKS) - have


@pytest.mark.torture
@pytest.mark.parametrize("claim", JUDGED, ids=lambda claim: claim.id)
@pytest.mark.parametrize("have", [4, 6])
@pytest.mark.parametrize(("effect", "own"), [(1.05, 0.04), (1.05, 0.06), (1.03, 0.05)])
def test_the_advice_is_within_a_factor_of_two_in_the_median(have, effect, own, claim):
    rng, advised, took = np.random.default_rng(18), [], []
    while len(took) < 200:
        sides = pair(rng, effect, own)
        if (found := verdict(sides, have, claim)).verdict == UNDECIDED:
            advised.append(found.more)
            took.append(needed(sides, have, claim))
    near = np.mean([took_of / 2 <= more <= 2 * took_of
                    for more, took_of in zip(advised, took, strict=True)])  # fmt: skip
    print(f"{claim.id}, {have} blocks, {effect}, {own}: advised {np.median(advised):g}, took "
          f"{np.median(took):g}, {100 * near:.0f} % of studies within a factor of 2")  # fmt: skip
    assert 0.5 <= np.median(advised) / np.median(took) <= 2


def test_an_undecided_verdict_advises_a_number_of_blocks_and_says_it():
    found = verdict(pair(np.random.default_rng(19), 1.03, 0.05), 4, JUDGED[0])
    assert found.more > 1 and f"about {found.more} more blocks" in found.why
