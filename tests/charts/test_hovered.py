"""Each mark that was measured names its runs to who hovers over it, and to a screen reader."""

import functools
import json
import re

import numpy as np
import pytest
import synthetic
import vl_convert
from drawn import MEASURED, NOTE, PICTURES, rows, shown

from labkit import charts, find_study
from labkit.charts import tradeoff
from labkit.running.open_lab import stored_results


@pytest.mark.slow
def test_each_run_is_a_tick_that_names_it():
    chart = charts.ladder(MEASURED, runs={("Native", 1): "003-Native-b1"})
    ticks = [row for row in rows(chart) if "run" in row]
    named = {row["run"] for row in ticks if row["condition"] == "Native"}
    assert named >= {"003-Native-b1", "block 2"}
    assert not [row for row in rows(charts.ladder(synthetic.measured(13, 50))) if "run" in row]


# What Vega says of each mark to a screen reader, tooltip included.
def said_of_marks(chart):
    spec = json.dumps(shown(chart)[charts.V5]).replace('"aria": false', '"aria": true')
    scene = json.dumps(vl_convert.vegalite_to_scenegraph(json.loads(spec), vl_version="5.8"))
    return re.findall(r'"description": "((?:[^"\\]|\\.)*)"', scene)


DRAWN_OF = {
    "ladder": {"001-Native-b1", "002-VM-SRIOV-b2"},
    "spread": {"001-Native-b1", "002-VM-SRIOV-b2"},
    "round trips": {"001-Native-b1"},
    "ratios": {"003-VM-b3", "004-Native-b4"},
    "over time": {"001-VM-b1"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN_OF)
def test_a_mark_that_was_measured_names_its_runs_when_it_is_hovered(name):
    said = said_of_marks(PICTURES[name]())
    told = [found for text in said for found in re.findall(r"(?:runs?|measured in): (.*)", text)]
    assert all(any(run in text for text in told) for run in DRAWN_OF[name]), said[:3]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "draw"), [
    ("lat_cpu_exclusive", tradeoff.run_2_over_run_1),
    ("lat_vmxnet3", functools.partial(tradeoff.against_rate, metric="throughput", unit="1/s")),
])  # fmt: skip
def test_pictures_of_several_metrics_name_the_runs_of_recorded_results_too(name, draw):
    results = stored_results(name, "recorded")
    text = " ".join(said_of_marks(draw(find_study(name), results, note=NOTE)))
    runs = results.by_block()
    firsts = [runs[condition, min(b for c, b in runs if c == condition)] for condition, _ in runs]
    assert len(set(firsts)) == 2 and all(run in text for run in firsts)


@pytest.mark.slow
def test_metrics_beside_each_other_are_columns_and_one_that_no_host_has_says_so():
    name = "lat_cpu_exclusive"
    study, results = find_study(name), stored_results(name, "recorded")
    found = tradeoff.both_sides(study, results, ("response_time", "throughput", "colour"))
    assert [row["condition"] for row in found] == ["Run 1", "Run 2"]
    for row in found:
        assert re.fullmatch(r"[\d,.]+ \([\d,.]+ to [\d,.]+\)", row["response time (µs)"])
        assert row["colour"] == "not reported by this lab"
    assert found[0]["throughput (trans/s)"] != found[1]["throughput (trans/s)"]


@pytest.mark.slow
def test_of_many_runs_a_mark_names_the_first_and_counts_the_rest():
    chart = charts.ladder(synthetic.measured(13, 50))
    row = rows(chart, condition="Native", percentile="median")[0]
    assert row["runs"] == "block 1, block 2, block 3, block 4, block 5 and 8 more"


def test_a_point_of_the_spread_names_the_very_run_that_its_value_is_of():
    values = {"a": {1: np.array([1.0, 2.0, 9.0]), 2: np.array([3.0, 4.0])}}
    spec = charts.spread(values).to_dict()
    found = {row["value"]: row["of"] for row in rows(charts.spread(values), condition="a")}
    assert found == {1: 0, 2: 0, 3: 1, 4: 1, 9: 0}
    told = spec["transform"][0]["from"]["data"]
    names = told.get("values") or spec["datasets"][told["name"]]
    assert names == [{"of": 0, "run": "block 1"}, {"of": 1, "run": "block 2"}]
