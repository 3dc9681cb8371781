"""Who can decide a claim is what verdicts say, and doubts of the runs stand in a verdict's line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from planted import judged, planted

from labkit import studies
from labkit.claim import NotHere, compare
from labkit.claims.doubts import SPOILS, Doubts
from labkit.claims.loads import Loads
from labkit.errors import BadInput
from labkit.gates.gate import BUSY_CLIENT
from labkit.results import Results, Run
from labkit.running.open_lab import recorded
from labkit.running.who_decides import LABS, PAGE, deciders, markdown, page, rows
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME, UNDECIDED
from labkit.workloads.fio import Fio
from labkit.workloads.sockperf import Sockperf

DECISIONS = PAGE.with_name("decisions.md")
ARGUED = dict(
    re.findall(r"^\| `([a-z0-9-]+-\d+)` \| (holds|contradicted|same) \| .+ \|$",
               DECISIONS.read_text("utf-8").partition("## Decided on emulated labs")[2], re.M)
)  # fmt: skip
WORDS = {SAME: "same"}
DECIDED = (HOLDS, CONTRADICTED, SAME)
BUSY = {"client": {BUSY_CLIENT: "cpu0 was busy for 100.0 % of the time"}}
NO_TIME = SPOILS[BUSY_CLIENT]
ASKING = (Sockperf(),)


def test_the_page_of_who_decides_is_the_generated_table():
    found = [studies.find(name) for name in studies.names()]
    assert markdown(found) in PAGE.read_text("utf-8"), "labkit studies --deciders"


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
@pytest.mark.parametrize("name", [n for n in studies.names() if not studies.find(n).draft])
def test_a_recorded_box_leaves_untested_just_what_no_box_of_two_cpus_decides(name):
    study = studies.find(name)
    results = Results.open(recorded(name))
    by = {claim.id: deciders(study, claim)[0].why for claim in study.claims}
    verdicts = study.judge(results)
    judged = {one.claim: one.verdict == NOT_TESTABLE for one in verdicts}
    extra = {claim for claim in judged if judged[claim] and not by[claim]}
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


@dataclass
class Kept:
    """Results of these runs alone."""

    runs: list
    asked: dict = field(default_factory=dict)

    def readable(self):
        return self.runs, []


def run(condition, block, state="finished", gates=None):
    return Run(condition, block, block, state, "", {}, gates=gates or {})


def verdict_of(low, high):
    blocks = [{n: [base + n / 10 + k / 100 for k in range(40)] for n in range(5)}
              for base in (low, high)]  # fmt: skip
    return compare(*blocks, names=("a", "b"))


@pytest.mark.parametrize("low, high, plain", [(10, 20, HOLDS), (20, 10, CONTRADICTED)])
@pytest.mark.parametrize("busy, borne, latency, undecided", [
    (5, (), True, True), (3, (), True, True), (2, (), True, False),
    (5, (BUSY_CLIENT,), True, False), (5, (), False, False),
])  # fmt: skip
def test_a_busy_client_leaves_a_latency_undecided_unless_tolerated_by_name(
    low, high, plain, busy, borne, latency, undecided
):
    runs = [run("a", n, gates=BUSY if n < busy else None) for n in range(5)]
    runs += [run("b", n) for n in range(5)]
    doubts = Doubts(Kept(runs), {"a": borne, "b": borne})
    before = verdict_of(low, high)
    assert before.verdict == plain
    found = doubts.on(before, {"a", "b"}, latency, ASKING)
    assert found.verdict == (UNDECIDED if undecided else plain)
    told = f"{NO_TIME} in {busy} of 10 runs"
    assert (told in found.why) is (not borne), "what is not decisive is said all the same"


def test_doubts_of_other_conditions_are_not_those_of_a_claim():
    runs = [run("a", 1), run("b", 1), run("c", 1, gates=BUSY), run("c", 1, "invalid")]
    doubts = Doubts(Kept(runs), {}, ["c: 1 of 1 runs were still changing in their second half"])
    before = verdict_of(10, 20)
    assert doubts.on(before, {"a", "b"}, True, ASKING) == before
    why = doubts.on(before, {"a", "c"}, False, ASKING).why
    assert "1 invalid run" in why and "still changing" in why and NO_TIME in why
    # What runs on the server alone is asked by nobody.
    assert NO_TIME not in doubts.on(before, {"a", "c"}, True, (Fio(),)).why


def test_a_claim_is_doubted_by_the_load_alone_that_gave_its_metric():
    study, results = studies.find("docker_netperf"), Results.open(recorded("docker_netperf"))
    loads = Loads(study, results)
    named = {claim.id: [one.name for one in loads.of(claim)] for claim in study.claims}
    assert named["docker-netperf-01"] == ["streams"] and named["docker-netperf-02"] == ["netperf"]
    assert all(len(names) == 1 for names in named.values())


def test_what_nothing_could_contradict_is_decided_by_nobody():
    study = studies.find("sqlserver_monster")
    (claim,) = [one for one in study.claims if isinstance(one, NotHere)]
    assert {one.why for one in deciders(study, claim)} == {claim.why}


def test_the_page_counts_what_each_lab_decides():
    text = PAGE.read_text("utf-8")
    listed = rows([studies.find(name) for name in studies.names()])
    for lab in LABS:
        yes = sum(row[lab] == "yes" for row in listed)
        assert re.search(rf"^\| {lab} \| {yes} of {len(listed)} \|$", text, re.MULTILINE), lab


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
        for found in studies.find(name).judge(Results.open(recorded(name)))
    }
    assert len(stays) == 7
    assert {verdicts[f"{name}-{number}"] for name, number in stays} == {NOT_TESTABLE}
