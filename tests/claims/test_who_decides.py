"""Who can decide a claim is what verdicts say."""

import re

import numpy as np
import pytest
from planted import judged, planted
from who_decides import PAGE, markdown, page

from labkit import studies
from labkit.claim import NotHere
from labkit.errors import BadInput
from labkit.judging import judge
from labkit.judging.doubts import unhurried
from labkit.machine.places import HOME
from labkit.results import Results
from labkit.running.deciders import LABS, deciders, rows
from labkit.running.open_lab import recorded
from labkit.study import Reading
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME

DECISIONS = PAGE.with_name("decisions.md")
ARGUED = dict(
    re.findall(r"^\| `([a-z0-9-]+-\d+)` \| (holds|contradicted|same) \| .+ \|$",
               DECISIONS.read_text("utf-8").partition("## Decided on emulated labs")[2], re.M)
)  # fmt: skip
WORDS = {SAME: "same"}
DECIDED = (HOLDS, CONTRADICTED, SAME)
RECORDED = sorted(file.stem for file in (HOME / "data/recorded").glob("*.labkit"))


def test_the_page_of_who_decides_is_the_generated_table():
    found = [studies.find(name) for name in studies.names()]
    assert markdown(found) in PAGE.read_text("utf-8"), "labkit studies --write"


@pytest.mark.slow
def test_the_page_is_written_as_it_stands_and_counts_of_another_day_are_put_right():
    found = [studies.find(name) for name in studies.names()]
    text = PAGE.read_text("utf-8")
    old = re.sub(r"\d+ of \d+ \|", "1 of 2 |", text).replace("| lat-ping-01 |", "| gone-01 |")
    assert page(text, found) == text and page(old, found) == text != old
    with pytest.raises(BadInput, match="no table of claims"):
        page("# Nothing", found)


def test_each_claim_of_each_study_is_in_the_table_with_a_reason_for_each_no():
    found = [studies.find(name) for name in studies.names()]
    listed = {row["claim"]: row for row in rows(found)}
    assert set(listed) == {claim.id for study in found for claim in study.claims}
    for row in listed.values():
        assert bool(row["why not"]) == ("no" in [row[lab] for lab in LABS]), row
    nobody = {name for name, row in listed.items() if {row[lab] for lab in LABS} == {"no"}}
    assert {"lat-feature-02", "lat-feature-03", "lat-feature-06"} <= nobody
    assert listed["lat-feature-04"]["ESXi"] == "yes", "asked for and seen there"


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_box_leaves_untested_just_what_no_box_of_two_cpus_decides(name):
    study = studies.find(name)
    results = Results.open(recorded(name))
    by = {claim.id: deciders(study, claim)[0].why for claim in study.claims}
    verdicts = judge(study, results)
    judged = {one.claim: one.verdict == NOT_TESTABLE for one in verdicts}
    low = unhurried(Reading.of(study, results))
    extra = {claim for claim in judged if judged[claim] and not by[claim] and claim not in low}
    assert not extra, "the table promises what a box does not decide"
    assert not {claim for claim in judged if by[claim] and not judged[claim]}
    if results.asked["lab"]["tier"] != "hosts":
        plain = {one.claim: one.verdict for one in verdicts if one.verdict in DECIDED}
        argued = {claim: verdict for claim, verdict in ARGUED.items() if study_of(claim) == name}
        assert {claim: WORDS.get(said, said) for claim, said in plain.items()} == argued


def study_of(claim):
    return claim.rpartition("-")[0].replace("-", "_")


@pytest.mark.slow
@pytest.mark.parametrize("claim", ARGUED)
def test_a_verdict_of_an_emulated_lab_could_have_been_the_other(claim, tmp_path):
    """By the facts of the lab that was recorded: its tier, kernels and CPUs."""
    study = studies.find(study_of(claim))
    facts = dict(Results.open(recorded(study.name)).asked)
    (asked,) = [one for one in study.claims if one.id == claim]
    found, rng = set(), np.random.default_rng(1)
    for number, levels in enumerate(planted(asked, rng)):
        kept = Results.begin(tmp_path / str(number), facts)
        found.add(judged(study, claim, levels, kept).verdict)
        if {HOLDS, CONTRADICTED} <= found:
            return
    pytest.fail(f"{claim} can only be {found}")


def test_what_nothing_could_contradict_is_decided_by_nobody():
    study = studies.find("sqlserver_monster")
    (claim,) = [one for one in study.claims if isinstance(one, NotHere)]
    assert {decider.why for decider in deciders(study, claim)} == {claim.why}


def test_the_page_counts_what_each_lab_decides():
    text = PAGE.read_text("utf-8")
    listed = rows([studies.find(name) for name in studies.names()])
    for lab in LABS:
        yes = sum(row[lab] == "yes" for row in listed)
        assert re.search(rf"^\| {lab} \| {yes} of {len(listed)} \|$", text, re.MULTILINE), lab


def test_the_readme_counts_as_the_page_does():
    counts = dict(re.findall(r"^\| ([\w ]+) \| (\d+) of \d+ \|$", PAGE.read_text("utf-8"), re.M))
    number = len(rows([studies.find(name) for name in studies.names()]))
    text = (HOME / "README.md").read_text("utf-8")
    assert f"decide [{counts['box']} of {number} claims]" in text
    assert f"or {counts['box with KVM']} where KVM" in text
    assert f"decide {counts['KVM']} by KVM, {counts['ESXi']} by ESXi" in text


MOVED = re.compile(
    r"^\| `([a-z0-9-]+)-(\d+)` \| ([a-z ]+) \| ([a-z ]+) \| ([a-z ]+) \| .+ \|$", re.M
)


@pytest.mark.slow
def test_verdicts_that_moved_with_the_question_are_what_the_page_says_of_today():
    """Those that no box decides; the others are of runs that may be made again."""
    rows = MOVED.findall(DECISIONS.read_text("utf-8"))
    assert len(rows) == 7 and all(before != after for _, _, before, after, _ in rows)
    stays = [(name, number) for name, number, *_, today in rows if today == NOT_TESTABLE]
    verdicts = {
        found.claim: found.verdict
        for name in dict.fromkeys(name.replace("-", "_") for name, _ in stays)
        for found in judge(studies.find(name), Results.open(recorded(name)))
    }
    assert len(stays) == 7
    assert {verdicts[f"{name}-{number}"] for name, number in stays} == {NOT_TESTABLE}
