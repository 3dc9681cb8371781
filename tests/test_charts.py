"""Every kind of picture compiles, stays small, says what it shows, and needs no network."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import synthetic
import vl_convert

from labkit import charts
from labkit.errors import BadInput, Unknown

MEASURED = synthetic.measured()
PUBLISHED = [
    {"condition": "Native", "statistic": "median", "value": "18", "source": "Figure 3"},
    {"condition": "VM-Default", "statistic": "p99.99", "value": "557", "source": "Figure 3"},
    {"condition": "VM-Latency-SRIOV minus Native", "statistic": "median", "value": "2"},
    {"condition": "Native", "statistic": "mean", "value": "19"},
]
NOTE = "Emulated: one machine"
PICTURES = {
    "ladder": lambda: charts.ladder(MEASURED, PUBLISHED, note=NOTE),
    "ladder, linear": lambda: charts.ladder(MEASURED, scale="linear", note=NOTE),
    "ladder, one block": lambda: charts.ladder(synthetic.measured(1, 50), PUBLISHED, note=NOTE),
    "spread": lambda: charts.spread(MEASURED, note=NOTE),
    "spread, linear": lambda: charts.spread(MEASURED, scale="linear", note=NOTE),
    "round trips": lambda: charts.round_trips(MEASURED["Native"][1], note=NOTE),
    "round trips, many": lambda: charts.round_trips(np.arange(1, 2e5), note=NOTE),
}
every_picture = pytest.mark.parametrize("name", PICTURES)


def shown(chart):
    bundle = chart._repr_mimebundle_()
    return bundle[0] if isinstance(bundle, tuple) else bundle


def rows(chart, **wanted):
    """All rows of a chart's data that have these values."""
    found = [row for data in chart.to_dict()["datasets"].values() for row in data]
    return [row for row in found if wanted.items() <= row.items()]


@every_picture
@pytest.mark.parametrize("version", ["5.8", "6.4"])
def test_it_compiles_for_the_vega_of_jupyterlab_and_of_reports(name, version):
    spec = shown(PICTURES[name]())[charts.V5]
    assert vl_convert.vegalite_to_vega(spec, vl_version=version)["marks"]


@every_picture
def test_it_shows_itself_in_a_form_that_jupyterlab_draws_and_asks_no_server(name):
    bundle = shown(PICTURES[name]())
    assert set(bundle) == {charts.V5, "image/svg+xml", "text/plain"}
    text = json.dumps(bundle[charts.V5])
    assert len(text) < 30_000
    assert set(re.findall(r"https?://[^/\"]+", text)) == {"https://vega.github.io"}  # $schema
    assert "/v5" in bundle[charts.V5]["$schema"]


@every_picture
def test_it_speaks_to_a_screen_reader_and_bears_the_note(name):
    bundle = shown(PICTURES[name]())
    assert NOTE in bundle["text/plain"] == bundle[charts.V5]["description"]
    assert 'role="img" aria-label="' in bundle["image/svg+xml"]
    assert NOTE in bundle[charts.V5]["title"]["subtitle"]


@every_picture
def test_it_leaves_text_and_background_to_the_theme_so_that_a_dark_one_can_be_read(name):
    spec = shown(PICTURES[name]())[charts.V5]
    assert "background" not in spec
    assert not any("Color" in key for part in spec["config"].values() for key in part)


def test_the_ladder_holds_the_pooled_percentiles_with_their_intervals():
    row = rows(charts.ladder(MEASURED), condition="Native", percentile="median")[0]
    whole = np.concatenate(list(MEASURED["Native"].values()))
    assert row["value"] == np.sort(whole)[len(whole) // 2 - 1]
    assert row["low"] <= row["value"] <= row["high"]


def test_percentiles_with_too_few_values_are_hollow_and_say_so():
    chart = charts.ladder(MEASURED)
    row = rows(chart, condition="Native", percentile="99.99 %")[0]
    assert row["enough"] is False and row["low"] is None and "too few" in row["from"]
    hollow = [x["mark"] for x in chart.to_dict()["layer"] if x["mark"]["type"] == "point"]
    assert {mark["filled"] for mark in hollow} == {True, False}
    assert "Hollow" in str(chart.to_dict()["title"])
    assert "Hollow" not in str(charts.ladder(MEASURED, percentiles=(50,)).to_dict()["title"])


def test_the_bars_reach_from_the_low_end_to_the_high_end():
    layers = charts.ladder(MEASURED).to_dict()["layer"]
    bar = next(layer for layer in layers if layer["mark"]["type"] == "rule")
    assert (bar["encoding"]["y"]["field"], bar["encoding"]["y2"]["field"]) == ("low", "high")


def test_the_documents_numbers_are_diamonds_of_the_conditions_that_were_measured():
    chart = charts.ladder(MEASURED, PUBLISHED)
    assert [row["value"] for row in rows(chart, source="Figure 3")] == [18.0, 557.0]
    assert not rows(chart, value=2.0)
    assert "diamond" in json.dumps(chart.to_dict())


def test_a_condition_keeps_its_colour_when_others_are_left_out():
    some = {name: MEASURED[name] for name in ("VM-SRIOV", "VM-Default")}
    colours = [
        charts.ladder(what, among=list(MEASURED)).to_dict()["layer"][0]["encoding"]["color"]
        for what in (some, MEASURED)
    ]
    assert colours[0] == colours[1]


def test_colours_and_shapes_differ_between_six_conditions():
    assert len(set(charts.COLOURS)) == len(set(charts.SHAPES)) == 6


def test_the_spread_starts_at_all_and_ends_at_the_slowest_value():
    found = rows(charts.spread(MEASURED), condition="Native")
    whole = np.concatenate(list(MEASURED["Native"].values()))
    assert found[0]["share"] == 1 and found[0]["value"] == whole.min()
    assert found[-1]["value"] == pytest.approx(whole.max(), rel=1e-4)
    shares = [row["share"] for row in found]
    assert shares == sorted(shares, reverse=True)


def test_a_long_run_is_thinned_but_never_loses_its_slowest_values():
    values = np.random.default_rng(1).lognormal(3, 0.5, 100_000)
    kept = charts.thinned(values)
    assert len(kept) <= charts.POINTS + charts.SLOWEST
    assert set(np.argsort(values)[-charts.SLOWEST :]) <= set(kept)
    ordinary = np.median(values[kept])
    assert ordinary == pytest.approx(np.median(values), rel=0.2)


def test_nothing_to_draw_and_an_unknown_scale_are_refused_with_what_to_do():
    for empty in ({}, {"Native": {}}, {"Native": {1: np.array([])}}):
        with pytest.raises(BadInput, match="nothing to draw"):
            charts.ladder(empty)
    with pytest.raises(Unknown, match="known: linear, log"):
        charts.ladder(MEASURED, scale="cubic")
    with pytest.raises(BadInput, match="nothing to draw"):
        charts.round_trips(np.array([]))


def test_what_a_host_said_is_text_in_the_picture_and_nothing_else():
    bad = '"><script>alert(1)</script>'
    drawn = shown(charts.round_trips(np.arange(1, 9.0), note=bad))["image/svg+xml"]
    assert "<script" not in drawn and "&lt;script" in drawn


def test_importing_charts_leaves_out_what_makes_it_slow():
    code = "import sys, labkit.charts; print(sorted(n for n, m in sys.modules.items() if m))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "altair" in loaded.stdout
    for slow in ("rfc3987_syntax", "pandas", "matplotlib"):
        assert f"'{slow}'" not in loaded.stdout
