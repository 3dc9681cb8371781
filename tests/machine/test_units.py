"""Units: people read µs wherever they look, and machines us."""

import re

import nbformat
import pytest

from labkit import studies
from labkit.claims.published import of
from labkit.machine.places import HOME
from labkit.pages.tables import table
from labkit.running.open_lab import recorded

PLAIN = re.compile(r"\d us\b")


def test_a_column_of_units_is_shown_as_people_write_them():
    assert "µs" in (shown := table([{"value": "3", "unit": "us"}]).text()) and " us" not in shown
    assert table([{"metric": "threads", "value": 1, "unit": "1"}]).rows == (("threads", "1", ""),)


def test_results_are_shown_in_µs_and_told_to_machines_in_us(typed):
    where = str(recorded("lat_netperf"))
    output = typed("results", "show", where)
    assert re.search(r"round trip: [\d.]+ µs", output) and not PLAIN.search(output)
    rows = typed("results", "show", where, "--json")["runs"][0]["rows"]
    assert rows[0]["unit"] == "us"


@pytest.mark.parametrize("study", studies.names())
def test_no_claim_and_no_figure_of_a_document_is_told_in_us(study):
    texts = [
        f"{claim.statement} {claim.dispute} {claim.hardware} {claim.prints}" for claim in of(study)
    ]
    assert [text for text in texts if PLAIN.search(text)] == []


def test_no_sentence_of_a_notebook_says_us():
    for file in sorted((HOME / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(file, as_version=4).cells
        said = [cell.source for cell in cells if cell.cell_type == "markdown"]
        assert [text for text in said if PLAIN.search(text)] == [], file.name
