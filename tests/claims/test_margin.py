"""Too close to matter is a verdict, and a decided claim stays decided."""

from dataclasses import replace

import numpy as np
import pytest

from labkit import charts, noise_floor
from labkit.claim import Bound, Order, Shape, compare, judge
from labkit.claims.printed import FOLDER
from labkit.claims.published import read
from labkit.errors import BadInput
from labkit.noise_floor import Noise
from labkit.statistics.spending import levels
from labkit.verdict import SAME, looked

RNG = np.random.default_rng(24)


def pair(by=1.0, blocks=10, own=0.01):
    luck = RNG.normal(0, 0.05, blocks)
    return {
        name: {k: at * np.exp(luck[k] + RNG.normal(0, own)) * RNG.lognormal(4, 0.1, 400)
               for k in range(blocks)}
        for name, at in (("a", by), ("b", 1.0))
    }  # fmt: skip


def test_equal_conditions_are_the_same_within_the_margin_and_say_what_it_is():
    sides = pair()
    verdict = compare(sides["a"], sides["b"])
    assert verdict.verdict == SAME and verdict.margin == 0.05
    assert "within 0.952 to 1.050: too close to matter" in verdict.why


def test_a_difference_beyond_the_margin_is_never_the_same():
    verdicts = [compare(*pair(0.9).values()).verdict for _ in range(20)]
    assert SAME not in verdicts and "holds" in verdicts


def test_equal_by_a_wide_margin_and_undecided_by_a_narrow_one():
    sides = pair(own=0.03)
    assert compare(sides["a"], sides["b"], margin=0.2).verdict == SAME
    narrow = compare(sides["a"], sides["b"], margin=0.001)
    assert narrow.verdict == "undecided" and "more block" in narrow.why


@pytest.mark.parametrize("margin", [0, -0.1, 1.01, np.nan])
def test_a_margin_of_nothing_or_over_100_percent_is_refused(margin):
    sides = pair(blocks=3)
    order = Order("o", "s", "f", conditions=("a", "b"))
    for asked in (
        lambda: compare(sides["a"], sides["b"], margin=margin),
        lambda: judge([order], sides, margin=margin),
        lambda: judge([replace(order, margin=margin)], sides),
        lambda: charts.ratios(sides, "b", margin=margin),
    ):
        with pytest.raises(BadInput, match="margin lies above 0"):
            asked()


def test_an_order_with_an_equal_pair_is_the_same_and_a_difference_of_means_knows_it_too():
    sides = pair()
    sides["c"] = {k: 2 * v for k, v in sides["b"].items()}
    order = Order("o", "s", "f", conditions=("a", "b", "c"))
    assert order.judge(sides).verdict == SAME
    assert "1 of 2 clearly in order; a / b" in order.judge(sides).why
    moved = {name: {k: v - 10_000 for k, v in blocks.items()} for name, blocks in sides.items()}
    assert judge([Order("o", "s", "f", conditions=("a", "b"))], moved)[0].verdict == SAME


def test_flat_holds_by_two_one_sided_tests():
    flat = Shape("s", "s", "f", kind="flat", points={1: "a", 2: "b"}, within=1.1)
    assert flat.judge(pair()).verdict == "holds"


def test_the_margin_is_the_claims_own_else_the_labs_noise_else_5_percent():
    own = Order("o", "s", "f", conditions=("a", "b"), margin=0.3)
    plain = Order("p", "s", "f", conditions=("a", "b"))
    sides, floors = pair(own=0.03), {50: 0.12}
    found = {v.claim: v.margin for v in judge([own, plain], sides, floors=floors)}
    assert found == {"o": 0.3, "p": 0.12}
    assert judge([plain], sides)[0].margin == 0.05
    assert {v.margin for v in judge([own, plain], sides, floors=floors, margin=0.07)} == {0.07}
    assert judge([plain], sides, floors={50: 3.0})[0].margin == 0.2


