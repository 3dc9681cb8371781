"""What was measured of a claim is shown whether or not it can be tested, and answers its study."""

import re
from dataclasses import replace

import numpy as np
import pytest

from labkit import studies
from labkit.claim import Bound, Ratio, judge
from labkit.claims import published
from labkit.claims.published import Headline
from labkit.errors import BadInput
from labkit.judging import judged
from labkit.judging.finding import (
    GUESTS,
    AnswerFigure,
    find_figure,
    headlines,
    local_figure,
    sentence,
)
from labkit.pages.tables import verdict_table
from labkit.reason import figures
from labkit.results import Results
from labkit.running.open_lab import recorded
from labkit.statistics.comparison import Effect
from labkit.statistics.quantity import Quantity
from labkit.study import Reading


def blocks(level, many=5):
    rng = np.random.default_rng(int(level))
    return {k: level * np.exp(0.01 * rng.standard_normal(50)) for k in range(many)}


@pytest.mark.parametrize("level, says", [(50, "agrees"), (90, "differs"), (62.5, "unclear")])
def test_a_figure_of_an_untestable_claim_agrees_differs_or_is_unclear(level, says):
    half = Ratio("r", "half", "", over="a", under="b", published=0.5, within=1.25, hardware="why")
    measured = {"a": blocks(level), "b": blocks(100)}
    seen = local_figure(half, half.not_testable(), measured, {}, GUESTS)
    assert (seen.says, seen.reach) == (says, GUESTS)
    assert seen.effect.value == pytest.approx(level / 100, rel=0.01)
    assert "the document: 0.5" in str(seen) and says in str(seen)


def test_few_blocks_are_shown_one_by_one_and_what_was_not_measured_is_nothing():
    below = Bound("b", "s", "", ("'a' / 'b'",), high=1.0)
    measured = {"a": blocks(50, 3), "b": blocks(100, 3)}
    seen = local_figure(below, below.not_testable(), measured, {}, GUESTS)
    assert len(seen.effect.each) == 3 and "blocks: " in str(seen)
    assert local_figure(below, below.not_testable(), {"a": blocks(50)}, {}, GUESTS) is None


def test_the_figure_beside_the_reasons_is_written_once():
    """Whether it decides the claim, or leaves it open."""
    below = Ratio("b", "s", "", over="a", under="b", published=0.5, within=1.25)
    for level in (50, 90, 62.5):
        measured = {"a": blocks(level), "b": blocks(100)}
        (verdict,) = judge([below], measured)
        seen = local_figure(below, verdict, measured, {}, GUESTS)
        alone, beside = verdict.why, replace(verdict, local=seen).why
        assert alone.startswith("a / b = ") and "a / b" in str(seen)
        assert beside and "a / b" not in beside, beside


def test_an_answer_says_how_large_between_what_and_what_the_document_says():
    reading = Reading.of(studies.find("docker_linpack"), Results.open(recorded("docker_linpack")))
    verdicts = judged(reading)
    said, figure = sentence(reading, verdicts), find_figure(reading, verdicts).effect
    share = rf"a guest keeps {100 * figure.value:.0f} % of the bare machine's LINPACK speed"
    assert re.search(rf"{share}, \d+ to \d+ % in \d+ repeats; the document says 95 %", said)
    untestable = [v for v in verdicts if v.verdict == "not testable here"]
    assert untestable and all(v.local for v in untestable)
    assert "emulated guests" in verdict_table(verdicts).text()
    assert verdicts[0].told()["local"]["says"] in ("agrees", "differs", "unclear")


ANSWERED = [study for study in studies.names() if headlines(study)]


@pytest.mark.parametrize("each", [(1.13691,), (1.13691, 1.13691 + 1e-12), (1.1369, 1.1371)])
def test_equal_blocks_are_written_with_no_more_digits_than_are_known(each):
    headline = replace(headlines("docker_linpack")[0], says="{}", form="percent")
    said = str(
        AnswerFigure(headline, Effect("x", each[0], None, None, len(each), each=each), GUESTS, True)
    )
    assert max(len(digits) for digits in re.findall(r"113\.(\d+)|$", said)) <= 2, said


@pytest.mark.parametrize("each, says", [
    ((6, 6, 6), "Bears 6 users, in each of 3 repeats; the document gives no figure."),
    ((6, 5, 7), "Bears 6 users, 5 to 7 in 3 repeats; the document gives no figure."),
    ((6.5,), "Bears 6.5 users, in 1 repeat; the document gives no figure."),
])  # fmt: skip
def test_users_are_whole_and_equal_repeats_are_no_range(each, says):
    headline = Headline("bears {}", Quantity("'a'"), "number", "horizon-rdsh-01", "", "users")
    effect = Effect("x", each[0], None, None, len(each), each=tuple(map(float, each)))
    assert str(AnswerFigure(headline, effect, GUESTS, True)).startswith(says)


