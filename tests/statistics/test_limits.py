"""An end that the measurements do not bind is told as none: in words, tables, charts and JSON."""

import json
import re

import numpy as np
import pytest

from labkit import charts
from labkit.charts.tradeoff import mean_of
from labkit.claim import Bound, Order
from labkit.machine.units import figure
from labkit.pages.answer import _cell
from labkit.statistics.estimate import estimated, ratio
from labkit.statistics.interval import FAR, Interval, ends, lacking
from labkit.statistics.percentiles import interval
from labkit.statistics.quantity import PARTS, Quantity
from labkit.statistics.spending import levels


def wild(rng, blocks=3, samples=4000, by=8.0):
    """Runs whose slowest hundredth differs eightfold from one to the next, if not by more."""
    found = {k: rng.lognormal(4, 0.2, samples) for k in range(blocks)}
    for k, values in found.items():
        values[:30] *= by**k
    return found


def test_an_end_a_hundredfold_away_is_no_limit_and_a_nearer_one_is():
    found = Interval(1200.0, 900.0, 5_399_577_489.0, True)
    assert (found.least, found.most) == (900.0, None)
    assert found.ends("{:.0f}".format) == "> 900"
    assert lacking(found.least, found.most, 5) == "no upper limit from 5 blocks"
    near = Interval(1200.0, 900.0, FAR * 1200, True)
    assert near.ends("{:.0f}".format) == "900 to 120000" and not lacking(900.0, near.most, 5)
    assert Interval(5.0, 0.0, 8.0, True).ends(str) == "< 8.0"
    assert ends(None, None, str) == "no limits"
    assert lacking(None, None, 1) == "no lower or upper limit from 1 block"


def test_what_may_be_negative_keeps_both_ends():
    found = Interval(0.5, -190.0, 200.0, True)
    assert (found.least, found.most) == (-190.0, 200.0)
    assert Interval(0.0, 0.0, 0.0, True).ends(str) == "0.0 to 0.0"


@pytest.mark.slow
def test_a_far_tail_of_four_unlike_runs_has_no_upper_limit_wherever_it_is_shown():
    blocks = wild(np.random.default_rng(1), 4)
    found = interval(blocks, 99.9)
    assert found.high > 1e6 and found.most is None and found.least
    row = {"enough": True, "value": found.value, "low": found.least, "high": found.most, "each": ()}
    assert _cell(row) == f"{figure(found.value)} (> {figure(found.low)})"
    chart = charts.ladder({"wild": blocks}, percentiles=(50, 99.9)).to_dict()
    rows = [row for data in _rows(chart) for row in data if row.get("more")]
    assert all(row["high"] < 1e6 for row in rows)
    assert "> " in rows[0]["interval"] and "no upper limit from 4 blocks" in rows[0]["interval"]
    assert "Arrows: no limit on that side." in json.dumps(chart["title"])
    shapes = [layer["mark"].get("shape") for layer in chart["layer"]]
    assert "triangle-up" in shapes
    calm = {k: v[100:] for k, v in blocks.items()}
    assert "triangle-up" not in json.dumps(charts.ladder({"calm": calm}).to_dict()["layer"])


def _rows(spec):
    return spec["datasets"].values()


def test_a_ratio_of_rates_without_a_limit_has_an_arrow():
    rates = {"a": {k: np.array([v]) for k, v in enumerate((1e-3, 1e9, 10, 10))},
             "b": {k: np.array([v]) for k, v in enumerate((10.0, 9, 11, 10))}}  # fmt: skip
    spec = charts.ratios(rates, "b").to_dict()
    row = next(row for data in _rows(spec) for row in data if "more" in row)
    assert (
        row["more"] and row["less"] and row["interval"].startswith("no lower or upper limit from 4")
    )
    assert {"triangle-left", "triangle-right"} <= {
        layer["mark"].get("shape") for layer in spec["layer"]
    }


@pytest.mark.parametrize("blocks, shown", [(3, "tick"), (4, "rule")])
def test_of_few_blocks_each_is_a_tick_and_of_more_there_is_a_bar(blocks, shown):
    rates = {name: {k: np.array([4.0 + k]) for k in range(blocks)} for name in "ab"}
    spec = charts.ratios(rates, "b").to_dict()
    (row,) = (
        row for data in _rows(spec) for row in data if "interval" in row and "block" not in row
    )
    ticks = [row for data in _rows(spec) for row in data if "block" in row]
    assert len(ticks) == (blocks if shown == "tick" else 0)
    assert (row["low"] is None) == (shown == "tick")
    assert ("Bars:" in json.dumps(spec["title"])) == (shown == "rule")


