import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import BadInput
from labkit.statistics.percentiles import Interval
from labkit.statistics.scaling import knee, line, most_under, scalability_law, speed_up

LOADS = (1, 2, 4, 8, 16, 32, 64)


def law(n, rate=100.0, contention=0.05, coherency=0.001):
    return rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def measured(rng, truth, loads=LOADS, repeats=3, scatter=0.02):
    return {n: truth(n) * np.exp(scatter * rng.standard_normal(repeats)) for n in loads}


# --- the scalability law ----------------------------------------------------------------------


def test_the_law_without_noise_gives_its_parameters_back():
    found = scalability_law({n: [law(n)] for n in LOADS})
    values = [found.rate.value, found.contention.value, found.coherency.value]
    assert values == pytest.approx([100, 0.05, 0.001], rel=1e-4)
    assert found.peak.value == pytest.approx(math.sqrt(0.95 / 0.001), rel=1e-4)
    assert found.at(24) == pytest.approx(law(24), rel=1e-4) and found.r_squared > 0.9999


def test_the_fit_is_scipys_curve_fit_and_its_limits_are_near_the_standard_errors():
    data = measured(np.random.default_rng(1), law)
    found = scalability_law(data)
    loads = np.repeat(LOADS, 3)
    seen = np.log(np.concatenate(list(data.values())))
    best, cover = scipy.optimize.curve_fit(
        lambda n, r, s, k: np.log(law(n, r, s, k)), loads, seen, p0=(90, 0.1, 0.01), bounds=(0, 1e3)
    )
    far = scipy.stats.t.ppf(0.975, loads.size - 3) * np.sqrt(np.diag(cover))
    for ours, value, reach in zip(
        (found.rate, found.contention, found.coherency), best, far, strict=True
    ):
        assert ours.value == pytest.approx(value, rel=1e-3)
        assert (ours.low, ours.high) == pytest.approx(
            (value - reach, value + reach), abs=0.15 * reach
        )


def test_without_coherency_cost_there_is_no_peak_and_the_limit_is_zero():
    found = scalability_law(measured(np.random.default_rng(2), lambda n: law(n, coherency=0)))
    assert found.coherency.low == 0 and found.peak.high == math.inf and not found.peak.enough
    assert found.peak.low > 64, "no peak within what was measured"
    straight = scalability_law({n: [100.0 * n] for n in LOADS})
    assert straight.peak.value == math.inf and straight.contention.value == pytest.approx(
        0, abs=1e-6
    )


@pytest.mark.slow
def test_95_percent_limits_of_the_law_hold_its_parameters():
    rng, held = np.random.default_rng(3), []
    truth = (100, 0.05, 0.001, math.sqrt(0.95 / 0.001))
    for _ in range(40):
        found = scalability_law(measured(rng, law))
        intervals = (found.rate, found.contention, found.coherency, found.peak)
        held.append([i.low <= t <= i.high for i, t in zip(intervals, truth, strict=True)])
    # 40 studies know a share of 95 % to +- 7 %.
    assert np.mean(held, axis=0).min() >= 0.87


# --- lines, knees and speed-ups -----------------------------------------------------------------


def test_the_line_is_scipys_with_students_limits():
    data = {n: [3.0 + 2 * n, 3.5 + 2.1 * n] for n in LOADS}
    found = line(data)
    loads, values = np.repeat(LOADS, 2), np.concatenate([data[n] for n in LOADS])
    reference = scipy.stats.linregress(loads, values)
    far = scipy.stats.t.ppf(0.975, 12) * reference.stderr
    assert (found.slope.low, found.slope.high) == pytest.approx(
        (reference.slope - far, reference.slope + far)
    )
    assert found.start.value == pytest.approx(reference.intercept)
    assert found.r_squared == pytest.approx(reference.rvalue**2)


def test_a_plateau_and_its_knee_are_found():
    found = knee(measured(np.random.default_rng(4), lambda n: min(10 * n, 60), range(1, 13)))
    assert found.found and found.plateau
    assert found.load.low <= 6 <= found.load.high and found.load.high - found.load.low < 1
    assert found.before == pytest.approx(10, rel=0.1) and abs(found.after) < 1
    exact = knee({n: [min(10.0 * n, 60.0)] for n in range(1, 13)})
    assert exact.found and exact.load.value == pytest.approx(6, abs=0.05)


def test_a_bend_that_goes_on_rising_is_a_knee_and_no_plateau():
    found = knee(
        measured(np.random.default_rng(5), lambda n: 10 * n - 5 * max(n - 6, 0), range(1, 13))
    )
    assert found.found and not found.plateau


