"""The page for the evaluation of an artifact, and the description of the bundle beside it."""

import json
import zipfile
from pathlib import Path

import pytest

from labkit.claims import published
from labkit.results import Results
from labkit.running.open_lab import recorded
from labkit.runs import bundle, crate

pytestmark = pytest.mark.slow
STUDY = "docker_fio"


@pytest.fixture(scope="module")
def results():
    return Results.open(recorded(STUDY))


def test_each_claim_has_a_test_a_tolerance_a_result_and_a_time(
    results, tmp_path, monkeypatch, typed
):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    answer = typed("report", results.path, "--artifact", "--json")
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


def test_results_without_claims_have_no_such_page(tmp_path, monkeypatch, typed):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    typed("compare", "true", "true", "--blocks", "1", "--label", "one")
    assert "no claims of compare are known" in typed("report", "compare", "--artifact", code=2)


# https://www.researchobject.org/ro-crate/specification/1.1/root-data-entity.html
def test_a_bundle_is_an_ro_crate_with_all_that_its_specification_requires(results, tmp_path):
    document = {"name": "A Paper", "url": "https://example.org/paper.pdf"}
    bundle.export(results, tmp_path / "one.labkit", document=document)
    whole = zipfile.ZipFile(tmp_path / "one.labkit")
    answer = json.loads(whole.read(crate.FILE))
    entities = {entity["@id"]: entity for entity in answer["@graph"]}
    assert (
        len(entities) == len(answer["@graph"]) and answer["@context"] == f"{crate.PROFILE}/context"
    )
    head, root = entities[crate.FILE], entities["./"]
    assert head["@type"] == "CreativeWork" and head["about"] == {"@id": "./"}
    assert head["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert root["@type"] == "Dataset" and len(root["datePublished"]) == 10
    assert root["name"] and root["description"] and root["license"]
    assert root["citation"] == [{"@id": document["url"]}]
    names = whole.namelist()
    for part in root["hasPart"]:
        entity = entities[part["@id"]]
        assert entity["@type"] == ("Dataset" if part["@id"].endswith("/") else "File")
        assert any(name.startswith(part["@id"]) for name in names)
    assert len([one for one in entities if one.startswith("runs/")]) == len(results.runs())


def test_the_description_opens_with_the_bundle_and_is_no_part_of_the_results(results, tmp_path):
    small = bundle.export(results, tmp_path / "one.labkit", small=True)
    again = bundle.unpack(bundle.examine(small.path), tmp_path / "again")
    assert not (again.path / crate.FILE).exists()
    assert [run.name for run in again.runs()] == [run.name for run in results.runs()]