@pytest.mark.parametrize("unit, values, most", [
    ("share", (0.97, 0.5, 0.99, 0.98), 1), ("%", (97, 50, 99, 98), 100),
    ("share", (0.97, 0.5, 1.01, 0.98), np.inf), ("CPUs", (0.97, 0.5, 0.99, 0.98), np.inf),
])  # fmt: skip
def test_a_share_is_never_more_than_the_whole_unless_more_was_measured(unit, values, most):
    measured = {"a": {k: np.array([float(v)]) for k, v in enumerate(values)}}
    kinds = {"a": PARTS[unit]} if unit in PARTS else {}
    for text, whole in (("'a'", most), ("mean('a') - 0.5", most - 0.5), ("1 - 'a'", 1)):
        found = estimated(Quantity(text, "mean").of_kinds(kinds), measured).interval()
        assert found.high <= whole and (found.high == whole or text == "1 - 'a'" or most == np.inf)
    assert mean_of(measured["a"], unit).high <= most
    loose = estimated(Quantity("'a'", "mean"), measured).interval()
    assert loose.high > (100 if unit == "%" else 1)
    assert estimated(Quantity("variation('a')").of_kinds(kinds), measured).interval().high > 1


@pytest.mark.slow
def test_a_verdict_tells_no_limit_as_none():
    rng = np.random.default_rng(2)
    measured = {"a": wild(rng, by=90.0), "b": {k: rng.lognormal(4, 0.2, 4000) for k in range(3)}}
    verdict = Order("o", "s", "f", (99.9,), ("b", "a")).judge(measured)
    i = ratio(measured["b"], measured["a"], 99.9)
    assert i.low > 0 and verdict.low is None and verdict.high is None
    assert re.match(r"b / a = 0\.00022\d \(blocks: [\d., ]+\) at p99.9", verdict.why)


def test_an_end_that_a_verdict_rests_on_is_shown_however_far_it_is():
    measured = {"a": {k: np.array([v]) for k, v in enumerate((0.01, 100, 0.2, 4, 0.1))}}
    i = estimated(Quantity("'a'", "mean"), measured).interval(1 - levels([5])[0])
    assert i.most is None
    far, near = (Bound("b", "s", "f", ("'a'",), high=at, percentile="mean") for at in (1e9, 30))
    verdict = far.judge(measured)
    assert verdict.verdict == "holds" and verdict.high == i.high
    assert near.judge(measured).high is None and "upper limit" in near.judge(measured).why


def test_an_end_of_a_difference_far_beyond_what_it_is_made_of_is_none():
    rng = np.random.default_rng(4)
    a, b = ({k: rng.lognormal(4, 0.2, 3000) for k in range(3)} for _ in "ab")
    a[2][2600:] *= 1e6
    verdict = Bound("b", "s", "f", ("'a' - 'b'",), high=50, percentile=90).judge({"a": a, "b": b})
    assert verdict.high is None and "blocks: " in verdict.why


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("'a'", 0, np.inf), ("'a' / 'b'", 0, np.inf), ("'a' * 'b' + 2", 2, np.inf),
     ("1 - 'a' / 'b'", -np.inf, 1), ("'a' - 'b'", -np.inf, np.inf), ("-'a'", -np.inf, 0),
     ("distance('a' - 'b')", 0, np.inf), ("largest('a', 1)", 1, np.inf),
     ("smallest('a', 1)", 0, 1), ("middle('a', 1, 2)", 1, 2), ("variation('a')", 0, np.inf),
     ("p(99, 'a') / p(50, 'a')", 0, np.inf), ("('a' - 'b') / 'b'", -np.inf, np.inf)],
)  # fmt: skip
def test_an_interval_never_goes_where_the_figure_cannot(text, low, high):
    rng = np.random.default_rng(3)
    measured = {name: {k: np.array([v]) for k, v in enumerate(rng.lognormal(0, 2, 4))}
                for name in "ab"}  # fmt: skip
    estimate = estimated(Quantity(text, "mean"), measured)
    i = estimate.interval()
    assert estimate.range == (low, high)
    assert low <= i.low <= i.value <= i.high <= high
    if low == 0 and "variation" not in text:
        assert i.low > 0, "what is above 0 has an interval above 0"


def test_a_ratio_of_means_with_a_zero_among_its_runs_stays_above_0():
    measured = {"a": {k: np.array([v]) for k, v in enumerate((0.0, 2, 3, 1))},
                "b": {k: np.array([v]) for k, v in enumerate((2.0, 2, 3, 1))}}  # fmt: skip
    i = estimated(Quantity("'a' / 'b'", "mean"), measured).interval()
    assert i.low == 0 and i.least is None and i.most == i.high


def test_an_order_of_what_may_be_negative_is_judged_by_the_difference():
    order = Order("o", "s", "f", ("mean",), ("a", "b"))
    b = {k: np.array([v]) for k, v in enumerate((11.0, 8, -2, 21))}
    a = {k: v - 10 for k, v in b.items()}
    verdict = order.judge({"a": a, "b": b})
    assert (verdict.verdict, verdict.effect) == ("holds", pytest.approx(-10))
    assert verdict.why.startswith("a - b = -10 (in each of 4 blocks)")
    b = {k: np.repeat(v, 9) for k, v in b.items()}
    a = {k: v - 10 for k, v in b.items()}
    medians = Order("o", "s", "f", (50,), ("a", "b")).judge({"a": a, "b": b})
    assert medians.verdict == "holds" and medians.why.startswith("a - b = -10")
