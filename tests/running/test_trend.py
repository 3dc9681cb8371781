"""A study over time: a change between sessions is found, in what and from which session on."""

import json

import numpy as np
import pytest
from synthetic import ping_text

from labkit import studies
from labkit.errors import BadInput, ResultsError
from labkit.results import Results, Run
from labkit.running.open_lab import with_load
from labkit.running.trend import trend

pytestmark = pytest.mark.slow

STUDY = with_load(studies.find("lat_ping"), count=60)


def sessions(home, count, slower_from=None, seed=1):
    rng = np.random.default_rng(seed)
    for number in range(count):
        lab = {"lab": {"name": "ci", "tier": "test"}, "refused": {}, "label": f"day-{number}"}
        folder = home / "results" / "lat_ping" / f"day-{number}"
        results = Results.begin(folder, {**STUDY.asked("box", 1), **lab})
        by = 1.3 if slower_from is not None and number >= slower_from else 1.0
        for order in range(6):
            block, name = order // 2 + 1, ("Native", "VM-Default")[order % 2]
            level = {"Native": 300, "VM-Default": 900 * by}[name] * np.exp(rng.normal(0, 0.03))
            text = ping_text(np.round(level * np.exp(rng.normal(0, 0.1, 60))))
            started = f"2026-01-{number + 1:02d}T10:0{order}:00.000+00:00"
            run = Run(name, block, order + 1, "finished", started=started)
            results.keep(run, {"ping.txt": text})


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    return tmp_path


def test_a_change_is_found_in_its_series_from_its_session_on(home, typed):
    sessions(home, 16, slower_from=8)
    found = trend("lat_ping", [home / "results"])
    slow = [change for change in found.changes if change.series == "median of VM-Default"]
    assert [one.session for one in slow] == ["day-8"]
    assert slow[0].after / slow[0].before == pytest.approx(1.3, rel=0.1) and slow[0].p <= 0.05
    assert not [change for change in found.changes if change.series == "median of Native"]
    assert typed("results", "trend", "lat-ping", home / "results", "--json", code=1)["changes"]
    drawn = home / "trend.svg"
    assert "median of VM-Default" in typed(
        "results", "trend", "lat_ping", home / "results", "--chart", drawn, code=1
    )
    assert all(mark in drawn.read_text() for mark in ("day-8", "Shaded: how far sessions lie"))


def test_sessions_that_are_alike_have_no_change_and_since_takes_days_and_labels(home, typed):
    sessions(home, 14)
    assert "Nothing has changed" in typed("results", "trend", "lat_ping", home / "results")
    where = [home / "results"]
    assert len(trend("lat_ping", where, since="2026-01-05").sessions) == 10
    assert len(trend("lat_ping", where, since="day-6").sessions) == 8
    with pytest.raises(BadInput, match="neither a day nor the label"):
        trend("lat_ping", where, since="yesterday")
    with pytest.raises(BadInput, match="4 sessions of lat_ping on ci: too few"):
        trend("lat_ping", where, since="day-10")
    with pytest.raises(BadInput, match="of the lab 'moon'"):
        trend("lat_ping", where, lab="moon")
    with pytest.raises(ResultsError, match="no results of lat_netperf"):
        trend("lat_netperf", where)


def test_a_session_of_another_design_is_named_and_left_out(home):
    sessions(home, 9)
    file = home / "results" / "lat_ping" / "day-0" / "study.json"
    answer = json.loads(file.read_text())
    file.write_text(json.dumps({**answer, "workload": {**answer["workload"], "count": 9}}))
    found = trend("lat_ping", [home / "results"])
    assert len(found.sessions) == 8 and "day-0: has another load" in found.left_out[0]
