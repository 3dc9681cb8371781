"""The claims of all documents: each there once, testable, with its source and its conditions.

And the figures that they print: each once, with its source.
"""

import re
from dataclasses import astuple, replace

import numpy as np
import pytest
from each import each
from planted import exact

from labkit.claim import NotHere, judge
from labkit.claims import published
from labkit.claims.printed import figures
from labkit.errors import BadInput, Unknown

# How many claims each document makes in each study.
COUNTS = {
    "lat_feature": 10, "lat_ping": 7, "lat_netperf": 6, "lat_10us": 5, "lat_cpu_exclusive": 5,
    "lat_vmxnet3": 2, "docker_overview": 2, "kvm_docker_report": 1, "docker_linpack": 6,
    "docker_stream": 2, "docker_fio": 3, "docker_netperf": 13, "docker_redis": 9,
    "redis_scaleout": 12, "ld_vmotion": 6, "monster_vmotion": 14, "vcenter_ha": 5, "netioc_v6": 2,
    "hadoop_v6": 6, "hadoop_v51": 1, "horizon_3d": 1, "vsan_sapiq": 2, "sqlserver_monster": 3,
    "dvdstore_docker": 6, "raid_vmmark": 5, "raid_iometer": 3, "specweb_directpath": 8,
    "specweb_15vm": 2, "horizon_rdsh": 1,
}  # fmt: skip
"""Those of the documents that labkit began with: none of them may get lost."""
ALL = [claim for study in published.names() for claim in published.of(study)]
each_claim = each(ALL, lambda claim: claim.id)


def test_all_claims_are_there_and_those_of_a_study_are_numbered():
    counted = {study: len(published.of(study)) for study in published.names()}
    assert sum(COUNTS.values()) >= 136 and {**counted, **COUNTS} == counted
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
    text = (published.FOLDER / "SOURCES.md").read_text("utf-8")
    for study in published.names():
        assert study in text
        assert published.published(study).document.split(" (")[0] in text


def test_two_claims_can_never_be_tested_because_nothing_could_contradict_them():
    never = {claim.id for claim in ALL if isinstance(claim, NotHere)}
    assert never == {"horizon-rdsh-01", "sqlserver-monster-02"}


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
    found = exact(claim, range(400, 700, 50), np.random.default_rng(2))
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


def test_an_unknown_study_is_answered_with_the_known_ones():
    with pytest.raises(Unknown, match="lat_ping"):
        published.of("lat_pong")


@each(sorted(published.FOLDER.glob("*.csv")), lambda path: path.stem)
def test_a_published_file_lists_each_figure_once_with_a_unit_and_its_source(path):
    """Its columns and numbers are looked at when it is read."""
    printed, sources = figures(path.stem), (published.FOLDER / "SOURCES.md").read_text("utf-8")
    assert path.stem in sources and path.stem == path.stem.lower().replace("-", "_")
    for row in printed:
        assert row.condition and row.metric and row.statistic and row.unit.strip()
        assert row.relation in {"=", "~", "<", "<=", ">", ">="}
        title, _, place = row.source.rpartition("; ")
        assert title and place and row.source.split("; ")[0] in sources
        assert bool(row.x_name) == bool(row.x)
    assert len({astuple(replace(row, relation="")) for row in printed}) == len(printed)
