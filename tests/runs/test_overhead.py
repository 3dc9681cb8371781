"""What a study cost beside its measuring."""

import numpy as np
import pytest

from labkit import find_study
from labkit.charts.tradeoff import beside
from labkit.results import Results, Run
from labkit.runs.overhead import Overhead, overhead
from labkit.workload import Sample, row


@pytest.fixture
def results(tmp_path):
    return Results.begin(tmp_path, {"study": "lat_netperf", "seed": 1, "refused": {}})


def test_changes_that_a_study_asks_for_are_told_from_everything_else(results):
    for block, seconds in ((1, 13.0), (2, 12.0)):
        run = Run("a", block, block, "finished", seconds=seconds, measured_seconds=10.0)
        results.keep(Run(**{**vars(run), "changes_seconds": 1.0}), {"a.txt": "x"})
    results.keep(Run("a", 3, 3, "failed", seconds=99.0), {"a.txt": "x"})
    found = overhead(results)
    assert (found.seconds, found.measured, found.changes) == (25.0, 20.0, 2.0)
    assert found.share == pytest.approx(0.25) and found.own == pytest.approx(0.15)
    assert str(found) == ("measured 20 s of 25 s: 25.0% on top (10.0% settings, 15.0% else)")


def test_what_two_hours_cost_fits_the_line_of_a_terminal():
    line = f"cost      {Overhead(seconds=9999.0, measured=7999.0, changes=999.0)}"
    assert len(line) <= 80


def test_nothing_measured_costs_nothing(results):
    assert (overhead(results).share, str(overhead(results))) == (0.0, "nothing was measured")


def test_two_tools_stand_beside_each_other_under_their_own_names(results, monkeypatch):
    study = find_study("lat_netperf")
    trips = np.arange(1.0, 2001.0)
    said = [Sample("round trip", "us", trips), Sample("netperf p50", "us", np.array([990.0]))]
    monkeypatch.setattr(type(study), "samples", lambda *_: said)
    for block in (1, 2, 3):
        run = Run("Native", block, block, "finished", rows=tuple(map(row, said)))
        results.keep(run, {"sockperf.txt": "x", "netperf.txt": "y"})
    (one, two) = beside(study, results, {50: "netperf p50", 99: "netperf p99"})
    assert one["netperf"] == "990 (990 to 990)" and one["sockperf"].startswith("1000 (")
    assert two["netperf"] == "not measured"