def test_blocks_on_both_sides_of_1_may_differ_by_chance_but_a_loss_of_all_is_one():
    ratio, loss = headlines("dvdstore_docker")[0], headlines("docker_overview")[0]
    effect = Effect("x", 0.97, None, None, 3, each=(0.81, 0.97, 1.22))
    assert "so the difference may be chance" in str(AnswerFigure(ratio, effect, GUESTS, True))
    assert "chance" not in str(AnswerFigure(loss, effect, GUESTS, True))
    near = replace(effect, value=1.0, each=(0.96, 1.0, 1.02))
    assert "so hardly any difference" in str(AnswerFigure(ratio, near, GUESTS, True))


def test_a_doubt_stands_before_what_was_found_and_no_end_but_1_is_written_as_1():
    ratio = replace(headlines("lat_feature")[0], says="takes {} as long", form="times")
    effect = Effect("x", 0.74, 0.53, 1.04, 4)
    figure = AnswerFigure(ratio, effect, GUESTS, True)
    assert figure.statement == "No clear difference: takes 0.74 times as long"
    assert figure.extent == "0.53 to 1.04 in 4 repeats" and figure.is_interval
    clear = AnswerFigure(ratio, replace(effect, high=0.96), GUESTS, True)
    assert clear.statement.startswith("Takes 0.74") and clear.clear == "a clear difference"


@pytest.mark.parametrize("what, unit", [
    ("'a'", "Mbit/s"), ("'a' / 4", "Mbit/s"), ("'a' - 'b'", "Mbit/s"), ("'a' / 'b'", ""),
    ("'a' * 'b'", ""), ("variation('a')", ""), ("p(50, 'a') - p(99, 'b')", "Mbit/s"),
])  # fmt: skip
def test_a_figure_has_the_unit_of_what_it_is_of_and_no_exponent(what, unit):
    claim = Bound("b", "s", "", (what,), high=40_000.0, hardware="why")
    measured, units = {"a": blocks(12_000), "b": blocks(2_000)}, {"a": "Mbit/s", "b": "Mbit/s"}
    seen = local_figure(claim, claim.not_testable(), measured, {}, GUESTS, units)
    assert seen.unit == unit and "e+" not in str(seen)
    if what == "'a'":
        assert str(seen).startswith("a = 12,000 Mbit/s (11,") or " = 12,000 Mbit/s" in str(seen)
    of_parts = local_figure(claim, claim.not_testable(), measured, {}, GUESTS, {"a": "share"})
    assert of_parts.unit == ""


def test_a_figure_of_two_percentiles_is_at_neither():
    claim = Bound("b", "s", "", ("p(50, 'a') - p(99, 'b')",), high=1.0, hardware="why")
    measured = {"a": blocks(12), "b": blocks(20)}
    assert "at the median" not in str(local_figure(claim, claim.not_testable(), measured, {}, ""))


def test_the_recorded_studies_know_how_to_answer():
    assert len(ANSWERED) >= 22


@pytest.mark.parametrize("study", ANSWERED)
def test_an_answer_is_a_figure_of_a_claim_of_its_study(study):
    ways = headlines(study)
    known = {claim.id for claim in studies.find(study).claims}
    assert all(way.claim in known for way in ways)
    assert all(way.document for way in ways) or study == "horizon_rdsh", "it gives no figure"


@pytest.mark.parametrize("key, value, what", [
    ("claim", "no-01", "claim of the answer"), ("form", "many", "form of answer"),
    ("says", "no place", "has {} once"), ("what", "'a' +", "is not a quantity"),
])  # fmt: skip
def test_an_answer_that_cannot_be_meant_is_refused_with_its_place(key, value, what):
    text = (published.FOLDER / "docker_linpack.toml").read_text("utf-8")
    head, mark, answer = text.partition("[[answer]]")
    wrong = re.sub(rf"^{key} = .*$", f'{key} = "{value}"', answer, flags=re.MULTILINE)
    with pytest.raises(BadInput, match=re.escape(what)) as error:
        published.read(head + mark + wrong, "docker_linpack")
    assert "docker_linpack.toml:" in error.value.what


@pytest.mark.parametrize("low, high, text", [
    (0.00126599, 0.00126599, "x = 0.00127 s (in each of 4 blocks)"),
    (0.00126, 0.00127, "x = 0.001266 s (0.001260 to 0.001270)"),
])  # fmt: skip
def test_equal_blocks_have_no_interval_of_the_same_number_twice(low, high, text):
    assert figures(Effect("x", 0.001266, low, high, 4), " s") == text


def test_conditions_at_a_point_are_in_the_order_of_the_study_not_of_its_first_block():
    study = studies.find("hadoop_v6")
    sorts = list(study.at(Results.open(recorded(study.name)), "job=sort"))
    assert sorts == [c.name for c in study.conditions if c.name in sorts] and len(sorts) > 6
