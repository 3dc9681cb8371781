import json
import math
import re
from dataclasses import FrozenInstanceError, asdict

import numpy as np
import pytest

import labkit
from labkit.claim import NotHere, Order, Ratio, compare, judge
from labkit.errors import BadInput
from labkit.statistics.estimate import estimated
from labkit.statistics.quantity import Quantity
from labkit.statistics.spending import levels

NAMES = ("Native", "VM-Latency-SRIOV", "VM-SRIOV", "VM-Default")


def measured(medians, rng=None, *, blocks=5, samples=3000, between=0.02):
    """Lognormal round trips in blocks whose common luck is `between`, and half of it their own."""
    rng = rng or np.random.default_rng(1)
    times = between * rng.standard_normal(blocks)
    return {
        name: {
            k: median
            * np.exp(times[k] + between / 2 * rng.standard_normal())
            * rng.lognormal(0, 0.2, samples)
            for k in range(blocks)
        }
        for name, median in medians.items()
    }


FOUR = dict(zip(NAMES, (50, 55, 62, 80), strict=True))
TYPICAL = Order("o-1", "in this order", "Figure 3", percentiles=(50,), conditions=NAMES)
TAIL = Order("o-2", "in this order", "Figure 3", percentiles=(99, 99.9, 99.99), conditions=NAMES)


def test_an_order_holds_when_every_pair_is_clearly_in_order():
    verdict = TYPICAL.judge(measured(FOUR))
    assert (verdict.verdict, verdict.form, verdict.blocks) == ("holds", "order", 5)
    assert verdict.low < verdict.effect < verdict.high < 1
    assert verdict.why.startswith("Native / VM-Latency-SRIOV = 0.9")
    assert "at the median; the least clear of 3 pairs, all in order" in verdict.why


def test_an_order_is_contradicted_by_one_clearly_reversed_pair_which_is_named():
    verdict = TYPICAL.judge(measured({**FOUR, "VM-SRIOV": 90}))
    assert verdict.verdict == "contradicted"
    assert "the other way round: VM-SRIOV / VM-Default = 1.1" in verdict.why
    assert 1 < verdict.low < verdict.effect < verdict.high


def test_an_order_of_two_equal_conditions_is_undecided_and_says_how_many_more_blocks():
    equal = measured({**FOUR, "VM-SRIOV": 55}, np.random.default_rng(2))
    verdict = judge([TYPICAL], equal, margin=0.01)[0]
    assert verdict.verdict == "undecided"
    in_order, doubt = verdict.why.split("; ", 1)
    assert in_order == "2 of 3 clearly in order"
    assert doubt.startswith("VM-Latency-SRIOV / VM-SRIOV = ")
    assert "more block" in verdict.why
    assert verdict.low < 1 < verdict.high


def test_a_condition_that_was_not_measured_makes_a_claim_not_testable_and_is_named():
    partly = measured({k: v for k, v in FOUR.items() if k != "VM-SRIOV"})
    partly["VM-SRIOV"] = {}
    verdict = TYPICAL.judge(partly)
    assert verdict.verdict == "not testable here"
    assert verdict.why == "not measured: VM-SRIOV"
    assert (verdict.effect, verdict.low, verdict.high, verdict.blocks) == (None, None, None, 0)


def test_a_claim_that_is_not_for_this_lab_says_why():
    verdict = NotHere("n-1", "four guests", "Figure 4", "this run measured 1 guest").judge({})
    assert (verdict.verdict, verdict.why) == ("not testable here", "this run measured 1 guest")


def test_a_tail_without_samples_leaves_an_order_undecided_and_says_what_it_needs():
    verdict = TAIL.judge(measured(FOUR))
    assert verdict.verdict == "undecided"
    said = "p99.99 needs 10 samples beyond it and has 1: about 29 more blocks of this size"
    assert said in verdict.why
    assert verdict.effect is not None


def test_two_blocks_are_not_enough_for_any_verdict():
    verdict = TYPICAL.judge(measured(FOUR, blocks=2))
    assert verdict.verdict == "undecided"
    assert verdict.why == "2 of 3 blocks: about 1 more block"
    assert verdict.blocks == 2
    tail = TAIL.judge(measured(FOUR, blocks=2))
    assert (
        tail.why == "p99.99 needs 10 samples beyond it and has 0: about 32 more blocks of this size"
    )


