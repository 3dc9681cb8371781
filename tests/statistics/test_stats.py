"""Percentiles, their intervals and ratios: what they are, and what must change nothing."""

import time

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from measurable import measurable

from labkit.claim import Order, judge
from labkit.errors import BadInput
from labkit.statistics import pooled
from labkit.statistics.comparison import Comparison, Found
from labkit.statistics.estimate import estimated, ratio
from labkit.statistics.percentiles import Estimate, beyond, interval, samples_needed, tail_note
from labkit.statistics.pooled import MOST_KEPT, Pooled, percentile, reach
from labkit.statistics.quantity import Quantity
from labkit.statistics.spending import holm

# --- values ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    arrays(np.float64, st.integers(1, 200), elements=measurable(1e6)),
    st.integers(1, 99),
)
def test_a_percentile_is_numpys_nearest_rank(values, q):
    # numpy rounds q * n in binary: ask it only where that is exact.
    if (q * values.size) % 100:
        assert percentile(values, q) == np.percentile(values, q, method="inverted_cdf")


def test_the_999th_of_1000_is_p99_9_although_binary_says_999_and_a_bit():
    values = np.arange(1.0, 1001)
    assert percentile(values, 99.9) == 999
    assert percentile(values, 50) == 500
    assert percentile([7.0], 99.99) == 7
    assert beyond(99.9, 10_000) == 10
    assert beyond(10, 1000) == 99


blocks_of_values = st.lists(
    arrays(np.float64, st.integers(20, 60), elements=st.floats(1, 1000)), min_size=3, max_size=6
)


@pytest.mark.slow
@settings(max_examples=60)
@given(blocks_of_values, blocks_of_values, st.sampled_from([0.001, 0.5, 7.0, 1000.0]),
       st.sampled_from([50, 90, 99]), st.randoms(use_true_random=False))  # fmt: skip
