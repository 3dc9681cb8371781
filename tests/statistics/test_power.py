"""The smallest difference that so many blocks find, held against simulated studies."""

import numpy as np
import pytest
from scipy.special import stdtr

from labkit.errors import BadInput
from labkit.noise_floor import per_block, smallest
from labkit.statistics.estimate import ratio
from labkit.statistics.spending import levels


@pytest.mark.parametrize("blocks", [3, 5, 10, 30])
def test_a_difference_of_that_size_is_found_in_80_of_100_studies(blocks):
    effect = np.log1p(smallest(0.06, blocks))
    values = effect + 0.06 * np.random.default_rng(blocks).standard_normal((20_000, blocks))
    t = values.mean(1) / (values.std(1, ddof=1) / np.sqrt(blocks))
    found = 2 * stdtr(blocks - 1, -abs(t)) <= levels([blocks])[0]
    assert found.mean() == pytest.approx(0.8, abs=0.012)


def test_more_blocks_find_smaller_ones_and_more_comparisons_only_larger_ones():
    sizes = [smallest(0.06, blocks) for blocks in (3, 5, 10, 100)]
    assert sizes == sorted(sizes, reverse=True)
    assert smallest(0.06, 5, among=9) > smallest(0.06, 5)
    with pytest.raises(BadInput):
        smallest(0.06, 1)


def test_the_scatter_of_blocks_comes_back_from_the_interval_of_their_ratio():
    rng = np.random.default_rng(4)
    found = []
    for _ in range(40):
        sides = [{k: np.exp(rng.normal(0, 0.05)) * rng.lognormal(4, 0.2, 400) for k in range(8)}
                 for _ in range(2)]  # fmt: skip
        found.append(per_block(ratio(*sides, 50), 8))
    assert np.median(found) == pytest.approx(0.05 * np.sqrt(2), rel=0.15)