def test_a_pair_that_lacks_samples_can_never_contradict():
    one = Order("o", "s", "f", percentiles=(99.99,), conditions=("a", "b"))
    assert one.judge(measured({"a": 100, "b": 50})).verdict == "undecided"


@pytest.mark.parametrize(
    ("slow", "verdict"), [(100, "holds"), (160, "contradicted"), (60, "contradicted")]
)
def test_a_ratio_holds_inside_its_band_and_is_contradicted_outside(slow, verdict):
    half = Ratio("r", "half", "Figure 3", over="a", under="b", published=0.5, within=1.25)
    found = half.judge(measured({"a": 50, "b": slow}))
    assert found.verdict == verdict
    assert (found.published, found.form) == (0.5, "ratio")
    where = "inside" if verdict == "holds" else "outside"
    assert f"{where} 0.40 to 0.62 around the document's 0.50" in found.why


def test_a_ratio_at_the_edge_of_its_band_is_undecided():
    half = Ratio("r", "half", "Figure 3", over="a", under="b", published=0.5, within=1.25)
    verdict = judge([half], measured({"a": 50, "b": 80}), margin=1e-4)[0]
    assert verdict.verdict == "undecided"
    assert "a / b = 0.6" in verdict.why and "more block" in verdict.why


def test_an_order_shows_the_documents_ratio_of_the_pair_that_it_shows():
    printed = {name: {50: us} for name, us in zip(NAMES, (18, 20, 24, 34), strict=True)}
    order = Order("o", "s", "f", (50,), NAMES, published=printed)
    assert order.judge(measured(FOUR)).published == pytest.approx(18 / 20)
    assert TYPICAL.judge(measured(FOUR)).published is None


def test_figures_have_as_many_digits_as_their_interval_deserves():
    narrow = measured({"a": 50, "b": 50.6}, between=0.0005, samples=20_000)
    why = Order("o", "s", "f", conditions=("a", "b")).judge(narrow).why
    assert "a / b = 0.98" in why and "to 1.00)" not in why
    wide = measured({"a": 0.003, "b": 1}, between=2.0)
    why = Order("o", "s", "f", conditions=("a", "b")).judge(wide).why
    assert re.search(r"a / b = 0\.\d*[1-9]\d* \(0\.\d*[1-9]\d* to ", why), why


def test_a_metric_that_is_not_the_studys_is_named_in_words():
    found = {f"ready_time: {name}": b for name, b in measured({"a": 40, "b": 80}).items()}
    verdict = Order("c", "", "", conditions=("a", "b"), metric="ready_time").judge(found)
    assert verdict.why.endswith(" at the median of ready time")


def test_the_effect_shown_is_the_ratio_of_the_pooled_samples():
    found = measured({"a": 50, "b": 80})
    verdict = Order("o", "s", "f", conditions=("a", "b")).judge(found)
    # At the level of a first look, so that the intervals of all looks hold in 95 of 100.
    i = estimated(Quantity("'a' / 'b'"), found).interval(1 - levels([5])[0])
    assert (verdict.effect, verdict.low, verdict.high) == (i.value, i.low, i.high)


def test_a_finding_that_stands_alone_can_drown_among_many_comparisons():
    rng = np.random.default_rng(3)
    names = [f"c{i}" for i in range(25)]
    # By itself this pair is clear at 5 %, but not at a 24th of that.
    found = measured(dict.fromkeys(names, 50), rng, samples=500, between=0.01)
    found["fast"] = {k: 0.975 * v for k, v in measured({"f": 50}, rng, samples=500)["f"].items()}
    pair = Order("pair", "s", "f", conditions=("fast", "c0"))
    crowd = [Order(f"o{i}", "s", "f", conditions=(names[i], names[i + 1])) for i in range(24)]
    alone, together = pair.judge(found), judge([pair, *crowd], found)[0]
    assert alone.verdict == "holds"
    assert together.verdict == "undecided"
    assert "not clear among 25 comparisons" in together.why


