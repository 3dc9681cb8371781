"""Counts and shares of trials: exact intervals, whether or not the values vary."""

import numpy as np
import pytest
import scipy.stats

from labkit.claim import Bound, Order, judge
from labkit.statistics.estimate import estimated
from labkit.statistics.quantity import Quantity


def runs(values):
    return {k: np.array([float(value)]) for k, value in enumerate(values, 1)}


def verdict(values, kind, **limits):
    claim = Bound("c", "s", "f", what=("'a'",), percentile="mean", **limits)
    return judge([claim], {"a": runs(values)}, kinds={"a": kind})[0]


def test_three_of_three_hold_nothing_and_bind_a_rate_to_above_29_percent():
    found = verdict([1, 1, 1], "share", low=0.999, high=1.001)
    assert found.verdict == "undecided" and found.p > 0.9
    assert estimated(Quantity("share('a')"), {"a": runs([1, 1, 1])}).interval().low == (
        pytest.approx(0.2924, abs=1e-4)
    )
    assert "3 of 3" in found.why and "more than 200 more blocks" in found.why
    assert verdict([1, 1, 0], "share", low=0.999, high=1.001).verdict == "contradicted"
    assert verdict([1] * 9, "share", low=0.5).verdict == "holds"
    assert verdict([0] * 9, "share", low=0.5).verdict == "contradicted"


def test_counts_that_never_vary_are_no_certainty():
    assert verdict([1, 1, 1], "count", low=0.5, high=1.5).verdict == "undecided"
    assert verdict([40, 40, 40], "count", low=0.5, high=1.5).verdict == "contradicted"
    assert verdict([1] * 60, "count", low=0.5, high=1.5).verdict == "holds"


@pytest.mark.parametrize(("hits", "of"), [(0, 5), (3, 10), (17, 20), (8, 8)])
def test_the_interval_of_a_share_is_that_of_clopper_and_pearson(hits, of):
    found = estimated(Quantity("'a'", "share"), {"a": runs([1] * hits + [0] * (of - hits))})
    known = scipy.stats.binomtest(hits, of).proportion_ci(method="exact")
    assert (found.interval().low, found.interval().high) == pytest.approx(tuple(known))
    for limit in (0.2, 0.5):
        above = scipy.stats.binomtest(hits, of, limit, alternative="greater").pvalue
        assert found.above(limit) == pytest.approx(above, rel=1e-6)


def test_the_interval_of_a_count_is_that_of_garwood():
    found = estimated(Quantity("'a'", "count"), {"a": runs([2, 4, 3])})
    low, high = scipy.stats.chi2.ppf([0.025, 0.975], [18, 20]) / 2 / 3
    assert (found.interval().low, found.interval().high) == pytest.approx((low, high))
    assert found.below(8) == pytest.approx(scipy.stats.poisson.cdf(9, 24), rel=1e-6)


def test_equal_shares_and_counts_come_out_different_in_at_most_5_of_100():
    rng, wrong, studies = np.random.default_rng(1), 0, 100
    for study in range(studies):
        kind, rate = (("share", 0.7), ("count", 3.0))[study % 2]
        made = rng.binomial(1, rate, (2, 12)) if kind == "share" else rng.poisson(rate, (2, 12))
        sides = dict(zip("ab", map(runs, made), strict=True))
        found = estimated(Quantity("'a' - 'b'", kind), sides)
        wrong += 2 * min(found.above(0), found.below(0)) <= 0.05
    assert wrong <= 0.05 * studies


def test_a_difference_of_shares_is_found_and_one_of_counts():
    order = Order("o", "s", "f", ("mean",), ("a", "b"))
    for kind, low, high in (("share", [0] * 9 + [1], [1] * 9 + [0]), ("count", [1] * 10, [5] * 10)):
        kinds = dict.fromkeys("ab", kind)
        assert judge([order], {"a": runs(low), "b": runs(high)}, kinds=kinds)[0].verdict == "holds"
        assert judge([order], {"a": runs(high), "b": runs(low)}, kinds=kinds)[0].verdict == (
            "contradicted"
        )


def test_counts_that_vary_more_than_chance_are_known_less_well():
    even, uneven = ({"a": runs(v)} for v in ([10, 11, 9, 10, 10, 10], [1, 30, 2, 20, 3, 4]))
    what = Quantity("'a'", "count")
    widths = [(i.high - i.low) for i in (estimated(what, x).interval() for x in (even, uneven))]
    assert widths[1] > 3 * widths[0]


def test_what_is_no_count_is_refused_and_mixtures_are():
    assert "is 0 or 1" in verdict([1, 0.5, 1], "share", low=0.5).why
    assert "is a whole number" in verdict([1, 0.5, 1], "count", low=0.5).why
    mixed = Bound("c", "s", "f", what=("'a' / 'b'",), percentile="mean", low=0.5)
    found = judge([mixed], {"a": runs([1, 1, 1]), "b": runs([2, 3, 4])}, kinds={"a": "share"})[0]
    assert found.verdict == "not testable here" and "mixes" in found.why
