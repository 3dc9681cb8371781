"""Each finding from outside has a row, and each test that a row names is there."""

import re
from pathlib import Path

import pytest

from tests.house.test_tried import found_in

PAGE = Path(__file__).parents[2] / "notebooks/docs/proof/findings.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (mended|said|open) \| (.*)\|$", re.MULTILINE)
ROWS = {int(row[0]): row for row in ROW.findall(PAGE.read_text("utf-8"))}


def test_each_finding_has_its_row():
    assert list(ROWS) == list(range(1, 48))


@pytest.mark.parametrize("number", ROWS)
def test_each_test_that_a_finding_names_is_there(number):
    _, _, state, shown = ROWS[number]
    if state == "open":
        return
    file, sentences = re.fullmatch(r"`([\w/]+\.py)`: (.+?) ?", shown).groups()
    names = [f"test_{sentence.strip().replace(' ', '_')}" for sentence in sentences.split(";")]
    assert [name for name in names if name not in found_in(file)] == []
