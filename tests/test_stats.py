import time

import numpy as np
import pytest
import scipy.signal
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from labkit.errors import BadInput
from labkit.pooled import Pooled
from labkit.stats import (
    MOST_BLOCKS,
    Estimate,
    _paired,
    beyond,
    blocks_needed,
    blocks_to_width,
    enough,
    estimate,
    holm,
    interval,
    percentile,
    ratio,
    ratio_estimate,
    samples_needed,
    width,
)

# --- three kinds of latency, alike within a run and varying from run to run -------------------


def alike(rng, shape, phi):
    """Standard normal values, each related to the one before."""
    noise = rng.standard_normal(shape) * np.sqrt(1 - phi**2)
    noise[..., 0] /= np.sqrt(1 - phi**2)
    return scipy.signal.lfilter([1], [1, -phi], noise, axis=-1)


def lognormal(rng, shape, between):
    return np.exp(0.25 * alike(rng, shape, 0.7))


def bimodal(rng, shape, between):
    """About a fifth of the packets, more or fewer from run to run, take 2.2 times as long."""
    share = -0.84 + 3 * between * rng.standard_normal(shape[:2])
    slow = alike(rng, shape, 0.9) < share[..., None]
    return np.exp(0.1 * rng.standard_normal(shape) + np.log(2.2) * slow)


def outliers(rng, shape, between):
    """About 1.5 % of the packets, in bursts, stall for a Pareto-distributed while."""
    rate = -2.17 + 2 * between * rng.standard_normal(shape[:2])
    stalled = alike(rng, shape, 0.8) < rate[..., None]
    stall = np.where(stalled, 1 + 3 * rng.pareto(1.3, shape), 1)
    return np.exp(0.15 * alike(rng, shape, 0.5)) * stall


KINDS = {"lognormal": lognormal, "bimodal": bimodal, "outliers": outliers}


def studies(kind, rng, many, between, *, blocks=10, samples=3000, shared=None):
    """`many` studies; half of a block's luck is the condition's own, half is its time's."""
    shared = luck(rng, many, blocks) if shared is None else shared
    own = between * (shared + luck(rng, many, blocks))
    return 50 * KINDS[kind](rng, (many, blocks, samples), between) * np.exp(own)[..., None]


def luck(rng, many, blocks):
    return np.sqrt(0.5) * rng.standard_normal((many, blocks))


def truth(kind, rng, between, percentiles):
    """The percentiles of endlessly many runs."""
    values = studies(kind, rng, 1, between, blocks=10_000, samples=200).ravel()
    return {q: percentile(values, q) for q in percentiles}


