"""Studies that stop by themselves: when all is decided, or when the minutes are spent."""

import shutil
import time

import pytest
from synthetic import write_results

from labkit import studies
from labkit.claim import Order, Ratio
from labkit.condition import Condition
from labkit.errors import BadInput, ResultsError
from labkit.judging import judge
from labkit.pages import tables
from labkit.pages.scorecard import scorecard
from labkit.results import Results
from labkit.running import loop, until_decided
from labkit.running.notebook import notebook, read_parameters
from labkit.runs import bundle, looks
from tests.running.test_study import a_study as study_of

PROGRAMS = ("ping",)

pytestmark = pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")

NEAR = Ratio("near", "b takes as long as a", "", over="b", under="a", published=1, within=40)
# What else these tests run beside would leave all undecided.
BUSY = ("load generator",)
TWICE = Order("twice", "c is quicker than a by far", "", conditions=("'c' * 90", "'a'"))


def a_study(*claims):
    conditions = [Condition(name, name, name, expects=BUSY) for name in "abc"]
    return study_of(*conditions, claims=claims, count=25)


def begun(study, tmp_path):
    return Results.begin(tmp_path / "results", study.asked("loopback", 1))


@pytest.mark.slow
def test_it_stops_at_the_first_look_at_which_all_is_decided(lab, tmp_path):
    study = a_study(NEAR, TWICE)
    results = begun(study, tmp_path)
    loop.run(study, lab, results, repeats="until decided in 5 minutes")
    verdicts = {v.claim: v.verdict for v in judge(study, results)}
    assert verdicts == {"near": "holds", "twice": "contradicted"}
    # A machine with other work may need a second look; after the last, nothing is measured.
    first, *_, last = (*looks.taken(results), *looks.taken(results)[-1:])
    assert first == until_decided.FIRST_BLOCKS <= last == max(run.block for run in results.runs())
    assert results.gaps() == []


@pytest.mark.slow
def test_it_goes_on_with_the_conditions_in_doubt_and_keeps_to_its_budget(lab, tmp_path):
    # Two equal conditions, told apart by less than any ping can see: never to be decided.
    doubt = Order("doubt", "a below b", "", conditions=("a", "b"), margin=1e-9)
    study = a_study(TWICE, doubt)
    results, told, began = begun(study, tmp_path), [], time.monotonic()
    loop.run(study, lab, results, repeats="until decided in 0.3 minutes", tell=told.append)
    assert time.monotonic() - began < 60
    counts = {name: sum(run.condition == name for run in results.finished()) for name in "abc"}
    assert counts["a"] == counts["b"] > counts["c"] == until_decided.FIRST_BLOCKS or (
        any("doubt is not decided" in one.remark for one in told)
    )
    given_up = {v.claim: v.given_up for v in judge(study, results) if v.verdict == "undecided"}
    assert given_up == {claim: one.why for claim, one in looks.given_up(results).items()}
    assert [run.looks for run in results.runs()] == sorted(run.looks for run in results.runs())
    assert results.gaps() == []


@pytest.mark.parametrize("repeats, what", [
    ("until decided in 0.001 minutes", "allows no block"), ("until decided in 0 min", "budget"),
    ("until decided in 99999 minutes", "budget"), ("until dinner", "number of blocks"),
    ("until decided in -3 minutes", "above 0"),
])  # fmt: skip
def test_a_budget_that_allows_no_block_is_refused_and_nothing_is_lost(lab, tmp_path, repeats, what):
    study = a_study(NEAR)
    results = begun(study, tmp_path)
    with pytest.raises(BadInput, match=what):
        loop.run(study, lab, results, repeats=repeats)
    assert results.runs() == []


@pytest.fixture
def undecided(tmp_path):
    """Results of a study whose first claim is open: of three blocks of few pings."""
    found = studies.find("lat_ping")
    results = write_results(tmp_path / "results" / "lat_ping" / "one", found, repeats=3, count=60)
    assert any(v.verdict == "undecided" for v in judge(found, results))
    return found, results


def give_up(study, results):
    """What a budget without a minute left makes of the claims that are open."""
    stage = until_decided.Stage(study.conditions, 0)
    stage = until_decided.following(study, results, stage, until_decided.Budget(1e-6))
    assert not stage.conditions and stage.given_up
    looks.give_up(results, stage.given_up)
    return stage.given_up


@pytest.mark.slow
def test_claims_that_are_given_up_are_kept_in_the_results_and_shown(undecided, tmp_path):
    study, results = undecided
    open_ones = {v.claim for v in judge(study, results) if v.verdict == "undecided"}
    assert give_up(study, results).keys() == open_ones
    verdicts = {v.claim: v for v in judge(study, Results.open(results.path))}
    assert {name for name, v in verdicts.items() if v.given_up} == open_ones
    for name in open_ones:
        assert "more block" in verdicts[name].given_up
        assert verdicts[name].why.endswith(f"; given up, {verdicts[name].given_up}")
    assert "given up, not decided for this budget" in tables.verdict_table(verdicts.values()).html()
    card = scorecard(results.path, study="lat_ping")
    assert {line.claim for line in card.lines if line.told()["given_up"]} == open_ones
    assert "given up" in card.text()
    bundle.export(results, tmp_path / "one.labkit")
    imported = Results.open(bundle.open_bundle(tmp_path / "one.labkit"))
    assert looks.given_up(imported) == looks.given_up(results)


@pytest.mark.slow
def test_what_was_given_up_is_open_again_once_there_are_more_blocks(undecided):
    study, results = undecided
    given_up = give_up(study, results)
    whole = write_results(results.path.parent / "two", study, repeats=4, count=60)
    shutil.copy(results.path / looks.FILE, whole.path)
    assert looks.given_up(whole) == given_up
    assert not any(v.given_up for v in judge(study, whole))
    assert looks.taken(whole) == (3, 4) and looks.given_up(whole) == given_up


@pytest.mark.slow
def test_a_claim_is_given_up_before_there_was_a_look_too(tmp_path):
    study = studies.find("lat_ping")
    results = write_results(tmp_path / "results" / "lat_ping" / "one", study, repeats=2, count=60)
    given_up = give_up(study, results)
    assert looks.taken(results) == () and looks.given_up(Results.open(results.path)) == given_up
    assert {v.claim for v in judge(study, results) if v.given_up} == given_up.keys()


@pytest.mark.parametrize("kept", ["[]", '{"a": 3}', '{"a": {"blocks": "3", "why": "x"}}'])
def test_a_list_of_looks_that_gives_up_nonsense_is_refused(undecided, kept):
    study, results = undecided
    text = f'{{"format": 1, "blocks": [3], "at": ["x"], "given_up": {kept}}}'
    (results.path / looks.FILE).write_text(text)
    with pytest.raises(ResultsError, match="is not a list of looks"):
        judge(study, results)


@pytest.mark.slow
def test_a_claim_that_was_given_up_is_not_taken_up_by_half_of_its_conditions(undecided):
    study, results = undecided
    given_up = give_up(study, results)
    stage = until_decided.Stage(study.conditions[:1], 1, given_up)
    assert until_decided.following(study, results, stage, until_decided.Budget(600)).blocks == 0


def test_the_parameter_of_a_notebook_takes_it_too():
    source = notebook("lat_ping")
    words = "until decided in 7 min"
    assert read_parameters(source, {"repeats": words}) == {"repeats": words}
    assert until_decided.asked(words).minutes == 7
    assert until_decided.asked("until decided").minutes == until_decided.MINUTES
    with pytest.raises(BadInput, match="whole number"):
        read_parameters(source, {"repeats": "many"})
