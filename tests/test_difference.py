import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import BadInput
from labkit.statistics.percentiles import percentile
from labkit.statistics.rank_tests import (
    bootstrap_difference,
    bootstrap_ratio,
    cliffs_delta,
    expanded,
    rank_test,
    ranks,
)

observations = st.lists(st.integers(0, 20), min_size=2, max_size=30)


def blocks(seed, factor=1.0, count=6, samples=400, between=0.05):
    rng = np.random.default_rng(seed)
    return {k: factor * np.exp(between * rng.standard_normal()) * rng.lognormal(4, 0.3, samples)
            for k in range(count)}  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(observations, observations)
def test_the_rank_test_is_scipys_and_delta_counts_pairs(a, b):
    found = rank_test(a, b)
    pairs = [(x > y) - (x < y) for x in a for y in b]
    assert found.delta == pytest.approx(np.mean(pairs)) == pytest.approx(cliffs_delta(a, b))
    reference = scipy.stats.mannwhitneyu(a, b)
    assert found.u == reference.statistic
    assert found.p == pytest.approx(reference.pvalue if len({*a, *b}) > 1 else 1)


def test_the_rank_test_of_few_is_exact():
    # All of five above all of five: 2 of the 252 orders are as extreme.
    assert rank_test([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]).p == pytest.approx(2 / 252)
    assert rank_test([1.0], [1.0]).p == rank_test([3.0], [1.0]).p == 1


@pytest.mark.parametrize(
    ("shift", "word"), [(0, "negligible"), (0.3, "small"), (0.65, "medium"), (2, "large")]
)
def test_the_effect_has_a_name(shift, word):
    grid = scipy.stats.norm.ppf((np.arange(400) + 0.5) / 400)
    assert rank_test(grid + shift, grid).size == word
    # Known for two normals of the same width.
    expected = 2 * scipy.stats.norm.cdf(shift / np.sqrt(2)) - 1
    assert cliffs_delta(grid + shift, grid) == pytest.approx(expected, abs=0.01)


def test_blocks_are_ranked_and_not_their_samples():
    a, b = blocks(1), blocks(2)
    medians = [[percentile(v, 50) for v in side.values()] for side in (a, b)]
    assert ranks(a, b).p == pytest.approx(scipy.stats.mannwhitneyu(*medians).pvalue)
    # 2,400 samples of each would call these equal conditions different.
    alone = scipy.stats.mannwhitneyu(*(np.concatenate(list(x.values())) for x in (a, b)))
    assert alone.pvalue < 0.05 < ranks(a, b).p


@pytest.mark.parametrize("q", [50, 99])
@pytest.mark.parametrize("kind", ["ratio", "difference"])
def test_the_bootstrap_of_paired_blocks_is_scipys(kind, q):
    a, b = blocks(3, 1.2), blocks(4)
    ours, join = {"ratio": (bootstrap_ratio, np.divide),
                  "difference": (bootstrap_difference, np.subtract)}[kind]  # fmt: skip
    found = ours(a, b, q)

    def statistic(chosen):
        sides = [np.concatenate([side[k] for k in chosen.astype(int)]) for side in (a, b)]
        return join(*(percentile(side, q) for side in sides))

    reference = scipy.stats.bootstrap(
        (np.arange(6),), statistic, confidence_level=1 - 2 * expanded(6), method="percentile",
        n_resamples=2000, vectorized=False, rng=np.random.default_rng(5),
    )  # fmt: skip
    width = found.high - found.low
    assert found.value == pytest.approx(statistic(np.arange(6)))
    assert found.low == pytest.approx(reference.confidence_interval.low, abs=0.1 * width)
    assert found.high == pytest.approx(reference.confidence_interval.high, abs=0.1 * width)


def test_few_blocks_leave_out_less_so_that_the_interval_is_as_wide_as_students():
    assert expanded(1000) == pytest.approx(0.025, abs=0.001)
    rng = np.random.default_rng(6)
    values = rng.standard_normal(8)
    found = scipy.stats.bootstrap((values,), np.mean, confidence_level=1 - 2 * expanded(8),
                                  method="percentile", rng=rng)  # fmt: skip
    student = scipy.stats.ttest_1samp(values, 0).confidence_interval()
    width = found.confidence_interval.high - found.confidence_interval.low
    assert width == pytest.approx(student.high - student.low, rel=0.1)


def test_what_slows_both_conditions_of_a_block_cancels_in_the_bootstrap_too():
    rng = np.random.default_rng(7)
    luck = np.exp(0.3 * rng.standard_normal(6))
    a = {k: luck[k] * rng.lognormal(4, 0.2, 400) for k in range(6)}
    b = {k: 1.1 * luck[k] * rng.lognormal(4, 0.2, 400) for k in range(6)}
    assert bootstrap_ratio(a, b, 50).high < 1
    strangers = {k + 10: v for k, v in b.items()}
    assert bootstrap_ratio(a, strangers, 50).high > 1


def test_two_blocks_are_not_enough_and_zeros_have_no_ratio():
    few = {k: v for k, v in blocks(8).items() if k < 2}
    assert (
        not bootstrap_ratio(few, few, 50).enough
        and bootstrap_ratio(blocks(8), blocks(9), 50).enough
    )
    zero = {k: v * 0 for k, v in blocks(8).items()}
    with pytest.raises(BadInput, match="above 0"):
        bootstrap_ratio(zero, blocks(9), 50)
    assert bootstrap_difference(zero, zero, 50).value == 0


@pytest.mark.slow
def test_the_rank_test_calls_equal_conditions_different_in_at_most_5_of_100_studies():
    found = [ranks(blocks(n, samples=50), blocks(1000 + n, samples=50)).p for n in range(400)]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)