def coverage(kinds, between, many, *, percentiles, counts=(3, 5, 10), samples=3000, seed=1):
    """The share of intervals that hold the truth: [what, percentile, blocks]."""
    rng = np.random.default_rng(seed)
    true = [truth(kind, rng, between, percentiles) for kind in kinds]
    if kinds[0] == kinds[1]:
        true[1] = true[0]
    held = {}
    for _ in range(many):
        shared = luck(rng, 1, max(counts))
        sides = [
            studies(k, rng, 1, between, samples=samples, shared=shared, blocks=max(counts))[0]
            for k in kinds
        ]
        for count in counts:
            a, b = (Pooled.of(dict(enumerate(side[:count]))) for side in sides)
            for q in percentiles:
                i = estimate(a, q).interval()
                held.setdefault(("value", q, count), []).append(i.low <= true[0][q] <= i.high)
                i, t = _paired(a, b, q).interval(), true[0][q] / true[1][q]
                held.setdefault(("ratio", q, count), []).append(i.low <= t <= i.high)
    return {key: float(np.mean(h)) for key, h in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_95_percent_interval_holds_the_truth_in_about_95_of_100_studies(kind):
    # 150 studies know a share of 95 % to +- 3.6 %; the full table is in the torture test below.
    for key, held in coverage((kind, kind), 0.05, 150, percentiles=(50, 90), samples=1000).items():
        assert held >= 0.91, (key, held)


@pytest.mark.torture
@pytest.mark.parametrize("between", [0.02, 0.06, 0.15])
@pytest.mark.parametrize(
    "kinds",
    [
        ("lognormal", "lognormal"),
        ("bimodal", "bimodal"),
        ("outliers", "outliers"),
        ("lognormal", "outliers"),
        ("bimodal", "outliers"),
    ],
    ids="/".join,
)
def test_coverage_over_2000_studies_at_3_5_and_10_blocks(kinds, between):
    found = coverage(kinds, between, 2000, percentiles=(50, 90, 99, 99.9))
    for key, held in found.items():
        print(*kinds, between, *key, f"{100 * held:.1f}")
    for (what, q, _), held in found.items():
        assert held >= (0.925 if q < 99 else 0.905), (what, q, held)


def different(kind, many, *, q=50, between=0.06, samples=500, effect=1.0, seed=18, count=5):
    """The share of studies that call two conditions different."""
    rng, told = np.random.default_rng(seed), []
    for _ in range(many):
        shared = luck(rng, 1, count)
        a, b = (
            dict(enumerate(studies(kind, rng, 1, between, blocks=count, samples=samples,
                                   shared=shared)[0]))
            for _ in range(2)
        )  # fmt: skip
        i = ratio(a, {k: effect * v for k, v in b.items()}, q)
        told.append(not i.low <= 1 <= i.high)
    return float(np.mean(told))


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("q", [50, 99])
def test_equal_conditions_come_out_different_in_at_most_5_of_100_of_2000_studies(kind, q):
    share = different(kind, 2000, q=q, samples=3000)
    print(kind, q, f"different {100 * share:.1f} %")
    assert share <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.slow
@pytest.mark.parametrize("effect", [1.05, 1.1, 1.2])
def test_known_effects_are_found_as_often_as_students_power_says(effect):
    # The luck that two conditions do not share is 6 % here.
    known = scipy.stats.nct.sf(scipy.stats.t.ppf(0.975, 4), 4, np.log(effect) / (0.06 / np.sqrt(5)))
    # 200 studies know a share of 50 % to +- 7 %.
    assert different("lognormal", 200, effect=effect, samples=3000) == pytest.approx(known, abs=0.1)


# --- values ------------------------------------------------------------------------------------


@given(
    arrays(np.float64, st.integers(1, 200), elements=st.floats(-1e6, 1e6)),
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


@settings(max_examples=60, deadline=None)
@given(blocks_of_values, st.randoms(use_true_random=False))
def test_the_order_of_samples_and_of_blocks_changes_nothing(values, random):
    mixed = [np.array(random.sample(list(v), len(v))) for v in values]
    there, back = dict(enumerate(values)), dict(reversed(list(enumerate(mixed))))
    a, b = interval(there, 50), interval(back, 50)
    assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high))


@settings(max_examples=60, deadline=None)
@given(blocks_of_values, st.sampled_from([0.001, 0.5, 7.0, 1000.0]), st.sampled_from([50, 90, 99]))
def test_other_units_scale_the_interval_and_leave_ratios_alone(values, factor, q):
    plain = dict(enumerate(values))
    scaled = {k: factor * v for k, v in plain.items()}
    a, b = interval(plain, q), interval(scaled, q)
    assert b.value == pytest.approx(factor * a.value)
    assert (b.low, b.high) == pytest.approx((factor * a.low, factor * a.high), rel=1e-6)
    one = ratio(plain, scaled, q)
    assert one.value == pytest.approx(1 / factor)


@settings(max_examples=60, deadline=None)
@given(blocks_of_values, st.floats(1, 99), st.floats(1, 99))
def test_a_higher_percentile_is_never_lower_and_lies_inside_its_interval(values, p, q):
    blocks = dict(enumerate(values))
    lower, higher = interval(blocks, min(p, q)), interval(blocks, max(p, q))
    assert lower.value <= higher.value * (1 + 1e-12)
    for i in (lower, higher):
        assert i.low <= i.value * (1 + 1e-12) and i.value <= i.high * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(blocks_of_values, blocks_of_values)
def test_turning_a_ratio_over_turns_its_interval_over(first, second):
    a, b = dict(enumerate(first)), dict(enumerate(second))
    there, back = ratio(a, b, 50), ratio(b, a, 50)
    assert there.value == pytest.approx(1 / back.value)
    assert (there.low, there.high) == pytest.approx((1 / back.high, 1 / back.low))


