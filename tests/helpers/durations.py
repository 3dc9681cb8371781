"""How long each test takes is kept in out/durations.json; one that is long without saying so fails.

A machine where others work makes a test longer, and that is no fault of the test. So a time counts
by the crowd: the processes that wanted a CPU, for each CPU. One that is over the limit by that is a
failure if it was so the last time too, or if it is over by three times.
"""

import json
import os
from functools import cache
from pathlib import Path

import pytest

KEPT = Path(__file__).resolve().parents[2] / "out/durations.json"
LIMIT, AT_ONCE = 20, 60
"""Seconds of a test without the mark `slow`: twice in a row, and at once."""
SHOWN = 15
SAID_LONG = ("slow", "torture")


def crowd():
    """How many want each CPU, at least one; the mean of a minute."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def too_long(seconds, before, marks):
    """Why a test that took this long fails, or nothing; `before` is what it took the last time."""
    if any(mark in SAID_LONG for mark in marks) or seconds <= LIMIT:
        return ""
    if seconds <= AT_ONCE and before <= LIMIT:
        return ""
    return (
        f"It took {seconds:.0f} s (busy CPUs allowed for), and {before:.0f} s the last time. Over "
        f"{LIMIT} s: shorten it, share what it sets up, or mark it `slow`."
    )


def read(path=KEPT):
    """What was kept: each test's seconds, as they were and on a machine of its own."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def write(measured, path=KEPT):
    """Keep these beside those of other tests that are still there."""
    home = Path(__file__).resolve().parents[2]
    there = cache(lambda file: (home / file).is_file())
    kept = {
        test: one for test, one in {**read(path), **measured}.items()
        if there(test.partition("::")[0])
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n", "utf-8")
    new.replace(path)


class Durations:
    """Of one session of tests, or of one of its processes."""

    def __init__(self, path=KEPT):
        """What was kept by the last run is what a test is compared with."""
        self.path, self.before, self.measured = path, read(path), {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """In the process that runs the test."""
        report = yield
        if call.when == "call":
            alone = call.duration / crowd()
            report.user_properties.append(("alone", alone))
            before = self.before.get(item.nodeid, {}).get("alone", 0.0)
            why = too_long(alone, before, [mark.name for mark in item.iter_markers()])
            if report.passed and why:
                report.outcome, report.longrepr = "failed", why
        return report

    def pytest_runtest_logreport(self, report):
        """In the process that hears of all tests."""
        if report.when == "call":
            alone = dict(report.user_properties).get("alone", report.duration)
            self.measured[report.nodeid] = {
                "seconds": round(report.duration, 2), "alone": round(alone, 2),
            }  # fmt: skip

    def pytest_sessionfinish(self, session):
        """Keep them."""
        if self.measured and not hasattr(session.config, "workerinput"):
            write(self.measured, self.path)

    def pytest_terminal_summary(self, terminalreporter):
        """Say which took longest."""
        longest = sorted(self.measured, key=lambda test: -self.measured[test]["seconds"])[:SHOWN]
        total = sum(one["seconds"] for one in self.measured.values())
        terminalreporter.section(f"{total:.0f} s of tests; all in {self.path}")
        for test in longest:
            terminalreporter.write_line(f"{self.measured[test]['seconds']:7.1f} s  {test}")


def pytest_configure(config):
    """Watch this session."""
    config.pluginmanager.register(Durations(), "labkit durations")
