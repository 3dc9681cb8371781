"""What our tests need beyond pytest: skips that are expected, costly tests, and tables of tests."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest
import skips
import unlike

from labkit.programs import packages
from labkit.programs.packages import names_of, this_system
from tests.fresh.test_fresh_root import SUITES

HOME = Path(__file__).parents[2]
PROOF = HOME / "notebooks/docs/proof"
FOREIGN = re.compile(r"pip[0-9.]* install\s+(?:-\S+\s+)*[\"'\\]*labkit\b(?!/)")


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


def test_the_page_of_kinds_of_hosts_has_what_the_tests_make_and_no_other():
    text = (PROOF / "distributions.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+ \| ([a-z ]+) \| ([a-z ]+) \| (\w+) \|$", text, re.M)
    tried = [kind for kind, *told, _ in rows if told == ["yes", "yes"]]
    assert tried == [*unlike.KINDS, unlike.CLOUD, *SUITES]
    assert [kind for kind, *told, _ in rows if told != ["yes", "yes"]] == [*packages.SYSTEMS]


def names_in(file):
    """The tests of a file."""
    tree = ast.parse((HOME / "tests" / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", ["faults", "findings"])
def test_each_test_that_a_page_of_proof_names_is_there(page):
    text = (HOME / f"notebooks/docs/proof/{page}.md").read_text("utf-8")
    rows = re.findall(r"`([\w/]+\.py)`: ([^`|<]+)", text)
    named = {
        (file, f"test_{sentence.strip().replace(' ', '_')}")
        for file, sentences in rows for sentence in sentences.split(";") if sentence.strip()
    }  # fmt: skip
    assert len(named) > 30
    assert {(file, name) for file, name in named if name not in names_in(file)} == set()


def test_nothing_tells_to_install_the_other_labkit_of_the_package_index():
    words = ["git", "-C", HOME, "ls-files", "-z"]
    names = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [
        file for file in (HOME / name for name in names if name)
        if file.is_file() and not file.is_symlink() and file.suffix not in (".labkit", ".png")
    ]  # fmt: skip
    texts = {file: file.read_text("utf-8", "replace") for file in files if file != Path(__file__)}
    assert {file: match[0] for file, text in texts.items() if (match := FOREIGN.search(text))} == {}
