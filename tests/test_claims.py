"""The claims of all documents: each there once, testable, with its source and its conditions."""

import re

import numpy as np
import pytest

from labkit import studies
from labkit.claim import NotHere, judge
from labkit.claims import published
from labkit.errors import BadInput, Unknown

# How many claims each document makes in each study.
COUNTS = {
    "lat_feature": 7, "lat_ping": 7, "lat_netperf": 6, "lat_10us": 5, "lat_cpu_exclusive": 5,
    "lat_vmxnet3": 2, "docker_overview": 2, "kvm_docker_report": 1, "docker_linpack": 6,
    "docker_stream": 2, "docker_fio": 3, "docker_netperf": 8, "docker_redis": 8,
    "redis_scaleout": 12, "ld_vmotion": 6, "monster_vmotion": 12, "vcenter_ha": 5, "netioc_v6": 2,
    "hadoop_v6": 6, "hadoop_v51": 1, "horizon_3d": 1, "vsan_sapiq": 2, "sqlserver_monster": 3,
    "dvdstore_docker": 6, "raid_vmmark": 5, "raid_iometer": 3, "specweb_directpath": 8,
    "specweb_15vm": 2,
}  # fmt: skip
"""Those of the documents that labkit began with: none of them may get lost."""
ALL = [claim for study in published.names() for claim in published.of(study)]
each_claim = pytest.mark.parametrize("claim", ALL, ids=lambda claim: claim.id)


def test_all_136_claims_are_there_and_those_of_a_study_are_numbered():
    counted = {study: len(published.of(study)) for study in published.names()}
    assert sum(COUNTS.values()) == 136 and {**counted, **COUNTS} == counted
    wanted = [
        f"{study.replace('_', '-')}-{n:02d}"
        for study, count in counted.items()
        for n in range(1, count + 1)
    ]
    assert [claim.id for claim in ALL] == wanted


@each_claim
def test_a_claim_names_its_source_its_conditions_and_what_is_compared(claim):
    assert claim.statement and claim.source
    assert claim.names()
    assert claim.comparisons() or (isinstance(claim, NotHere) and claim.why)
    assert published.published(claim.id.rsplit("-", 1)[0].replace("-", "_")).metric


def test_every_study_and_document_of_the_claims_is_listed_in_the_sources():
    listed = (published.FOLDER / "SOURCES.md").read_text("utf-8")
    for study in published.names():
        assert study in listed
        assert published.published(study).document.split(" (")[0] in listed


def test_one_claim_only_can_never_be_tested_because_nothing_could_contradict_it():
    assert [claim.id for claim in ALL if isinstance(claim, NotHere)] == ["sqlserver-monster-02"]


@pytest.mark.slow
@each_claim
def test_a_claim_can_hold_and_can_fail_or_it_would_say_nothing(claim):
    if isinstance(claim, NotHere):
        return
    rng, verdicts = np.random.default_rng(1), set()
    names = claim.names()
    for _ in range(400):
        spread = rng.choice([0.02, 0.2, 1.5, 4.0])
        levels = np.exp(spread * rng.standard_normal(len(names))) * rng.choice([1e-4, 0.02, 1, 20])
        if rng.random() < 0.5:
            levels = np.sort(levels)[:: rng.choice([-1, 1])]
        verdicts.add(claim.judge(exact(claim, names, levels, rng)).verdict)
        if {"holds", "contradicted"} <= verdicts:
            return
    known = exact(claim, names, AS_CLAIMED.get(claim.id, [1] * len(names)), rng)
    verdicts.add(claim.judge(known).verdict)
    assert {"holds", "contradicted"} <= verdicts


