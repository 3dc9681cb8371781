"""The table of what was tried against hosts: all cases are in it, and each test that it names."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "notebooks/docs/proof/faults.md"
# Of the catalogue of faults those that are about hosts, and about what they may bring to a page.
NUMBERS = [*range(1, 15), 16, 17, 18, *range(20, 25), *range(63, 80)]
CASES = [f"F{number:02}" for number in NUMBERS]
ROW = re.compile(r"\| (F\d\d) \| (.+) \| (.+) \| (.+) \|")
ROWS = {row[1]: row for row in map(ROW.fullmatch, PAGE.read_text("utf-8").splitlines()) if row}


@cache
def found_in(file):
    """The tests of a file, and the cases that each says it is about."""
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    return {
        one.name: re.findall(r"\bF\d\d\b", ast.get_docstring(one) or "")
        for one in functions
        if one.name.startswith("test_")
    }


def named(case):
    """The tests that a row names, each with its file."""
    for part in ROWS[case][4].split("<br>"):
        file, sentences = re.fullmatch(r"`([\w/]+\.py)`: (.+)", part).groups()
        for sentence in sentences.split("; "):
            yield file, f"test_{sentence.replace(' ', '_')}"


def test_every_case_has_its_row_and_no_row_is_of_another():
    assert list(ROWS) == CASES


@pytest.mark.parametrize("case", CASES)
def test_each_test_that_a_row_names_is_there(case):
    lacking = [(file, name) for file, name in named(case) if name not in found_in(file)]
    assert lacking == []


def test_a_test_that_says_which_case_it_is_about_is_in_its_row():
    files = [file.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")]
    said = {
        (case, file, name)
        for file in files
        for name, cases in found_in(file).items()
        for case in cases
        if case in CASES
    }
    assert said and said <= {(case, *one) for case in CASES for one in named(case)}