def test_samples_may_be_given_as_plain_lists():
    blocks = {k: [1.0 + k, 2, 3, 4] * 10 for k in range(4)}
    assert interval(blocks, 50) == interval({k: np.array(v) for k, v in blocks.items()}, 50)
    assert samples_needed(blocks, 99) == 21


def test_the_value_is_that_of_the_pooled_samples_never_an_average():
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


@pytest.mark.parametrize("step", [0, 1, 5])
def test_equal_conditions_are_called_different_in_at_most_5_of_100_studies(step):
    rng = np.random.default_rng(8)
    different, many = 0, 400
    pairs = studies("lognormal", rng, 2 * many, 0.03, blocks=5, samples=500)
    pairs = np.round(pairs / step) * step if step else pairs
    for a, b in zip(pairs[::2], pairs[1::2], strict=True):
        i = ratio(dict(enumerate(a)), dict(enumerate(b)), 50)
        different += not i.low <= 1 <= i.high
    assert different <= 0.05 * many + 2 * np.sqrt(0.05 * 0.95 * many)


def test_five_blocks_find_an_effect_of_ten_percent_and_its_size():
    rng = np.random.default_rng(9)
    shared = luck(rng, 100, 5)
    a = studies("outliers", rng, 100, 0.02, blocks=5, samples=1000, shared=shared)
    b = 1.1 * studies("outliers", rng, 100, 0.02, blocks=5, samples=1000, shared=shared)
    found = [ratio(dict(enumerate(x)), dict(enumerate(y)), 50) for x, y in zip(a, b, strict=True)]
    assert np.mean([i.high < 1 for i in found]) > 0.9
    assert np.median([i.value for i in found]) == pytest.approx(1 / 1.1, rel=0.01)


# --- deciding ----------------------------------------------------------------------------------


def test_probabilities_are_students():
    e = Estimate(1.1, 0.1, 0.1, 0.04, 0.05, 4, 5, True)
    assert e.below(1.2) == pytest.approx(scipy.stats.t.sf((np.log(1.2) - 0.1) / 0.05, 4))
    assert e.above(0.9) == pytest.approx(scipy.stats.t.sf((0.1 - np.log(0.9)) / 0.04, 4))
    low, high = 0.1 - 0.04 * scipy.stats.t.ppf(0.975, 4), 0.1 + 0.05 * scipy.stats.t.ppf(0.975, 4)
    assert (e.interval().low, e.interval().high) == pytest.approx((np.exp(low), np.exp(high)))


def test_the_interval_excludes_1_exactly_when_the_two_sided_p_value_is_below_5_percent():
    rng = np.random.default_rng(10)
    for shift in (1.0, 1.01, 1.02, 1.03, 1.05):
        a = {k: rng.lognormal(3, 0.3, 500) for k in range(4)}
        b = {k: shift * rng.lognormal(3, 0.3, 500) for k in range(4)}
        e = ratio_estimate(a, b, 50)
        i, p = e.interval(), 2 * min(e.below(1), e.above(1))
        assert (p <= 0.05) == (not i.low <= 1 <= i.high)


def test_holm_is_the_example_of_the_textbook():
    # p of 0.01, 0.04, 0.03, 0.005: times 4, 3, 2, 1 in rising order, never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1, 1]


def test_more_blocks_are_asked_for_until_the_effect_shows_and_then_it_does():
    rng = np.random.default_rng(12)
    a = {k: np.exp(0.1 * rng.standard_normal()) * rng.lognormal(3, 0.1, 500) for k in range(60)}
    b = {k: np.exp(0.1 * rng.standard_normal()) * rng.lognormal(3.06, 0.1, 500) for k in range(60)}
    few = {k: a[k] for k in range(4)}, {k: b[k] for k in range(4)}
    assert 1 <= blocks_needed(*few, 50) <= MOST_BLOCKS
    assert blocks_needed(*few, 50) <= blocks_needed(*few, 50, level=0.005)
    assert ratio(a, b, 50).high < 1


def test_equal_conditions_need_more_blocks_than_it_looks_for():
    a = {k: np.array([1.0, 2.0, 3.0, 4.0] * 10) + 0.01 * k for k in range(4)}
    assert blocks_needed(a, a, 50) == MOST_BLOCKS + 1


