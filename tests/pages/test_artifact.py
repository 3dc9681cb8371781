"""The page for the evaluation of an artifact."""

import json
from pathlib import Path

import pytest

from labkit.claims import published
from labkit.cli import main
from labkit.results import Results
from labkit.running.open_lab import recorded

pytestmark = pytest.mark.slow
STUDY = "docker_fio"


@pytest.fixture(scope="module")
def results():
    return Results.open(recorded(STUDY))


def test_each_claim_has_a_test_a_tolerance_a_result_and_a_time(results, tmp_path, monkeypatch,
                                                               capsys):  # fmt: skip
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    assert main(["report", str(results.path), "--artifact", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    claims = {claim.id: claim for claim in published.of(STUDY)}
    assert {row["claim"] for row in answer["claims"]} == {*claims}
    tested = [row for row in answer["claims"] if row["tested"]]
    assert tested and all(row["tolerance"] and row["verdict"] for row in tested)
    measured = [row for row in tested if row["measured"]]
    assert measured and all(row["runs"] > 0 and row["seconds"] > 0 for row in measured)
    page = Path(answer["page"]).read_text()
    assert "<script" not in page and published.published(STUDY).url in page
    assert all(claim in page for claim in claims)
    assert f"labkit run {STUDY} -p repeats=" in page


def test_results_without_claims_have_no_such_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    assert main(["compare", "true", "true", "--blocks", "1", "--label", "one"]) == 0
    assert main(["report", "compare", "--artifact"]) == 2
    assert "no claims of compare are known" in capsys.readouterr().err