@pytest.mark.parametrize("scatter", [1, 5, 20])
def test_a_straight_line_has_a_knee_in_at_most_5_of_100_studies(scatter):
    rng = np.random.default_rng(6)
    found = [knee({n: 50 + 10 * n + scatter * rng.random(3) for n in range(1, 9)}).found
             for _ in range(40)]  # fmt: skip
    assert np.mean(found) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 40)


def test_speed_up_is_against_the_smallest_load_and_blocks_cancel():
    luck = np.array([1.0, 1.5, 0.8, 1.2])
    found = speed_up({1: 10 * luck, 2: 19 * luck * [1.01, 0.99, 1, 1], 4: 30 * luck})
    assert [round(point.times.value, 2) for point in found] == [1, 1.9, 3]
    assert [round(point.efficiency, 2) for point in found] == [1, 0.95, 0.75]
    ratios = np.log(1.9 * np.array([1.01, 0.99, 1, 1]))
    reference = np.exp(scipy.stats.ttest_1samp(ratios, 0).confidence_interval())
    assert (found[1].times.low, found[1].times.high) == pytest.approx(tuple(reference))


def test_speed_up_of_unequal_repeats_is_welchs():
    one, two = [10.0, 11, 12, 10.5], [19.0, 22, 20]
    found = speed_up({1: one, 2: two})[1].times
    reference = scipy.stats.ttest_ind(np.log(two), np.log(one), equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(reference.confidence_interval())))
    single = speed_up({1: [10], 2: [19]})[1].times
    assert single.value == pytest.approx(1.9) and not single.enough and single.high == math.inf


# --- the most load under a limit ------------------------------------------------------------


def around(value, by=1.1, enough=True):
    return Interval(value, value / by, value * by, enough)


def test_the_most_load_under_a_limit_lies_between_two_loads():
    found = most_under(20, {100: around(5), 200: around(10), 300: around(40), 400: around(400)})
    # Between 10 at 200 and 40 at 300, 20 is half way by logarithm.
    assert found.value == pytest.approx(250) and found.enough
    share = (math.log(20) - math.log(11)) / math.log(4)
    assert found.low == pytest.approx(200 + 100 * share)
    assert found.low < found.value < found.high < 300


def test_a_limit_that_is_never_or_always_crossed_says_that_it_is_not_enough():
    curve = {100: around(5), 200: around(10), 300: around(40)}
    never, always = most_under(1000, curve), most_under(1, curve)
    assert (never.value, never.high, never.enough) == (300, 300, False)
    assert (always.value, always.low, always.enough) == (0, 0, False)
    assert not most_under(39, curve).enough, "its upper end lies beyond what was measured"
    assert not most_under(20, {1: around(5), 2: around(40, enough=False)}).enough


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=9), st.floats(0.01, 1e6))
def test_the_most_load_is_never_outside_its_interval_or_the_loads(values, limit):
    found = most_under(limit, {n + 1: around(v) for n, v in enumerate(values)})
    assert 0 <= found.low <= found.value <= found.high <= len(values)


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({1: [1], 2: [2]}, "too few"),
        ({2: [1], 1: [2], 3: [3], 4: [4], 5: [5]}, "must rise"),
        ({0: [1], 1: [2], 2: [3], 3: [4], 4: [5]}, "load 0:"),
        ({1: [1], 2: [0], 3: [3], 4: [4], 5: [5]}, "load 2:"),
        ({1: [1], 2: [math.nan], 3: [3], 4: [4], 5: [5]}, "load 2:"),
        ({1: [1], 2: [2], 3: [], 4: [4], 5: [5]}, "load 3 has no value"),
        ({1: [1], 2: [2], 3: [3], 4: [4], math.inf: [5]}, "load inf:"),
        ({1: [1], math.nan: [2], 3: [3], 4: [4], 5: [5]}, "load nan:"),
    ],
    ids=["two", "unsorted", "zero-load", "zero", "nan", "empty", "endless", "nan-load"],
)
@pytest.mark.parametrize("fit", [line, scalability_law, knee], ids=lambda f: f.__name__)
def test_what_cannot_be_fitted_is_refused_in_plain_words(fit, data, said):
    with pytest.raises(BadInput, match=said):
        fit(data)


def test_what_has_no_limit_is_refused():
    with pytest.raises(BadInput, match="a limit is above 0"):
        most_under(0, {1: around(1), 2: around(2)})
    with pytest.raises(BadInput, match="intervals above 0"):
        most_under(1, {1: around(1), 2: Interval(2, 3, 4, True)})
    with pytest.raises(BadInput, match="too few"):
        most_under(1, {1: around(1)})
    with pytest.raises(BadInput, match="too few"):
        speed_up({1: [1]})
