"""A skip that is on no list of expected ones fails, and a table of all skips ends the log."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import skips

from labkit.programs.packages import names_of, this_system

HOME = Path(__file__).parents[2]
MODULE = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="{why}")
def test_is_skipped():
    pass

def test_skips_itself():
    pytest.skip("{why}")
"""
WHOLE = "import pytest\npytest.skip('{why}', allow_module_level=True)\n"
EXPECTED, ODD = "root may read everything", "it was too hot that day"


def ran(folder, text, *more):
    (folder / "pytest.ini").write_text(
        f'[pytest]\npythonpath = "{HOME}" "{HOME}/tests/helpers"\naddopts = -p skips -rfE\n'
    )
    (folder / "test_some.py").write_text(text)
    words = [sys.executable, "-m", "pytest", *more]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


@pytest.mark.when_changed("tests/helpers/", "tests/expected_skips.toml")
@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["one", "several"])
@pytest.mark.parametrize("text", [MODULE, WHOLE], ids=["tests", "a whole file"])
def test_a_skip_that_is_on_no_list_fails_and_its_reason_is_said(tmp_path, text, more):
    done = ran(tmp_path, text.format(why=ODD), *more)
    assert done.returncode in (1, 2), done.stdout
    assert f"expected_skips.toml does not expect it: {ODD}" in done.stdout
    assert "Skipped:" not in done.stdout


@pytest.mark.when_changed("tests/helpers/", "tests/expected_skips.toml")
@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["one", "several"])
def test_expected_skips_are_the_table_that_ends_the_log(tmp_path, more):
    done = ran(tmp_path, MODULE.format(why=EXPECTED), *more)
    assert done.returncode == 0, done.stdout
    head, row = done.stdout.splitlines()[-2:]
    assert head.startswith("Skipped: 2 tests")
    assert row.split() == ["2", *EXPECTED.split(), "test_some.py"]


@pytest.mark.when_changed("tests/helpers/", "tests/expected_skips.toml")
@pytest.mark.slow
def test_what_runs_once_more_ends_with_the_table_of_all(tmp_path):
    text = MODULE.format(why=EXPECTED) + "def test_fails(): assert 0\n"
    assert ran(tmp_path, text).returncode == 1
    done = ran(tmp_path, text, "--last-failed")
    assert "1 failed" in done.stdout and "Skipped: 2 tests" in done.stdout


def test_what_is_expected_depends_on_the_machine():
    root, packaged = ("everywhere", "by_machine"), ("everywhere", "without_packages")
    assert skips.expected("needs root, for a PID namespace", ("plain_user",))
    assert not skips.expected("needs root, for a PID namespace", root)
    assert skips.expected("no sshd; to get it: make system", packaged)
    assert not skips.expected("no sshd; to get it: make system", root)
    assert skips.expected("needs netperf", root), "it is not free"


@pytest.mark.parametrize(
    ("missing", "system", "user", "strict"),
    [([], "debian", 0, True), ([], "debian12", 0, True), (["sshd"], "debian", 0, False),
     ([], "ubuntu", 0, False), ([], "debian", 1000, False)],
)  # fmt: skip
def test_on_a_debian_that_has_every_program_no_test_may_miss_one(
    monkeypatch, missing, system, user, strict
):
    monkeypatch.setattr(skips, "missing", lambda: missing)
    monkeypatch.setattr(skips, "this_system", lambda: system)
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert ("without_packages" not in skips.this_machine.__wrapped__()) is strict


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


def test_each_reason_that_stands_in_a_test_is_on_the_list():
    said = re.compile(r"(?:(?<!or)skip\(|reason=)\"([^\"{}]+)\"")
    files = [*(HOME / "tests").rglob("*.py")]
    reasons = {why for file in files if "bench" not in file.parts and file != Path(__file__)
               for why in said.findall(file.read_text("utf-8"))}  # fmt: skip
    every = ("everywhere", "by_machine", "plain_user", "without_packages")
    assert {why for why in reasons if not skips.expected(why, every)} == set()
    assert len(reasons) > 50
