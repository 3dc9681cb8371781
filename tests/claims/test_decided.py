"""A decided claim stays decided: its looks are its own, and what was crossed stays crossed."""

import numpy as np
import pytest

from labkit.claim import Order, judge
from labkit.statistics.spending import levels
from labkit.verdict import looked

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
