"""Many samples are counted in bins: values are hardly off, and intervals those of the samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from labkit.statistics import pooled
from labkit.statistics.estimate import ratio
from labkit.statistics.percentiles import interval, tail_note
from labkit.statistics.pooled import MOST_KEPT, Pooled, percentile

positive = st.just(0.0) | st.floats(1e-100, 1e100)
lots = arrays(np.float64, st.integers(1, 300), elements=positive)


@pytest.mark.slow
@settings(max_examples=100)
@given(lots, lots, st.floats(0.1, 99.9))
def test_a_percentile_in_bins_is_off_by_less_than_one_in_ten_thousand(a, b, q):
    found, whole = Pooled(*pooled._in_bins([a, b]), True), np.concatenate([a, b])
    assert found.size == whole.size
    assert found.percentile(q) == pytest.approx(percentile(whole, q), rel=6.2e-5, abs=0)
    assert (found.percentile(0), found.percentile(100)) == (whole.min(), whole.max())
    assert found.each(q) == pytest.approx([percentile(x, q) for x in (a, b)], rel=1.3e-4, abs=0)


def test_zeros_tiny_and_huge_values_are_counted_side_by_side():
    values = np.array([0.0, -0.0, 5e-324, 1e-300, 1.0, 1e300])
    levels, below = pooled._in_bins([values, values[2:]])
    assert below[:, -1].tolist() == [6, 4] and (levels[0], levels[-1]) == (0, 1e300)
    assert (np.diff(levels) > 0).all()


def blocks(seed, count=5, samples=3000):
    rng = np.random.default_rng(seed)
    return {k: np.exp(0.05 * rng.standard_normal()) * rng.lognormal(4, 0.3, samples)
            for k in range(count)}  # fmt: skip


@pytest.mark.parametrize("q", [50, 99, 99.9])
def test_intervals_of_counted_blocks_are_those_of_their_samples(q, monkeypatch):
    a, b = blocks(1), blocks(2)
    kept = [interval(a, q), ratio(a, b, q)]
    monkeypatch.setattr(pooled, "MOST_KEPT", 0)
    for exact, counted in zip(kept, [interval(a, q), ratio(a, b, q)], strict=True):
        assert exact != counted and counted.value == pytest.approx(exact.value, rel=1.3e-4)
        assert (counted.low, counted.high) == pytest.approx((exact.low, exact.high), rel=2e-3)
        assert counted.enough == exact.enough


def test_more_samples_than_are_kept_one_by_one_are_counted():
    many = blocks(3, samples=MOST_KEPT // 4)
    found, few = Pooled.of(many), Pooled.of({k: v[:1000] for k, v in many.items()})
    assert found.levels.size < 50_000 < found.size
    assert few.levels.size == few.size == 5000
    far = percentile(np.concatenate(list(many.values())), 99.99)
    assert found.percentile(99.99) == pytest.approx(far, rel=6.2e-5)


def test_many_samples_of_which_some_are_below_zero_are_kept():
    values = np.random.default_rng(5).standard_normal((3, MOST_KEPT))
    assert Pooled.of(dict(enumerate(values))).percentile(50) == percentile(values, 50)


def test_one_run_of_many_samples_has_an_interval_but_not_enough_blocks():
    found = interval({0: np.random.default_rng(4).lognormal(4, 0.3, 1_000_000)}, 99.99)
    assert found.low < found.value < found.high < 1.1 * found.low and not found.enough


def test_the_tail_says_how_many_samples_it_lacks():
    assert tail_note(99.99, 20_000) == (
        "p99.99 of 20000 samples has 2 beyond it; 10 beyond it, "
        "or 100000 samples in all, are needed"
    )
    assert tail_note(99.9, 10_000) == tail_note(50, 20) == ""