@pytest.mark.slow
def test_equal_conditions_give_any_confident_verdict_in_at_most_5_of_100_studies():
    rng = np.random.default_rng(4)
    order = Order("o", "s", "f", percentiles=(50, 90), conditions=NAMES)
    tail = Order("t", "s", "f", percentiles=(95,), conditions=NAMES)
    many, wrong = 150, 0
    for _ in range(many):
        found = measured(dict.fromkeys(NAMES, 50), rng, samples=300)
        wrong += any(v.verdict in ("contradicted", "holds") for v in judge([order, tail], found))
    assert wrong <= 0.05 * many


def test_verdicts_come_in_the_order_of_the_claims_and_survive_json():
    claims = [TAIL, NotHere("n", "s", "f", "no"), TYPICAL]
    verdicts = judge(claims, measured(FOUR))
    assert [v.claim for v in verdicts] == ["o-2", "n", "o-1"]
    for v in verdicts:
        assert json.loads(json.dumps(asdict(v), allow_nan=False)) == {
            **asdict(v),
            "looks": [*v.looks],
            "each": [*v.each],
            "reasons": json.loads(json.dumps([asdict(reason) for reason in v.reasons])),
            "comparisons": {
                key: {**asdict(one), "looks": [*one.looks]} for key, one in v.comparisons.items()
            },
        }
    with pytest.raises(FrozenInstanceError):
        verdicts[0].verdict = "holds"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Order("o", "s", "f", conditions=("a",)),
        lambda: Order("o", "s", "f", percentiles=(), conditions=("a", "b")),
        lambda: Ratio("r", "s", "f", over="a", under="b", within=1.0),
        lambda: Ratio("r", "s", "f", over="a", under="b", published=0),
        lambda: Ratio("r", "s", "f", over="a"),
    ],
)
def test_a_claim_that_can_not_be_meant_is_refused_and_named(wrong):
    with pytest.raises(BadInput, match=r"claim [or]"):
        wrong()


# --- compare: two sets of samples, one verdict ---------------------------------------------------


def test_compare_says_lower_higher_or_undecided():
    rng = np.random.default_rng(5)
    a, b = rng.lognormal(4, 0.2, 3000), rng.lognormal(4.1, 0.2, 3000)
    assert compare(a, b).verdict == "holds"
    assert compare(b, a).verdict == "contradicted"
    assert compare(a, list(a)).verdict == "same within the margin"
    assert compare(a, list(a), margin=1e-6).verdict == "undecided"


def test_compare_takes_blocks_and_names_and_says_when_it_only_knows_single_runs():
    found = measured({"old": 50, "new": 60})
    verdict = compare(found["old"], found["new"], percentile=99, names=("old", "new"))
    assert verdict.verdict == "holds"
    assert "old / new = 0.8" in verdict.why and "at p99" in verdict.why
    assert "single runs" not in verdict.why
    single = compare(found["old"][0], found["new"][0], names=("old", "new"))
    assert "from single runs" in single.why and single.blocks == 1


RUNS = {block: [10.0 + block, 11.0, 12.0, 13.0 + block] * 20 for block in (1, 2, 3)}


def test_compare_is_at_hand_in_a_plain_prompt_and_takes_plain_lists_by_block():
    slower = {block: [3 * value for value in values] for block, values in RUNS.items()}
    assert labkit.compare(RUNS, slower).verdict == "holds"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fast", "the samples of a are not numbers"),
        (None, "dimensions|no numbers"),
        ([[1, 2], [3, 4]], "the samples of a have 2 dimensions, not 1"),
        ({1: [1, 2], 2: ["x"]}, "a in block 2 are not numbers"),
        ({1: [1, 2], 2: []}, "no samples of a in block 2"),
        ({}, "no samples of a"),
        ([], "no samples"),
    ],
)
def test_compare_says_what_is_wrong_with_samples_that_are_none(given, said):
    with pytest.raises(BadInput, match=said):
        compare(given, RUNS)


@pytest.mark.parametrize("statistic", [0, 100, 101, -1, math.nan])
def test_compare_refuses_a_percentile_that_cannot_be_meant(statistic):
    with pytest.raises(BadInput, match="between 0 and 100"):
        compare(RUNS, RUNS, statistic)


def test_compare_answers_an_unknown_statistic_or_a_lone_name_with_what_it_takes():
    with pytest.raises(BadInput, match="mean"):
        compare(RUNS, RUNS, "typical")
    with pytest.raises(BadInput, match="two names"):
        compare(RUNS, RUNS, names=("a", "a"))
