"""`labkit campaign compare` finds what became worse, and rarely what did not."""

import re
import shutil
from xml.etree import ElementTree

import pytest
import synthetic
from campaigns import made_up

from labkit.campaign.compare import compare
from labkit.cli import main
from labkit.commands import campaign
from labkit.machine.units import more_is_better

pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/campaign/", "labkit/statistics/"),
]

SLOWER = {**synthetic.SHAPES, "VM-SRIOV": (90, 0.35), "VM-Default": (60, 0.45)}
WORSE = "VM-SRIOV, median"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Three campaigns of lat_ping: two alike, and one with VM-SRIOV slower, VM-Default faster."""
    place = tmp_path_factory.mktemp("compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_OUT", str(place))
        for name, seed, shapes in (("old", 0, None), ("same", 1, None), ("new", 2, SLOWER)):
            made_up(place, name, 3, seed, shapes)
        made_up(place, "alone", 1, 3)
        made_up(place, "alone-again", 1, 4)
    return place


@pytest.fixture(autouse=True)
def _there(out, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(out))


@pytest.fixture
def compared(typed):
    return lambda *words, code=0: typed("campaign", "compare", *words, code=code)


def test_a_regression_and_an_improvement_are_found_with_their_intervals(compared):
    answer = compared("old", "new", "--json", code=1)
    found = {one["what"]: one for one in answer["comparisons"]}
    assert not answer["passed"]
    worse, better = found[WORSE], found["VM-Default, median"]
    assert worse["outcome"] == "regression" and better["outcome"] == "improvement"
    effect = worse["verdict"]
    assert effect["low"] < 1.5 < effect["high"] and effect["low"] > 1.1
    (among,) = {one["verdict"]["among"] for one in answer["comparisons"]}
    assert 8 < among <= len(answer["comparisons"]), "all that can be tested share one risk"
    assert found["Native, median"]["outcome"] in ("the same", "not clearly other")
    assert "a repetition is the unit" in answer["units"]


def test_comparisons_without_a_test_are_counted_beside_those_that_share_the_risk(compared):
    answer, said = compared("old", "new", "--json", code=1), compared("old", "new", code=1)
    among = max(one["verdict"]["among"] for one in answer["comparisons"])
    number, words = len(answer["comparisons"]), " ".join(said.split())
    assert among < number and f": {number} comparisons: " in words
    assert re.search(rf"{number - among} of {number} comparisons lacks? values for a test", words)
    assert f"All {among} others share one risk" in words


def test_a_report_of_what_ran_before_speaks_of_no_box(typed, monkeypatch):
    monkeypatch.setattr(campaign, "_boxes", lambda _: ["box       stays up"])
    said = typed("campaign", "report", "old")
    assert "report    " in said and "stays up" not in said


def test_a_claim_that_holds_no_longer_is_a_regression(compared):
    answer = compared("old", "new", "--json", code=1)
    claims = [one for one in answer["comparisons"] if one["claim"]]
    assert claims
    for claim in claims:
        lost = claim["old"] == "holds" and claim["new"] == "contradicted"
        assert (claim["outcome"] == "regression") <= lost
    assert any(claim["outcome"] == "regression" for claim in claims), [
        (claim["claim"], claim["old"], claim["new"], claim["outcome"]) for claim in claims
    ]


@pytest.mark.parametrize("pair", [("old", "same"), ("alone", "alone-again")])
def test_what_did_not_change_passes(compared, pair):
    assert "regression" not in compared(*pair)
    assert compared(*pair, "--markdown").startswith("**Passed: ")


def test_with_few_repetitions_it_says_that_sessions_are_not_known(compared):
    answer = compared("alone", "alone-again", "--json")
    assert "with fewer than 3 repetitions a block is the unit" in answer["units"]


@pytest.mark.slow
def test_a_change_that_is_smaller_than_asked_for_does_not_matter(compared):
    answer = compared("old", "new", "--least", "0.9", "--json", code=1)
    found = {load["what"]: load for load in answer["comparisons"]}
    assert found[WORSE]["outcome"] == "the same"
    with pytest.raises(SystemExit, match="2"):
        main(["campaign", "compare", "old", "new", "--least", "5"])


def test_a_table_for_a_comment_names_the_regression_first(compared):
    said = compared("old", "new", "--markdown", code=1)
    assert said.startswith("**Failed: new against old: ")
    rows = [line for line in said.splitlines() if line.startswith("| lat")]
    assert "regression" in rows[0] and "share one risk of 5 %" in said


def test_a_test_report_has_a_case_for_each_figure_and_fails_for_the_worse(compared):
    root = ElementTree.fromstring(compared("old", "new", "--junit", code=1))
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert "regression: +" in cases[WORSE].find("failure").get("message")
    assert cases["VM-Default, median"].find("failure") is None
    (suite,) = root
    failures = [case for case in cases.values() if case.find("failure") is not None]
    assert int(suite.get("failures")) == len(failures) < int(suite.get("tests")) == len(cases)


def test_a_point_that_is_missing_fails_a_gate(out, compared):
    folder = made_up(out, "half", 1, 5)
    for file in (folder.path / "points").glob("*/attempt-1.json"):
        file.unlink()
    assert "have no finished point in common" in compared("alone", "half", code=1)
    shutil.rmtree(folder.path)


@pytest.mark.slow
def test_points_that_only_the_old_one_has_are_named(out, compared):
    both = made_up(out, "both", 1, 6, sweep=[300, 301])
    point = next(one for one in both.points if one.values["count"] == 301)
    one = made_up(out, "one", 1, 7, sweep=[300, 301])
    shutil.rmtree(one.of(next(p for p in one.points if p.values["count"] == 301)))
    lost = compared("both", "one", "--json", code=1)["lost"]
    assert lost == [f"lat_ping ({point.said})"]
    report = ElementTree.fromstring(compared("both", "one", "--junit", code=1))
    assert report.find(".//error") is not None


def test_a_condition_that_is_measured_no_longer_fails_a_gate(out, compared):
    lacking = made_up(out, "lacking", 1, 8)
    attempt = lacking.attempts(lacking.points[0])[0]
    for run in (lacking.results(attempt) / "runs").glob("*VM-SRIOV-b*"):
        shutil.rmtree(run)
    lost = compared("alone", "lacking", "--json", code=1)["lost"]
    assert lost == ["lat_ping (count=300): VM-SRIOV"]


@pytest.mark.slow
def test_a_folder_that_was_moved_is_compared_as_before(out, tmp_path, compared):
    before = compared("old", "new", "--json", code=1)
    shutil.copytree(out, tmp_path / "elsewhere")
    assert compared(tmp_path / "elsewhere/campaigns/old", "new", "--json", code=1) == before


def test_an_unknown_campaign_is_answered_with_the_known_ones(compared):
    assert "known: alone, alone-again, " in compared("old", "odl", code=1)


@pytest.mark.parametrize("metric, unit, more", [
    ("round trip", "us", False), ("migration time", "s", False), ("throughput", "1/s", True),
    ("performance", "1", True), ("bandwidth", "MB/s", True), ("share", "1", None),
])  # fmt: skip
def test_less_time_and_more_work_are_better(metric, unit, more):
    assert more_is_better(metric, unit) is more


@pytest.mark.torture
def test_equal_campaigns_are_rarely_called_unlike(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    wrong = 0
    for number in range(60):
        a = made_up(tmp_path, f"a{number}", 3, 1000 + 40 * number)
        b = made_up(tmp_path, f"b{number}", 3, 1020 + 40 * number)
        found = compare(a, b, 0.0)
        outcomes = {one.outcome for one in found.comparisons}
        wrong += bool(outcomes & {"regression", "improvement", "changed"})
        assert found.found()
    assert wrong <= 8, "of 60 at a risk of 5 %, nine and more happen once in 300"