def written(luck):
    """A band of 2 % around an equal pair, as a ratio and as a loss, of the same blocks."""
    sides = {"a": {k: 100.0 * np.exp(x) * np.ones(4) for k, x in enumerate(luck)},
             "b": {k: 100.0 * np.ones(4) for k in range(len(luck))}}  # fmt: skip
    ratio = Bound("r", "s", "f", what=("'a' / 'b'",), low=0.98, high=1.02, percentile="mean")
    loss = Bound("l", "s", "f", what=("1 - 'a' / 'b'",), low=-0.02, high=0.02, percentile="mean")
    return [judge([one], sides)[0] for one in (ratio, loss)]


@pytest.mark.parametrize(
    ("at", "own", "said"),
    [(-0.015, 0.002, "holds"), (-0.015, 0.012, "undecided"), (-0.0202, 0.003, SAME),
     (-0.05, 0.004, "contradicted"), (0, 0.05, "undecided")],
)  # fmt: skip
def test_a_band_is_judged_alike_as_a_ratio_and_as_a_loss(at, own, said):
    luck = at + own * np.array([-1.2, 0.4, 1.1, -0.3, 0.6, -0.9, 1.2, -0.9])
    ratio, loss = written(luck)
    assert (ratio.verdict, loss.verdict) == (said, said)
    assert ratio.more == pytest.approx(loss.more or 0, abs=3) if ratio.more else not loss.more


def test_a_margin_wider_than_a_claims_band_never_swallows_it():
    found = [written(x + 0.004 * np.array([-1.2, 0.4, 1.1, -0.3, 0.6, -0.9, 1.2, -0.9]))
             for x in np.linspace(-0.06, 0.06, 25)]  # fmt: skip
    for (ratio, loss), x in zip(found, np.linspace(-0.06, 0.06, 25), strict=True):
        assert ratio.verdict == loss.verdict
        assert ratio.verdict != SAME or 0.01 < abs(x) < 0.03


def noise(blocks, seed=0):
    rng = np.random.default_rng([blocks, seed])
    sides = [{k: np.exp(rng.normal(0, 0.05)) * rng.lognormal(4, 0.1, 400) for k in range(blocks)}
             for _ in range(2)]  # fmt: skip
    return Noise("s", "l", "c", "m", "us", blocks, noise_floor.levels(*sides), "")


def test_a_margin_never_grows_because_little_is_known_of_the_noise():
    few, many = (np.median([noise(n, seed).margins[50] for seed in range(15)]) for n in (5, 20))
    assert few <= 1.25 * many and 0.04 < many < 0.09
    assert noise(3).margins == {}, "a quick look leaves the margin at 5 %"


@pytest.mark.slow
def test_conditions_at_the_edge_of_the_margin_are_called_the_same_in_at_most_5_of_100():
    found = [compare(*pair(1.05, 6, 0.02).values(), margin=0.05) for _ in range(300)]
    same = sum(v.verdict == SAME for v in found)
    assert same <= 0.05 * 300 + 3 * np.sqrt(300 * 0.05 * 0.95)


def test_the_margin_that_a_document_prints_is_read_with_its_claim_and_a_senseless_one_refused():
    text = (FOLDER / "lat_ping.toml").read_text("utf-8")
    printed = text.replace("[[claim]]\n", "[[claim]]\nmargin = 0.02\n", 1)
    first, *others = read(printed, "lat_ping").claims
    assert first.margin == 0.02 and {claim.margin for claim in others} == {None}
    for senseless in ("0", "1.5"):
        with pytest.raises(BadInput, match="margin lies above 0"):
            read(printed.replace("0.02", senseless), "lat_ping")


CLAIMS = [
    Order("o-b", "s", "f", conditions=("a", "b")),
    Order("o-c", "s", "f", conditions=("a", "c")),
]


def measured(rng, blocks, b=1.0, c=1.0, own=0.05):
    by = {"a": 1.0, "b": b, "c": c}
    return {name: {k: at * np.exp(rng.normal(0, own)) * rng.lognormal(4, 0.1, 100)
                   for k in range(1, blocks + 1)} for name, at in by.items()}  # fmt: skip


