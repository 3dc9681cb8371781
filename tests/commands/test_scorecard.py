"""The scorecard: every claim is in it, judged where something measured it, and text stays text."""

import json
import re
import shutil
from dataclasses import replace

import polars as pl
import pytest
import synthetic

from labkit import studies
from labkit.claims import published
from labkit.pages.scorecard import Scorecard, page, scorecard
from labkit.pages.tables import Table
from labkit.reason import What
from labkit.results import Results
from labkit.running.open_lab import recorded
from labkit.runs import bundle

pytestmark = pytest.mark.slow
STUDY = studies.find("lat_ping")
CLAIMS = {claim.id for name in published.names() for claim in published.of(name)}
DOCUMENTS = {published.published(name).document for name in published.names()}
COUNT = len(CLAIMS)


def whole(card):
    """All of it, as `--all` shows it."""
    return replace(card, narrowed=True).text()


def of_lab(folder, name, lab):
    """Results of lat_ping that no lab measured, as if they were of this one."""
    results = synthetic.write_results(folder / "lat_ping" / name, STUDY, repeats=3, count=100)
    asked = json.loads((results.path / "study.json").read_text())
    changed = {**asked, "lab": {**asked["lab"], "name": lab}}
    (results.path / "study.json").write_text(json.dumps(changed))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("results")
    synthetic.write_results(made / "lat_ping" / "a", STUDY, repeats=4, count=200)
    return made


def test_all_claims_are_in_it_once_and_what_was_measured_is_judged(folder):
    card = scorecard(folder)
    assert COUNT >= 136 and sorted(line.claim for line in card.lines) == sorted(CLAIMS)
    judged = {line.claim: line for line in card.lines if line.evidence}
    assert judged.keys() == {claim.id for claim in STUDY.claims}
    assert judged["lat-ping-01"].verdict == "holds"
    assert judged["lat-ping-01"].runs == 16
    assert "not measured" in judged["lat-ping-03"].why
    assert card.counts().rows[-1][:3] == ("all", str(COUNT), str(whole(card).count(": holds\n")))


def test_a_frame_and_its_csv_say_of_each_claim_what_was_measured_here(folder, tmp_path, typed):
    card, file = scorecard(folder), tmp_path / "card.csv"
    frame = card.frame()
    assert frame["claim"].to_list() == [line.claim for line in card.lines]
    row = frame.row(by_predicate=pl.col("claim") == "lat-ping-01", named=True)
    assert row["agrees"] == "agrees" and row["reach"] == "emulated guests" and row["blocks"] == 4
    assert row["low"] < row["measured"] < row["high"] and row["verdict"] == "holds"
    none = frame.filter(pl.col("evidence") == "")
    assert none["measured"].is_null().all() and not any(none["agrees"])
    assert f"{COUNT} claims" in typed("scorecard", folder, "--csv", file)
    assert pl.read_csv(file)["measured"].to_list() == frame["measured"].to_list()


def test_a_claim_that_nothing_measured_says_what_it_would_take_and_what_its_document_prints(
    folder, monkeypatch
):
    others = [name for name in studies.names() if not name.startswith("specweb")]
    monkeypatch.setattr(studies, "names", lambda: others)
    lines = {line.claim: line for line in scorecard(folder).lines}
    web = lines["specweb-directpath-02"]
    assert web.why.startswith("labkit has no study of it yet; it would have to measure score:")
    assert "VMDirectPath = 62296 score" in web.prints and " % " in web.prints
    assert lines["docker-netperf-03"].prints.endswith("~ 9 to 10 µs")
    assert lines["lat-feature-05"].prints == ""
    assert len([line for line in lines.values() if line.prints]) >= 79


def test_lines_can_be_chosen_and_then_show_what_nothing_measured_too(folder, typed):
    card = scorecard(folder)

    def claims(*chosen):
        return {line.claim for line in card.only(*chosen).lines}

    assert len(claims("DOCKER ON vsphere")) == 12 and not claims("docker on", "holds")
    assert "lat-ping-01" in claims("", "holds")
    assert "lat-10us-02" in claims("", "", True) and "lat-ping-01" not in claims("", "", True)
    words = ["scorecard", str(folder), "--study", "vcenter-ha"]
    shown = typed(*words)
    assert "vcenter-ha-05: not testable here" in shown and "~ 439 s" in shown
    assert [line["claim"] for line in typed(*words, "--disputed", "--json")] == ["vcenter-ha-04"]
    assert typed(*words, "--document", "failover", "--verdict", "holds") == "No claim matches.\n"
    assert "Failover" in typed(*words, "--document", "x9", code=2)
    assert "vcenter_ha" in typed(*words[:-1], "vcentre", code=2)


def test_guests_that_share_a_cpu_of_their_own_are_judged_where_each_has_another(tmp_path):
    known, few = recorded("lat_ping"), shutil.ignore_patterns("*-b[3-9]")
    small, large, real = (tmp_path / name / "lat_ping" / "a" for name in ("2", "16", "real"))
    for copy, tier, cpus in ((small, "root", "4"), (large, "root", "8"), (real, "hosts", "4")):
        shutil.copytree(known, copy, ignore=few)
        asked = json.loads((copy / "study.json").read_text())
        asked["lab"]["tier"], asked["lab"]["hosts"]["server"]["cpus"] = tier, cpus
        (copy / "study.json").write_text(json.dumps(asked))
    emulated, grown, judged = (
        next(x for x in scorecard(copy).lines if x.claim == "lat-ping-03")
        for copy in (small, large, real)
    )
    assert emulated.verdict == "not testable here"
    assert emulated.why.startswith("not the document's here: ")
    assert "no CPU for each of the four guests" in emulated.why
    assert {grown.verdict, judged.verdict} <= {"holds", "contradicted", "undecided"}


