"""What our tests need beyond pytest: skips that are expected, costly tests, and tables of tests."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import changed
import collecting
import pytest
import skips
import unlike

from labkit.programs import packages
from labkit.programs.packages import names_of, this_system
from tests.fresh.test_fresh_root import SUITES

HOME = Path(__file__).parents[2]
PROOF = HOME / "notebooks/docs/proof"
MODULE = """
import pytest

@pytest.mark.skip(reason="{why}")
def test_is_skipped():
    pass

def test_skips_itself():
    pytest.skip("{why}")
"""
EXPECTED, ODD = "root may read everything", "it was too hot that day"


def ran(folder, why):
    (folder / "pytest.ini").write_text(
        f'[pytest]\npythonpath = "{HOME}" "{HOME}/tests/helpers"\naddopts = -p skips -rfE\n'
    )
    (folder / "test_some.py").write_text(MODULE.format(why=why))
    words = [sys.executable, "-m", "pytest", "-n", "2"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


@pytest.mark.when_changed("tests/helpers/", "tests/expected_skips.toml")
@pytest.mark.slow
def test_a_skip_that_is_on_no_list_fails_and_its_reason_is_said(tmp_path):
    done = ran(tmp_path, ODD)
    assert done.returncode == 1, done.stdout
    assert f"expected_skips.toml does not expect it: {ODD}" in done.stdout
    assert "Skipped:" not in done.stdout


@pytest.mark.when_changed("tests/helpers/", "tests/expected_skips.toml")
@pytest.mark.slow
def test_expected_skips_are_the_table_that_ends_the_log(tmp_path):
    done = ran(tmp_path, EXPECTED)
    assert done.returncode == 0, done.stdout
    head, row = done.stdout.splitlines()[-2:]
    assert head.startswith("Skipped: 2 tests")
    assert row.split() == ["2", *EXPECTED.split(), "test_some.py"]


def test_what_is_expected_depends_on_the_machine():
    root, packaged = ("everywhere", "by_machine"), ("everywhere", "without_packages")
    assert skips.expected("needs root, for a PID namespace", ("plain_user",))
    assert not skips.expected("needs root, for a PID namespace", root)
    assert skips.expected("no sshd; to get it: make system", packaged)
    assert not skips.expected("no sshd; to get it: make system", root)


def test_what_set_up_brings_for_the_tests_is_what_they_may_not_miss():
    makefile = (HOME / "Makefile").read_text("utf-8")
    assert f"$(LACKING) {' '.join(skips.PLACES)})" in makefile


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may install packages")
def test_set_up_has_brought_every_package_that_this_debian_has():
    """Else what a test misses would be skipped, and nobody would know."""
    lists = [*Path("/var/lib/apt/lists").glob("*_Packages*")]
    if os.environ.get("SYSTEM") == "no" or not lists or not this_system().startswith("debian"):
        pytest.skip("set-up installs no packages here")
    assert names_of(skips.missing(), this_system()) == [], "see the first lines of `make test`"


def test_each_place_is_there_or_its_tests_would_never_run_again():
    found = {
        place
        for file in (HOME / "tests").rglob("test_*.py")
        for inside in re.findall(r"when_changed\(([^)]*)\)", file.read_text("utf-8"))
        for place in re.findall(r'"([^"]+)"', inside)
    }
    assert len(found) > 10
    assert {place for place in found if not (HOME / place).exists()} == set()


def test_a_costly_test_runs_when_its_place_or_its_helpers_have_changed(monkeypatch):
    file = "tests/campaign/test_compare.py"
    for one, runs in (("labkit/box/box.py", True), (file, True), ("README.md", False),
                      ("tests/helpers/synthetic.py", True)):  # fmt: skip
        monkeypatch.setattr(changed, "changed_files", lambda one=one: {one})
        assert changed.touched(file, ("labkit/box/",)) == runs, one


def test_only_what_is_asked_to_be_left_out_is():
    assert collecting.left_out("not box and not slow") == {"box", "slow"}
    assert collecting.left_out("not box or slow") == collecting.left_out("torture or x") == set()


@cache
def names_in(file):
    """The tests of a file."""
    tree = ast.parse((HOME / "tests" / file).read_text("utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize("page", ["faults", "findings"])
def test_each_test_that_a_page_of_proof_names_is_there(page):
    text = (PROOF / f"{page}.md").read_text("utf-8")
    rows = re.findall(r"`([\w/]+\.py)`: ([^`|<]+)", text)
    named = {
        (file, f"test_{sentence.strip().replace(' ', '_')}")
        for file, sentences in rows for sentence in sentences.split(";") if sentence.strip()
    }  # fmt: skip
    assert len(named) > 30
    assert {one for one in named if one[1] not in names_in(one[0])} == set()


def test_the_page_of_kinds_of_hosts_has_what_the_tests_make_and_no_other():
    text = (PROOF / "distributions.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+ \| ([a-z ]+) \| ([a-z ]+) \| (\w+) \|$", text, re.M)
    tried = [kind for kind, *told, _ in rows if told == ["yes", "yes"]]
    assert tried == [*unlike.KINDS, unlike.CLOUD, *SUITES]
    assert [kind for kind, *told, _ in rows if told != ["yes", "yes"]] == [*packages.SYSTEMS]


def test_each_reason_that_stands_in_a_test_is_on_the_list():
    said = re.compile(r"(?:(?<!or)skip\(|reason=)\"([^\"{}]+)\"")
    files = [*(HOME / "tests").rglob("*.py")]
    reasons = {why for file in files if "bench" not in file.parts and file != Path(__file__)
               for why in said.findall(file.read_text("utf-8"))}  # fmt: skip
    every = ("everywhere", "by_machine", "plain_user", "without_packages")
    assert {why for why in reasons if not skips.expected(why, every)} == set()
    assert len(reasons) > 50
