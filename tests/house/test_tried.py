"""The table of what was tried against hosts is written from the tests, and up to date.

`LABKIT_WRITE=yes pytest tests/house/test_tried.py` writes it: a test that moved is found where it
is now, and one that says in its docstring which case it is about joins the row of that case.
"""

import ast
import os
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


@cache
def everywhere():
    """Each test that is named, and each that says what it is about: its file, and its cases."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        file = path.relative_to(TESTS).as_posix()
        for name, cases in found_in(file).items():
            found.setdefault(name, {})[file] = cases
    return found


def column(case):
    """The tests of a case by file, in the words of the page: those of its row first, then new."""
    tests = {}
    for file, name in named(case):
        there = everywhere().get(name, {})
        if there:
            tests.setdefault(file if file in there else min(there), []).append(name)
    for name, files in everywhere().items():
        for file in (one for one, cases in files.items() if case in cases):
            if name not in tests.get(file, ()):
                tests.setdefault(file, []).append(name)
    said = {
        file: "; ".join(name.removeprefix("test_").replace("_", " ") for name in names)
        for file, names in tests.items()
    }
    return "<br>".join(f"`{file}`: {sentences}" for file, sentences in said.items())


def written():
    """The page with the column of tests as they are."""
    lines = PAGE.read_text("utf-8").split("\n")
    rows = [ROW.fullmatch(line) for line in lines]
    return "\n".join(
        f"| {row[1]} | {row[2]} | {row[3]} | {column(row[1])} |"
        if row and row[1] in CASES
        else line
        for row, line in zip(rows, lines, strict=True)
    )


def test_the_page_is_what_the_tests_say():
    if os.environ.get("LABKIT_WRITE"):
        PAGE.write_text(written(), "utf-8")
    now = "LABKIT_WRITE=yes .venv/bin/python -m pytest tests/house/test_tried.py"
    assert PAGE.read_text("utf-8") == written(), f"write it anew: {now}"