# Levels of the conditions, in the order of `names`, that chance does not find in 400 trials.
AS_CLAIMED = {
    "lat-feature-03": [1], "lat-feature-04": [1], "redis-scaleout-10": [0.8] * 4,
    "ld-vmotion-06": [1], "monster-vmotion-11": [1] * 3, "sqlserver-monster-01": [493_804],
    "vcenter-ha-02": [410, 370, 439, 399, 460, 420], "raid-vmmark-05": [13, 13],
    "specweb-directpath-01": [2, 1, 3, 4] * 3, "raid-vmmark-01": [1] * 12,
}  # fmt: skip


def exact(claim, names, levels, rng):
    """Five blocks of each condition at its level, as if measured almost without noise."""
    many = 200 if any(c.what.percentiles for c in claim.comparisons()) else 1
    if any(q > 99.9 for c in claim.comparisons() for q in c.what.percentiles.values()):
        many = 25_000
    noise, blocks = 1e-5, 5
    if "variation" in str(claim):
        noise, blocks = rng.choice([2e-3, 9e-3, 5e-2]), 40
    return {
        name: {k: level * np.exp(noise * rng.standard_normal(many)) for k in range(blocks)}
        for name, level in zip(names, levels, strict=True)
    }


def test_a_figure_whose_document_prints_no_unit_says_so_in_brackets():
    (claim,) = (c for c in published.of("specweb_directpath") if "8000" in c.prints)
    assert "= 8000 (unit not printed)" in claim.prints


def test_disputes_between_documents_are_kept():
    disputes = {claim.id for claim in ALL if claim.dispute}
    assert {"lat-10us-02", "ld-vmotion-06", "redis-scaleout-01", "docker-redis-03"} <= disputes


def test_what_is_disputed_stands_in_the_table_of_the_sources_and_what_stands_there_is_a_claim():
    table = (published.FOLDER / "SOURCES.md").read_text("utf-8").split("## Where the documents")[1]
    named = set(re.findall(r"[a-z0-9-]+-\d\d\b", table))
    assert named == {claim.id for claim in ALL if claim.dispute}


def test_no_figure_of_the_documents_hardware_is_judged_on_an_emulated_lab():
    (claim,) = [claim for claim in ALL if claim.id == "vcenter-ha-02"]
    found = exact(claim, claim.names(), range(400, 700, 50), np.random.default_rng(2))
    (emulated,) = judge([claim], found, emulated=True)
    assert emulated.verdict == "not testable here"
    assert "document's hardware" in emulated.why
    assert judge([claim], found)[0].verdict != "not testable here"


HEAD = 'document = "d"\nmetric = "m"\nstatistics = ["mean"]\n[[claim]]\n'
GOOD = 'id = "x-01"\nform = "bound"\nstatement = "s"\nsource = "f"\nwhat = ["\'a\'"]\nhigh = 1\n'
BAD = {
    "no toml": "= 1",
    "no head": "[[claim]]\n" + GOOD,
    "an unknown form": HEAD + GOOD.replace("bound", "feeling"),
    "an unknown key": HEAD + GOOD + "hihg = 2\n",
    "no statement": HEAD + GOOD.replace("statement", "metric"),
    "an order of one": HEAD + re.sub("bound.*", 'order"\nconditions = ["a"]', GOOD, flags=re.S),
    "no quantity": HEAD + GOOD.replace("'a'", "__import__('os').system('true')"),
    "an empty band": HEAD + GOOD + "low = 1\n",
    "an unknown statistic": HEAD.replace("mean", "mode") + GOOD,
}


@pytest.mark.parametrize("what", BAD)
def test_a_claim_that_cannot_be_meant_is_refused(what):
    with pytest.raises(BadInput):
        published.read(BAD[what], "lat_ping")
    assert published.read(HEAD + GOOD, "lat_ping").claims[0].id == "x-01"


def test_a_study_judges_all_that_is_claimed_in_it():
    judged = {name: studies.find(name).claims for name in studies.names()}
    assert judged == {name: published.of(name) for name in judged}


def test_an_unknown_study_is_answered_with_the_known_ones():
    with pytest.raises(Unknown, match="lat_ping"):
        published.of("lat_pong")
