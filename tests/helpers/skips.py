"""Skips: one that is not expected fails its test, and a table of all ends the log."""

import os
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from labkit.programs.packages import absent, declared_under, installable, package_of, this_system

TESTS = Path(__file__).parents[1]
LIST = TESTS / "expected_skips.toml"
PLACES = ("labkit/box", "labkit/workloads", "labkit/probes", "labkit/settings", "tests")
"""What `make test` sets up the programs of."""


@cache
def patterns(machines):
    """What is expected on such a machine."""
    rows = tomllib.loads(LIST.read_text("utf-8"))
    return tuple(re.compile(row) for machine in machines for row in rows[machine])


@cache
def missing():
    """The free programs that set-up should have brought and this machine lacks."""
    lacking = absent(declared_under(TESTS.parent / place for place in PLACES))
    return [one for one in lacking if installable(one) and not package_of(one).source]


@cache
def this_machine():
    """The lists that are true of this machine, and of who runs the tests."""
    root, packaged = os.geteuid() == 0, this_system().startswith("debian") and not missing()
    found = {"plain_user": not root, "without_packages": not (root and packaged)}
    return ("everywhere", "by_machine", *(name for name, so in found.items() if so))


def expected(why, machines=None):
    """Whether some pattern of the list matches the whole of a reason."""
    return any(pattern.fullmatch(why) for pattern in patterns(machines or this_machine()))


def reason(report):
    """Why it was skipped, as the test said it."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


def held(report):
    """The report, as a failure if its skip is on no list."""
    if report.skipped and not hasattr(report, "wasxfail") and not expected(why := reason(report)):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and {LIST.name} does not expect it: {why}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    return held((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report():
    return held((yield))


def pytest_terminal_summary(terminalreporter):
    """How many tests were skipped for each reason, the most first."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(" ".join(reason(one).split()) for one in skipped)
    for why, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5} skipped: {why}")