def some(rng, count, between=0.1):
    return {k: np.exp(between * rng.standard_normal()) * rng.lognormal(3, 0.2, 500)
            for k in range(count)}  # fmt: skip


def test_so_many_more_blocks_are_asked_for_until_the_interval_is_as_narrow_as_wanted():
    rng = np.random.default_rng(15)
    asked = []
    for _ in range(40):
        blocks = some(rng, 8)
        more = blocks_to_width(blocks, 50, 0.1)
        asked.append(more)
        assert more <= blocks_to_width(blocks, 50, 0.05)
        assert blocks_to_width(blocks, 50, 10.0) == 0
    # Known: 2 t s / sqrt(n) of 0.1 with s = 0.1 needs 18 blocks in all.
    assert np.median(asked) == pytest.approx(10, abs=4)
    reached = [width(interval(some(rng, 18), 50)) for _ in range(40)]
    assert np.median(reached) == pytest.approx(0.1, rel=0.15)


def test_a_study_grows_step_by_step_to_the_wanted_width_and_never_beyond_its_cap():
    rng = np.random.default_rng(16)
    whole = {"a": some(rng, 200), "b": some(rng, 200, between=0.02)}
    have, steps = 0, []
    while more := enough({c: dict(list(b.items())[:have]) for c, b in whole.items()}, 50, 0.1, 40):
        steps.append(more)
        have += more
    assert steps[0] == 3 and steps[1] == 3, "at most doubled at once"
    assert 12 <= have <= 30
    assert all(width(interval(dict(list(b.items())[:have]), 50)) <= 0.1 for b in whole.values())
    few = {c: dict(list(b.items())[:6]) for c, b in whole.items()}
    assert enough(few, 50, 0.1, 7) == 1 and enough(few, 50, 0.1, 6) == enough(few, 50, 0.1, 2) == 0
    assert enough({}, 50, 0.1, 10) == 3 and enough({}, 50, 0.1, 2) == 2


def test_a_far_tail_needs_its_samples_before_its_width_counts():
    blocks = some(np.random.default_rng(17), 5)
    assert blocks_to_width(blocks, 99.9, 100.0) == 15  # 10,000 samples are 20 blocks of 500
    assert blocks_to_width({0: blocks[0]}, 50, 0.1) == 2
    assert blocks_to_width(blocks, 50, 1e-9) == MOST_BLOCKS + 1


@pytest.mark.parametrize("wanted", [0, -1, np.nan, np.inf])
def test_a_width_that_cannot_be_wanted_is_refused(wanted):
    with pytest.raises(BadInput, match="width"):
        blocks_to_width({0: np.ones(5)}, 50, wanted)
    with pytest.raises(BadInput, match="width"):
        enough({}, 50, wanted, 5)
    with pytest.raises(BadInput, match="cap"):
        enough({}, 50, 0.1, 0)


def test_a_tail_without_samples_says_how_many_blocks_of_this_size_it_needs():
    blocks = {k: np.random.default_rng(k).lognormal(3, 0.3, 3000) for k in range(5)}
    assert samples_needed(blocks, 99.99) == 29  # 100,000 samples are 34 blocks
    assert samples_needed(blocks, 99.9) == 0
    assert samples_needed({0: blocks[0]}, 50) == 2
    assert blocks_needed(blocks, blocks, 99.99) >= 29


def test_100000_samples_at_5_percentiles_and_4_conditions_take_under_2_seconds():
    rng = np.random.default_rng(13)
    conditions = [{k: rng.lognormal(4, 0.3, 10_000) for k in range(10)} for _ in range(4)]
    interval(conditions[0], 50)
    start = time.process_time()
    for q in (50, 90, 99, 99.9, 99.99):
        for blocks in conditions:
            interval(blocks, q)
    assert time.process_time() - start < 2


def test_the_same_samples_always_give_the_same_interval():
    rng = np.random.default_rng(14)
    blocks = {k: rng.lognormal(4, 0.3, 1000) for k in range(4)}
    assert interval(blocks, 99) == interval(blocks, 99)


@pytest.mark.parametrize(
    ("blocks", "q", "said"),
    [
        ({}, 50, "no blocks"),
        ({0: np.array([])}, 50, "no samples"),
        ({0: np.array([1.0, np.nan])}, 50, "not a number"),
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
