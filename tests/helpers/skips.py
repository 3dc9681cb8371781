"""Skips: one that is not expected fails its test, and a table of all ends the log."""

import os
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from labkit.programs.packages import absent, declared_under, installable, package_of, this_system

TESTS = Path(__file__).parents[1]
LIST = TESTS / "expected_skips.toml"
PLACES = ("labkit/box", "labkit/workloads", "labkit/probes", "labkit/settings", "tests")
"""What `make test` sets up the programs of."""
KEPT = "labkit/skipped"
"""What the last whole run skipped, for what runs its failed tests once more."""
WIDEST = 60


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


def pytest_unconfigure(config):
    """The table is the last that is said; only the process that says all of it has one."""
    says = config.pluginmanager.get_plugin("terminalreporter")
    if says is None or hasattr(config, "workerinput"):
        return
    for line in table(_skipped(config, says)):
        says.write_line(line)


# What is run once more are the tests that failed: those that were skipped before still were.
def _skipped(config, says):
    found = {one.nodeid: reason(one) for one in says.stats.get("skipped", [])}
    if not (cache := getattr(config, "cache", None)):
        return found
    if config.getoption("lf", False):
        return {**cache.get(KEPT, {}), **found}
    cache.set(KEPT, found)
    return found


def table(skipped):
    """How many tests were skipped for each reason, the most first, and in which files."""
    if not skipped:
        return []
    files = defaultdict(list)
    for node, why in skipped.items():
        files[" ".join(why.split())].append(node.partition("::")[0])
    rows = sorted(files.items(), key=lambda row: (-len(row[1]), row[0]))
    wide = min(WIDEST, max(len(why) for why, _ in rows))
    return [
        "",
        f"Skipped: {len(skipped)} tests, each for a reason that {LIST.name} expects",
        *(f"{len(all_of_it):5}  {why:{wide}}  {places(all_of_it)}" for why, all_of_it in rows),
    ]


def places(files):
    """The file with the most of them, and how many more there are."""
    first = max(sorted(set(files)), key=files.count)
    more = len(set(files)) - 1
    return f"{first} and {more} more" if more else first
