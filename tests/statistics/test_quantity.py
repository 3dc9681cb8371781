"""Figures computed from what was measured: what they come to, and how sure that is."""

import numpy as np
import pytest
from latencies import luck, studies

from labkit.claim import Bound, Order, Shape, judge
from labkit.errors import BadInput
from labkit.statistics.estimate import cancels, estimated
from labkit.statistics.far_tail import LIMIT, possible, upper_limit
from labkit.statistics.percentiles import interval
from labkit.statistics.pooled import Pooled
from labkit.statistics.quantity import Quantity

RUNS = {"a": [np.array([1.0, 3.0])], "b": [np.array([4.0])], "cpu: a": [np.array([0.5])],
        "c": [np.array([v]) for v in (9.0, 10.0, 11.0)]}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", 2), ("'a' / 'b'", 0.5), ("1 - 'a' / 'b'", 0.5), ("-('a' - 'b') * 3 + 1", 7),
        ("max('a') + min('a')", 4), ("p(99, 'a')", 3), ("median('a')", 1), ("mean('a')", 2),
        ("largest('a', 'b', 3)", 4), ("smallest('a', 'b')", 2), ("middle('a', 'b', 3)", 3),
        ("distance('a' - 'b')", 2), ("'cpu: a' * 'a'", 1), ("variation('b')", 0),
        ("variation('c')", 0.1),
    ],
)  # fmt: skip
def test_a_quantity_comes_to_what_it_says(text, value):
    assert Quantity(text, "mean").value(RUNS) == pytest.approx(value)


def test_a_name_without_a_metric_is_of_the_claims_metric():
    quantity = Quantity("'VM' / 'ready: VM' + 'VM'", "mean", "cpu")
    assert quantity.names == ("cpu: VM", "ready: VM")
    assert quantity.unsaid_metric == "cpu"
    assert Quantity("'ready: VM' / 'ready: Native'", "mean", "cpu").unsaid_metric == ""
    assert Quantity("'a' / 'b'", 50).ratio == ("a", "b")
    assert Quantity("1 - 'a' / 'b'", 50).ratio is None


@pytest.mark.parametrize(
    "text",
    ["", "'a' +", "a", "__import__('os')", "'a'.upper()", "'a'[0]", "[1]", "lambda: 1", "'a' ** 9",
     "print('a')", "p('a')", "p(101, 'a')", "p(99)", "median('a', 'b')", "mean(1)", "largest()",
     "True", "None", "b'a'", "f'{1}'", "mean(x='a')", "(" * 300 + "1" + ")" * 300,
     "'a' if 1 else 2",
     "'a'; 'b'", "1e999j"],
)  # fmt: skip
def test_only_arithmetic_of_conditions_is_a_quantity(text):
    with pytest.raises(BadInput, match="not a quantity"):
        Quantity(text)


def test_what_divides_by_nothing_is_not_testable_and_the_rest_is_judged():
    measured = {
        n: {k: np.array([v]) for k in range(5)} for n, v in {"zero": 0.0, "one": 1.0}.items()
    }
    bad = Bound("b", "s", "f", ("'one' / 'zero'",), high=1, percentile="mean")
    good = Bound("g", "s", "f", ("'one'",), high=2, percentile="mean")
    verdicts = judge([bad, good], measured)
    assert [v.verdict for v in verdicts] == ["not testable here", "holds"]
    assert "divides by 0" in verdicts[0].why


def levels(rng, name_levels, blocks=5, between=0.03, own=0.01):
    """One value a run, as throughput comes: blocks share their luck."""
    luck = between * rng.standard_normal(blocks)
    return {
        name: {
            k: np.array([v * np.exp(luck[k] + own * rng.standard_normal())]) for k in range(blocks)
        }
        for name, v in name_levels.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "truth"),
    [("'a' / 'b'", 0.5), ("'a' - 'b'", -10.0), ("1 - 'a' / 'b'", 0.5), ("('b' - 'a') / 'c'", 2.0)],
)
def test_intervals_of_one_value_a_run_hold_the_truth_in_about_95_of_100_studies(text, truth):
    rng, held, many = np.random.default_rng(1), 0, 2000
    for _ in range(many):
        found = levels(rng, {"a": 10, "b": 20, "c": 5})
        at = estimated(Quantity(text, "mean"), found).interval()
        held += at.low <= truth <= at.high
    assert 0.93 <= held / many <= 0.975


def test_one_value_a_run_is_enough_for_a_verdict_and_few_runs_are_not():
    rng = np.random.default_rng(3)
    order = Order("o", "s", "f", ("mean",), ("a", "b"))
    assert order.judge(levels(rng, {"a": 10, "b": 20})).verdict == "holds"
    assert order.judge(levels(rng, {"a": 20, "b": 10})).verdict == "contradicted"
    few = order.judge(levels(rng, {"a": 10, "b": 20}, blocks=2))
    assert (few.verdict, few.why) == ("undecided", "2 of 3 blocks: about 1 more block")


def test_an_undecided_quantity_says_how_many_more_blocks_and_so_many_do():
    rng = np.random.default_rng(4)
    what = ("1 - 'a' / 'b'",)
    bound = Bound("b", "s", "f", what, high=0.05, percentile="mean", margin=0.001)
    verdict = bound.judge(levels(rng, {"a": 96, "b": 100}, blocks=4, own=0.01))
    assert verdict.verdict == "undecided"
    more = int(verdict.why.split("about ")[1].split()[0])
    assert bound.judge(levels(rng, {"a": 96, "b": 100}, blocks=4 + 3 * more)).verdict == "holds"


