"""A test on the list of `again.toml` that fails is run once more, and both runs are shown."""

import tomllib
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

LIST = Path(__file__).resolve().parents[1] / "again.toml"
AGAIN = "again"


def listed(path=LIST):
    """The reason of each test on the list, by the test's name without its parameters."""
    return {one["test"]: one["why"] for one in tomllib.loads(path.read_text("utf-8"))["again"]}


class Again:
    """Runs what is on the list once more where it failed."""

    def __init__(self, reasons):
        """By test."""
        self.reasons = reasons

    def why(self, nodeid):
        """Why this test may fail once, or nothing."""
        return self.reasons.get(nodeid.partition("[")[0], "")

    def pytest_runtest_protocol(self, item, nextitem):
        """The same as pytest's own, but for a second time."""
        if not self.why(item.nodeid):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        first = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in first:
            if failed := report.failed:
                report.outcome = AGAIN
            item.ihook.pytest_runtest_logreport(report=report)
            if failed:
                runtestprotocol(item, nextitem=nextitem)
                break
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_report_teststatus(self, report):
        """A first run that failed is neither passed nor failed."""
        return (AGAIN, "A", "AGAIN") if report.outcome == AGAIN else None

    def pytest_terminal_summary(self, terminalreporter):
        """Say what was run again, why it may be, and how it had failed."""
        for report in terminalreporter.getreports(AGAIN):
            terminalreporter.section(f"run once more: {report.nodeid}")
            terminalreporter.write_line(f"may fail once: {self.why(report.nodeid)}")
            terminalreporter.write_line(str(report.longrepr))


@pytest.hookimpl
def pytest_configure(config):
    """For this session."""
    config.pluginmanager.register(Again(listed()), "labkit again")