def test_it_fits_a_narrow_terminal(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    card = scorecard(folder)
    lines = card.only(in_dispute=True).text().splitlines()
    titles = {line.document for line in card.lines}
    wide = [x for x in lines if len(x) > 80 and x not in titles and x.strip("-")]
    assert len(lines) > 100
    assert not [x for x in wide if x[:4] != "http" and str(folder) not in x]


def test_every_line_fits_80_columns_and_one_is_not_many():
    text = whole(scorecard(study="specweb_directpath"))
    assert all(len(line) <= 80 or "/" in line for line in text.splitlines())
    assert re.search(r"\d runs in (1 block|\d\d* blocks),", text) and " 1 blocks" not in text
    assert "    It takes 4 CPUs" in text and "\n    it takes" not in text


def test_each_lab_has_its_own_lines_and_each_claim_counts_once(folder, tmp_path):
    for name in ("a", "b"):
        of_lab(tmp_path, name, name)
    card = scorecard(tmp_path)
    assert len([line for line in card.lines if line.claim == "lat-ping-01"]) == 2
    assert card.counts().rows[-1][1] == str(COUNT)


def test_bundles_are_judged_and_damaged_results_are_named(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    shared = tmp_path / "shared"
    shared.mkdir()
    bundle.export(Results.open(folder / "lat_ping" / "a"), shared / "a.labkit")
    (shared / "bad.labkit").write_bytes(b"nonsense")
    card = scorecard(shared)
    assert len([line for line in card.lines if line.evidence]) == 7
    assert len(card.unread) == 1 and "bad.labkit" in card.unread[0]
    assert "Not read" in card.text()


@pytest.mark.parametrize("margin", ["0", "1.01", "-0.05", "nan"])
def test_a_margin_of_nothing_or_over_100_percent_is_refused(folder, typed, margin):
    before = sorted(folder.rglob("*"))
    assert "a margin lies above 0 and is at most 1 (100 %)" in typed(
        "scorecard", folder, f"--margin={margin}", code=2
    )
    assert sorted(folder.rglob("*")) == before


def test_it_is_printed_for_people_machines_and_pages(folder, typed):
    assert f"all {COUNT} claims" in typed("scorecard", folder)
    shown = typed("scorecard", folder, "--all")
    assert "lat-ping-01" in shown and "not testable here" in shown
    lines = typed("scorecard", folder, "--json")
    keys = {"claim", "verdict", "effect", "low", "high", "runs", "reason", "evidence"}
    assert keys <= set(lines[0])
    judged = [line for line in lines if line["looks"]]
    assert judged and all(line["looks"] == [4] and line["spent"] == 0.03 for line in judged)
    assert all(0 <= line["p"] <= line["counted"] <= 1 for line in judged)
    shown = typed("scorecard", folder, "--markdown")
    assert shown.count("\n| ") == COUNT + 2 + len(DOCUMENTS) + 4
    shown = typed("scorecard", folder, "--html")
    assert shown.startswith("<!DOCTYPE html>")
    assert shown.count("<tr><td>") == COUNT
    assert shown.count("<details id=") == len(DOCUMENTS)
    parts = ('class="totals"', 'class="matrix"', "lat-ping-01")
    assert sorted(parts, key=shown.index) == [*parts]
    assert (folder / "lat_ping" / "a").as_uri() in shown


def test_the_name_of_a_lab_is_text_on_every_page(folder, tmp_path):
    bad = "<img src=x onerror=alert(1)>|[x](javascript:alert(1))\x1b[31m"
    of_lab(tmp_path, "x", bad)
    card = scorecard(tmp_path)
    assert "<img" not in card.html() + card.markdown() + page(card)
    assert "](" not in card.markdown()
    assert "\x1b" not in card.html() + card.markdown() + card.text() + page(card)
    rows = card.markdown().splitlines()
    assert rows[-5].count(" | ") == rows[-1].count(" | ")


def test_it_shows_itself_in_a_notebook(folder):
    shown = scorecard(folder)._repr_mimebundle_()
    assert "<table" in shown["text/html"] and "lat-ping-01" in shown["text/plain"]
    assert isinstance(scorecard(folder).table(), Table)


def test_a_folder_without_results_is_no_scorecard(tmp_path, typed):
    assert f"no results in {tmp_path}" in typed("scorecard", tmp_path, code=1).replace("\n", " ")


def test_what_has_no_study_and_what_was_not_measured_is_no_verdict_and_emulated_stands_apart(
    folder,
):
    card = scorecard(folder)
    table = card.counts()
    rows = {row[0]: dict(zip(table.head[1:], row[1:], strict=True)) for row in table.rows}
    every = {name: int(number or 0) for name, number in rows["all"].items()}
    lines = card.lines
    unstudied = sum(line.reasons[0].what is What.NO_STUDY for line in lines)
    assert every["no study yet"] == unstudied and every["claims"] == COUNT
    assert every["not testable here"] + every["not measured yet"] + unstudied == sum(
        line.verdict == "not testable here" for line in lines
    )
    assert rows["on emulated labs"]["claims"] == "7" and rows["on real hosts or kernels"] == {
        **dict.fromkeys(table.head[1:], ""), "claims": "0"
    }  # fmt: skip
    assert "7 claims: " in whole(card).partition("on emulated labs")[2]
    real = Scorecard(tuple(replace(line, tier="hosts") for line in lines if line.evidence))
    rows = {row[0]: row[1] for row in real.counts().rows}
    assert (rows["on real hosts or kernels"], rows["on emulated labs"]) == ("7", "0")
