"""Each finding from outside has a row, and each test that a row names is there."""

import re
from pathlib import Path

import pytest
import unlike

from labkit.programs import packages
from tests.fresh.test_fresh_root import SUITES
from tests.house.test_tried import found_in

PAGE = Path(__file__).parents[2] / "notebooks/docs/proof/findings.md"
KINDS_PAGE = PAGE.with_name("distributions.md").read_text("utf-8")
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (mended|said|open) \| (.*)\|$", re.MULTILINE)
ROWS = {int(row[0]): row for row in ROW.findall(PAGE.read_text("utf-8"))}


def test_each_finding_has_its_row():
    assert list(ROWS) == list(range(1, 48))


@pytest.mark.parametrize("number", ROWS)
def test_each_test_that_a_finding_names_is_there(number):
    _, _, state, shown = ROWS[number]
    if state == "open":
        return
    files = re.findall(r"`([\w/]+\.py)`: ([^`]+)", shown)
    assert files
    for file, sentences in files:
        told = filter(None, map(str.strip, sentences.split(";")))
        names = [f"test_{sentence.replace(' ', '_')}" for sentence in told]
        assert [name for name in names if name not in found_in(file)] == []


def test_the_page_of_kinds_of_hosts_has_what_the_tests_make_and_no_other():
    rows = re.findall(r"^\| `(\w+)` \| .+ \| ([a-z ]+) \| ([a-z ]+) \| (\w+) \|$", KINDS_PAGE, re.M)
    tried = [kind for kind, *told, _ in rows if told == ["yes", "yes"]]
    assert tried == [*unlike.KINDS, unlike.CLOUD, *SUITES]
    assert [kind for kind, *told, _ in rows if told != ["yes", "yes"]] == [*packages.SYSTEMS]
    assert {named for *_, named in rows if named != "yes"} == {"no"}