POINTS = {1.0: "one", 2.0: "two", 4.0: "four", 8.0: "eight"}
CURVES = {
    "linear": [1, 2, 4, 8], "plateau": [1, 2, 2, 2.05], "rising": [1, 1.2, 1.4, 1.6],
    "falling": [8, 4, 2, 1], "flat": [1, 1.02, 1.03, 0.98], "lowest": [3, 2, 3, 4],
    "highest": [1, 4, 3, 2],
}  # fmt: skip


@pytest.mark.parametrize("kind", CURVES)
def test_a_shape_holds_on_its_own_curve_and_fails_on_those_that_are_not_of_it(kind):
    rng, at = np.random.default_rng(5), 2.0 if kind in ("plateau", "lowest", "highest") else None
    shape = Shape("s", "s", "f", kind, POINTS, at=at, percentile="mean")
    verdicts = {
        name: shape.judge(
            levels(rng, dict(zip(POINTS.values(), curve, strict=True)), own=1e-3)
        ).verdict
        for name, curve in CURVES.items()
    }
    also = {"rising": {"linear"}}.get(kind, set())
    assert {name for name, verdict in verdicts.items() if verdict == "holds"} == {kind} | also


def test_differs_holds_when_the_ends_differ_and_is_contradicted_when_they_do_not():
    rng, ends = np.random.default_rng(5), {1.0: "a", 2.0: "b"}
    differs = Shape("s", "s", "f", "differs", ends, within=1.05, percentile="mean")
    found = [
        differs.judge(levels(rng, {"a": 1, "b": b}, own=1e-3)).verdict for b in (1.2, 0.8, 1.0)
    ]
    assert found == ["holds", "holds", "contradicted"]


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "curly"}, {"kind": "plateau", "at": 3.0}, {"kind": "flat", "points": {1.0: "a"}}],
)
def test_a_shape_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(BadInput, match="claim s"):
        Shape("s", "s", "f", **{"points": POINTS, **wrong})


@pytest.mark.parametrize("q", [50, 90, 99, 99.9])
def test_a_ratio_of_percentiles_is_judged_alike_however_it_is_written(q):
    rng = np.random.default_rng(7)
    measured = {name: {k: np.exp(0.05 * rng.standard_normal()) * rng.lognormal(4, 0.3, 3000)
                       for k in range(5)} for name in "ab"}  # fmt: skip
    both = (Quantity(text, q) for text in ("'a' / 'b'", "1 * 'a' / 'b'"))
    plain, other = (estimated(quantity, measured) for quantity in both)
    assert other.interval().low == pytest.approx(plain.interval().low, rel=1e-3)
    assert other.interval().high == pytest.approx(plain.interval().high, rel=1e-3)


def test_a_difference_of_percentiles_printed_in_coarse_steps_is_not_mistaken_for_certainty():
    measured = {name: {k: np.full(40, 7.0 + (k == 0)) for k in range(5)} for name in "ab"}
    found = estimated(Quantity("'a' - 'b'", 50), measured).interval()
    assert found.low < -0.5 and found.high > 0.5


def slow_runs(seed, blocks=5, between=0.15):
    rng = np.random.default_rng(seed)
    shared = luck(rng, 1, blocks)
    return {
        name: dict(enumerate(studies(kind, rng, 1, between, blocks=blocks, shared=shared)[0]))
        for name, kind in (("a", "bimodal"), ("b", "lognormal"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("q", [50, 99, 99.9])
def test_one_conditions_percentile_has_the_interval_that_tables_show(q):
    measured = slow_runs(8)
    table = interval(measured["a"], q)
    for text in ("'a'", f"p({q}, 'a')"):
        claimed = estimated(Quantity(text, q), measured).interval()
        assert (claimed.low, claimed.high) == (table.low, table.high)
    zero = {"a": {k: np.arange(20.0) * 10**k for k in range(5)}}
    assert estimated(Quantity("'a'", 50), zero).interval().low == 0


def test_a_difference_of_far_tails_reckons_with_slower_runs_than_those_seen():
    measured = slow_runs(9)
    far = estimated(Quantity("'a' - 'b'", 99.9), measured).interval()
    of_few = possible([(Pooled.of(measured[name]), 99.9) for name in "ab"])
    most = np.quantile(of_few[0] - of_few[1], 0.9)
    assert far.high >= most > far.value
    # The luck that both share goes together, so their difference is surer than if it did not.
    apart = of_few[0] - np.roll(of_few[1], 77)
    assert np.std(of_few[0] - of_few[1]) < np.std(apart)


@pytest.mark.parametrize("q", [95, 99, 99.9])
def test_what_unseen_runs_may_make_of_one_condition_is_what_its_interval_reckons_with(q):
    for seed in range(5):
        pooled = Pooled.of(slow_runs(seed, blocks=10)["b"])
        (found,) = possible([(pooled, q)])
        limit = np.exp(upper_limit(pooled, q, logarithmic=True))
        assert np.quantile(found, LIMIT) == pytest.approx(limit, rel=0.1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("'a' / 'b'", True), ("1 - 'a' / 'b'", True), ("('a' - 'b') / 'b'", True),
     ("largest('a', 'b') / 'a'", True), ("'a' - 'b'", False), ("'a' + 'b'", False),
     ("2 * 'a'", False)],
)  # fmt: skip
def test_what_slows_all_conditions_alike_cancels_where_it_does(text, expected):
    assert cancels(Quantity(text, 99)) == expected