def test_order_and_units_change_nothing_and_a_ratio_may_be_turned_over(
    first, second, factor, q, random
):
    mixed = [np.array(random.sample(list(v), len(v))) for v in first]
    plain, other = dict(enumerate(first)), dict(enumerate(second))
    back = dict(reversed(list(enumerate(mixed))))
    scaled = {k: factor * v for k, v in plain.items()}
    i = interval(plain, q)
    for same, by in ((interval(back, q), 1), (interval(scaled, q), factor)):
        found = (same.value, same.low, same.high)
        assert found == pytest.approx((by * i.value, by * i.low, by * i.high), rel=1e-6)
    assert ratio(plain, scaled, q).value == pytest.approx(1 / factor)
    there, turned = ratio(plain, other, 50), ratio(other, plain, 50)
    assert (there.value, there.low, there.high) == pytest.approx(
        (1 / turned.value, 1 / turned.high, 1 / turned.low)
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(blocks_of_values, st.floats(1, 99), st.floats(1, 99))
def test_a_higher_percentile_is_never_lower_and_lies_inside_its_interval(values, p, q):
    blocks = dict(enumerate(values))
    lower, higher = interval(blocks, min(p, q)), interval(blocks, max(p, q))
    assert lower.value <= higher.value * (1 + 1e-12)
    for i in (lower, higher):
        assert i.low <= i.value * (1 + 1e-12) and i.value <= i.high * (1 + 1e-12)


def test_samples_may_be_plain_lists_and_are_pooled_never_averaged():
    blocks = {k: [1.0 + k, 2, 3, 4] * 10 for k in range(4)}
    assert interval(blocks, 50) == interval({k: np.array(v) for k, v in blocks.items()}, 50)
    assert samples_needed(blocks, 99) == 21
    blocks = {0: np.full(100, 10.0), 1: np.full(100, 10.0), 2: np.full(300, 40.0)}
    assert interval(blocks, 50).value == 40


# --- what is compared with what ----------------------------------------------------------------


def test_what_slows_both_conditions_in_a_block_cancels():
    rng = np.random.default_rng(5)
    slow = np.exp(0.2 * rng.standard_normal(5))
    a = {k: slow[k] * rng.lognormal(3, 0.2, 2000) for k in range(5)}
    b = {k: 1.1 * slow[k] * rng.lognormal(3, 0.2, 2000) for k in range(5)}
    assert ratio(a, b, 50).high < 1
    strangers = {k + 100: v for k, v in b.items()}
    unpaired = ratio(a, strangers, 50)
    assert unpaired.low < 0.8 and unpaired.high > 1


def test_blocks_that_only_one_condition_has_are_left_out_of_the_pairs():
    rng = np.random.default_rng(6)
    a = {k: rng.lognormal(3, 0.2, 500) for k in range(4)}
    b = {k: rng.lognormal(3, 0.2, 500) for k in range(4)}
    assert ratio({**a, 9: 1000 * a[0]}, {**b, 7: b[0]}, 50) == ratio(a, b, 50)


def test_fewer_than_three_blocks_or_ten_samples_beyond_are_not_enough():
    rng = np.random.default_rng(7)
    blocks = {k: rng.lognormal(3, 0.2, 3000) for k in range(5)}
    assert [interval(blocks, q).enough for q in (50, 99, 99.9, 99.99)] == [True, True, True, False]
    two = {k: blocks[k] for k in (0, 1)}
    assert not interval(two, 50).enough
    assert not ratio(two, blocks, 50).enough
    alone = interval({0: blocks[0]}, 50)
    assert not alone.enough and alone.low < alone.value < alone.high
    assert interval({0: np.array([3.0])}, 50).value == 3


def test_ties_of_a_coarse_clock_are_not_mistaken_for_certainty():
    coarse, finer = {k: np.full(500, 50.0) for k in range(5)}, {}
    for k in range(5):
        finer[k] = np.full(500, 51.0)
        finer[k][0] = coarse[k][0] = 52.0
    exact = ratio(coarse, finer, 50)
    assert exact.low < 1 < exact.high


def halted(rng, places):
    """Runs of pings by their p90 in us, of which five in a thousand wait for 10 ms."""
    found = {k: 0.73 * at * rng.lognormal(0, 0.25, 2500) for k, at in enumerate(places)}
    for values in found.values():
        values[:12] = 10_500
    return found


def test_runs_that_differ_by_a_factor_of_two_do_not_reach_to_their_slowest_sample():
    rng = np.random.default_rng(21)
    a, b = halted(rng, (97, 59, 102, 109, 130)), halted(rng, (71, 83, 81, 97, 122))
    for blocks, slowest in ((a, 130), (b, 122)):
        assert interval(blocks, 90).high < 4 * slowest
        below = interval({k: 1e6 / v for k, v in blocks.items()}, 10)
        assert below.low > 1e6 / (4 * slowest)
    found = ratio(a, b, 90)
    assert 0.5 < found.low < 1 < found.high < 2
    apart = estimated(Quantity("'a' - 'b'", 90), {"a": a, "b": b}).interval()
    assert -200 < apart.low < 0 < apart.high < 200


def test_runs_with_fewer_than_ten_samples_beyond_a_percentile_do_not_tell_how_far_it_may_lie():
    blocks = halted(np.random.default_rng(22), (97, 130, 175))
    few = {k: np.concatenate([v[:1], v[-79:]]) for k, v in blocks.items()}
    many = {k: np.concatenate([v[:1], v[-119:]]) for k, v in blocks.items()}
    assert interval(many, 90).high < 10_000 <= interval(few, 90).high


@pytest.mark.parametrize("blocks", [3, 5, 20])
def test_the_reach_of_runs_is_a_prediction_limit_and_away_from_the_median_a_tolerance_limit(blocks):
    t = scipy.stats.t.ppf(0.975, blocks - 1)
    assert reach(50, blocks) == pytest.approx(2 * [t * np.sqrt(1 + 1 / blocks)])
    down, up = reach(99, blocks)
    assert reach(1, blocks) == pytest.approx((up, down)) and down == reach(50, blocks)[0]
    # Of normal runs 97.5 of 100 times the slowest hundredth of all lies below.
    off = scipy.stats.norm.ppf(0.99) * np.sqrt(blocks)
    tolerance = scipy.stats.nct.ppf(0.975, blocks - 1, off) / np.sqrt(blocks)
    assert up == pytest.approx(tolerance, rel=1e-6)
    assert reach(99, blocks, 0.5 * t) == (down, up)
    assert reach(99, blocks, 1.5 * t) == pytest.approx((1.5 * down, 1.5 * up))


# --- deciding ----------------------------------------------------------------------------------


def test_probabilities_are_students():
    e = Estimate(1.1, 0.1, 0.04, 0.05, 4, 5, True)
    assert e.below(1.2) == pytest.approx(scipy.stats.t.sf((np.log(1.2) - 0.1) / 0.05, 4))
    assert e.above(0.9) == pytest.approx(scipy.stats.t.sf((0.1 - np.log(0.9)) / 0.04, 4))
    low, high = 0.1 - 0.04 * scipy.stats.t.ppf(0.975, 4), 0.1 + 0.05 * scipy.stats.t.ppf(0.975, 4)
    assert (e.interval().low, e.interval().high) == pytest.approx((np.exp(low), np.exp(high)))


def test_a_far_tail_of_a_coarse_clock_says_that_it_is_biased_and_a_median_does_not():
    rng = np.random.default_rng(8)
    made = {name: {k: np.maximum(np.round(at * rng.lognormal(0, 0.25, 400)), 1) for k in range(4)}
            for name, at in (("a", 8.0), ("b", 9.6))}  # fmt: skip
    fine = {name: {k: v + rng.random(400) / 10 for k, v in x.items()} for name, x in made.items()}
    for q, sides, biased in ((99, made, True), (50, made, False), (99, fine, False)):
        (verdict,) = judge([Order("o", "s", "f", (q,), ("a", "b"))], sides)
        assert ("biased by its coarse clock" in verdict.why) == biased


@pytest.mark.parametrize("count", [3, 5, 10, 20])
def test_of_one_value_a_run_the_p_value_is_students_whatever_the_smallest_gap(count):
    """Gaps between a few figures are no clock's steps; an interval holds the ratio shown too."""
    rng, held = np.random.default_rng(8), 0
    for _ in range(50):
        logs = rng.normal(0, 0.05, (2, count)) + rng.normal(0, 0.1, count)
        a, b = np.exp(logs)
        measured = {"a": dict(enumerate(a[:, None])), "b": dict(enumerate(b[:, None]))}
        found = Found.of(Comparison.lower("a", "b").near(None, {}), measured)
        known = scipy.stats.ttest_rel(*logs)
        low, high = known.confidence_interval()
        if low < np.log(found.estimate.value) < high:
            held += 1
            assert found.p == pytest.approx(known.pvalue, rel=1e-6)
        assert found.p >= known.pvalue * (1 - 1e-6)
    assert held > 40


def test_the_interval_excludes_1_exactly_when_the_two_sided_p_value_is_below_5_percent():
    rng = np.random.default_rng(10)
    for shift in (1.0, 1.01, 1.02, 1.03, 1.05):
        a = {k: rng.lognormal(3, 0.3, 500) for k in range(4)}
        b = {k: shift * rng.lognormal(3, 0.3, 500) for k in range(4)}
        e = estimated(Quantity("'a' / 'b'"), {"a": a, "b": b})
        i, p = e.interval(), 2 * min(e.below(1), e.above(1))
        assert (p <= 0.05) == (not i.low <= 1 <= i.high)


def test_holm_is_the_example_of_the_textbook():
    # p of 0.01, 0.04, 0.03, 0.005: times 4, 3, 2, 1 in rising order, never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1, 1]


@pytest.mark.slow
def test_100000_samples_at_5_percentiles_and_4_conditions_take_under_2_seconds():
    rng = np.random.default_rng(13)
    conditions = [{k: rng.lognormal(4, 0.3, 10_000) for k in range(10)} for _ in range(4)]
    interval(conditions[0], 50)
    start = time.process_time()
    for q in (50, 90, 99, 99.9, 99.99):
        for blocks in conditions:
            interval(blocks, q)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("blocks", "q", "said"),
    [
        ({}, 50, "no blocks"),
        ({0: np.array([])}, 50, "no samples"),
        ({0: np.array([1.0, np.nan])}, 50, "not numbers"),
        ({0: np.array([1.0])}, 100, "between 0 and 100"),
        ({0: np.array([1.0])}, 0, "between 0 and 100"),
    ],
)
def test_what_has_no_percentile_is_refused_in_plain_words(blocks, q, said):
    with pytest.raises(BadInput, match=said):
        interval(blocks, q)


def test_values_of_zero_and_below_have_an_interval_but_no_ratio():
    blocks = {k: np.linspace(-1, 1, 100) + 0.01 * k for k in range(4)}
    i = interval(blocks, 50)
    assert i.low < i.value < i.high
    with pytest.raises(BadInput, match="above 0"):
        ratio(blocks, blocks, 50)


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
