"""A second opinion stands beside an interval that differs from it by more than half."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import scipy

from labkit.claim import Order, judge
from labkit.statistics.quantity import Quantity
from labkit.statistics.second_opinion import by_student, differs
from labkit.verdict import Comparison, Found

RNG = np.random.default_rng(8)


def blocks(scatter, count=6, samples=400, own=0.02):
    return {k: np.exp(RNG.normal(0, own)) * RNG.lognormal(4, scatter, samples)
            for k in range(count)}  # fmt: skip


def test_it_is_students_interval_of_the_logarithms_of_the_blocks_ratios():
    measured = {"a": blocks(0.2), "b": blocks(0.2)}
    found = by_student(Quantity("'a' / 'b'", 50), measured).interval()
    logs = [np.log(np.median(np.sort(measured["a"][k])[199]) / np.sort(measured["b"][k])[199])
            for k in range(6)]  # fmt: skip
    known = scipy.stats.t.interval(0.95, 5, np.mean(logs), scipy.stats.sem(logs))
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(known)), rel=1e-9)
    assert by_student(Quantity("'a' - 'b'", 50), measured) is None
    assert by_student(Quantity("'a' / 'b'", "mean"), measured) is None


def test_it_is_shown_where_it_differs_by_more_than_half_and_only_there():
    order = Order("o", "s", "f", conditions=("a", "b"))
    coarse = {k: np.full(300, 8.0) for k in range(5)}
    for k in coarse:
        coarse[k][:20] = 9.0
    (verdict,) = judge([order], {"a": coarse, "b": coarse})
    assert verdict.student == (1.0, 1.0) and "Student's t of the blocks 1" in verdict.why
    assert json.loads(json.dumps(asdict(verdict)))["student"] == [1.0, 1.0]
    plain = {"a": blocks(0.2, own=0.1), "b": blocks(0.2, own=0.1)}
    (verdict,) = judge([order], plain)
    agree = not differs(by_student(Quantity("'a' / 'b'", 50), plain), None)
    assert agree and (verdict.student is None) == ("Student" not in verdict.why)


def test_a_far_tail_of_a_coarse_clock_says_that_it_is_biased_and_a_median_does_not():
    made = {name: {k: np.maximum(np.round(at * RNG.lognormal(0, 0.25, 400)), 1) for k in range(4)}
            for name, at in (("a", 8.0), ("b", 9.6))}  # fmt: skip
    tail, middle = (judge([Order("o", "s", "f", (q,), ("a", "b"))], made)[0].why for q in (99, 50))
    assert "biased by its coarse clock" in tail and "biased" not in middle
    fine = {name: {k: v + RNG.random(400) / 10 for k, v in x.items()} for name, x in made.items()}
    assert "biased" not in judge([Order("o", "s", "f", (99,), ("a", "b"))], fine)[0].why


@pytest.mark.parametrize("count", [3, 5, 10, 20])
def test_of_one_value_a_run_the_p_value_is_students_whatever_the_smallest_gap(count):
    """Gaps between a few figures are no clock's steps; an interval holds the ratio shown too."""
    held = 0
    for _ in range(50):
        logs = RNG.normal(0, 0.05, (2, count)) + RNG.normal(0, 0.1, count)
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