def first(sides, blocks):
    return {name: {k: v for k, v in side.items() if k <= blocks[name]}
            for name, side in sides.items()}  # fmt: skip


def before(verdicts):
    return {key: one for v in verdicts for key, one in v.comparisons.items()}


def until_decided(sides, most):
    """The verdicts at each look; conditions that no open claim speaks of are measured no longer."""
    have, told, kept = dict.fromkeys("abc", 4), [], {}
    while True:
        told.append({v.claim: v for v in judge(CLAIMS, first(sides, have), before=kept)})
        kept = before(told[-1].values())
        names = {n for c in CLAIMS for n in c.names() if told[-1][c.id].verdict == "undecided"}
        grown = {n: have[n] + max(have[n] // 2, 1) for n in names}
        if not names or max(grown.values()) > most:
            return told
        have |= grown


def test_a_verdict_is_never_taken_back_and_the_other_goes_on_by_looks_of_its_own():
    rng, decided = np.random.default_rng(3), 0
    for b, c in ((1.1, 1.03), (1.2, 1.0), (1.1, 1.1)) * 4:
        told = until_decided(measured(rng, 45, b, c), 40)
        for claim in ("o-b", "o-c"):
            words = [look[claim].verdict for look in told]
            done = [word for word in words if word != "undecided"]
            assert words == ["undecided"] * (len(words) - len(done)) + done[:1] * len(done)
            decided += bool(done)
    assert decided > 15


def test_what_was_clear_stays_so_at_more_blocks_and_says_when_it_was_decided():
    rng = np.random.default_rng(5)
    far, equal = measured(rng, 4, b=1.5), measured(rng, 40)
    sides = {name: {**equal[name], **far[name]} for name in "abc"}
    early = judge(CLAIMS[:1], first(sides, dict.fromkeys("abc", 4)))
    late = judge(CLAIMS[:1], sides, before=before(early))[0]
    assert early[0].verdict == late.verdict == "holds" and late.looks == (4, 40)
    assert late.why.endswith("; decided at 4 blocks")
    assert judge(CLAIMS[:1], sides, looks=(4,))[0].verdict != "holds", "today it would not be clear"


def test_a_comparison_whose_blocks_did_not_grow_has_no_look():
    sides = measured(np.random.default_rng(6), 6)
    kept = before(judge(CLAIMS, first(sides, dict.fromkeys("abc", 4))))
    now = judge(CLAIMS, first(sides, {"a": 6, "b": 6, "c": 4}), before=kept)
    assert [v.looks for v in now] == [(4, 6), (4,)]


def test_the_interval_is_that_of_the_last_look():
    sides = measured(np.random.default_rng(7), 9, b=1.03)
    one, last = (judge(CLAIMS[:1], sides, looks=looks)[0] for looks in ((), (3, 5, 7)))
    assert last.low < one.low < one.effect < one.high < last.high
    assert levels((3, 5, 7, 9))[-1] < 0.01


@pytest.mark.slow
def test_two_equal_pairs_are_called_different_in_at_most_5_of_100_over_all_looks():
    rng, studies = np.random.default_rng(8), 150
    wrong = sum(
        any(v.verdict in ("holds", "contradicted") for v in until_decided(
            measured(rng, 20), 20)[-1].values())
        for _ in range(studies)
    )  # fmt: skip
    assert wrong <= 0.05 * studies + 3 * np.sqrt(0.05 * 0.95 * studies)


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ([], ""),
        ([((1,), 0.03)], "once, at 1 block: that took 3 %"),
        ([((5,), 0.03)], "once, at 5 blocks: that took 3 %"),
        ([((5,), 0.03), ((5, 8, 10), 0.042)], "3 times, at 5, 8 and 10 blocks: that took 4.2 %"),
    ],
)
def test_the_looks_of_the_claim_that_took_most_are_told(taken, said):
    whole = f"These results were judged {said} of the risk of 5 %."
    assert looked(taken) == (whole if said else "")
