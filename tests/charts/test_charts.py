"""Every kind of picture compiles, stays small, says what it shows, and needs no network."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import synthetic
import vl_convert

from labkit import charts, find_study
from labkit.charts import tradeoff
from labkit.errors import BadInput, ResultsError, Unknown
from labkit.running.open_lab import stored_results

MEASURED = synthetic.measured()
PUBLISHED = [
    {"condition": "Native", "statistic": "median", "value": "18", "source": "Figure 3"},
    {"condition": "VM-Default", "statistic": "p99.99", "value": "557", "source": "Figure 3"},
    {"condition": "VM-Latency-SRIOV minus Native", "statistic": "median", "value": "2"},
    {"condition": "Native", "statistic": "mean", "value": "19"},
]
NOTE = "Emulated: one machine"
RNG = np.random.default_rng(1)
RATES = {"Native": 100, "VM": 97, "VM-Docker": 86}
RATES = {
    name: {k: np.array([rate * (1 + 0.01 * RNG.standard_normal())]) for k in range(5)}
    for name, rate in RATES.items()
}
SCALED = {x: {k: np.array([100.0 * x**0.9 + k]) for k in range(4)} for x in (1, 2, 4, 8)}
MOMENTS = np.linspace(0, 60, 1_000_000)
DIP = np.where((MOMENTS > 30) & (MOMENTS < 30.001), 0.0, 1000.0)
EVENTS = [charts.Happened("migration", 10, 31), charts.Happened("switch-over", 30)]
PARTS = {"small": {"noticed": 30.0, "start": 380.0}, "large": {"noticed": 35.0, "start": 425.0}}
RUNS = {(name, k): f"00{k}-{name}-b{k}" for name in (*MEASURED, *RATES, "8") for k in range(6)}
BUSY = [
    {"cpu": f"cpu{cpu}", "begun": n / 5, "ended": (n + 1) / 5, "busy": cpu / 16, "stolen": 0.0}
    for n in range(100) for cpu in range(16)
]  # fmt: skip
PICTURES = {
    "ladder": lambda: charts.ladder(MEASURED, PUBLISHED, runs=RUNS, note=NOTE),
    "ladder, linear": lambda: charts.ladder(MEASURED, scale="linear", note=NOTE),
    "ladder, one block": lambda: charts.ladder(synthetic.measured(1, 50), PUBLISHED, note=NOTE),
    "spread": lambda: charts.spread(MEASURED, runs=RUNS, note=NOTE),
    "spread, linear": lambda: charts.spread(MEASURED, scale="linear", note=NOTE),
    "round trips": lambda: charts.round_trips(
        MEASURED["Native"][1], run="001-Native-b1", note=NOTE
    ),
    "ratios": lambda: charts.ratios(RATES, "Native", {"VM": 0.98}, runs=RUNS, note=NOTE),
    "ratios and noise": lambda: charts.ratios(RATES, "Native", noise=0.04, note=NOTE),
    "speed-up": lambda: charts.speed_up(
        SCALED, [charts.Fit("law", [(1, 1), (8, 6)])], {8: 5.6}, runs=RUNS, note=NOTE
    ),
    "speed-ups": lambda: charts.speed_ups(
        {"Native": SCALED[8], "VM": SCALED[4]},
        {"Native": SCALED[1], "VM": SCALED[1]},
        8,
        (4, 5.6),
        runs=RUNS,
        note=NOTE,
    ),
    "downtime": lambda: charts.downtime(
        PARTS, {"small": 410, "gone": 1}, runs={"small": "001-small-b1"}, note=NOTE
    ),
    "over time": lambda: charts.over_time(
        {"orders": (MOMENTS, DIP)}, EVENTS, run="001-VM-b1", note=NOTE
    ),
    "shares": lambda: charts.shares(
        {"a": (MOMENTS, DIP), "b": (MOMENTS[::7], DIP[::7])}, of=2500, run="001-a-b1", note=NOTE
    ),
    "cores": lambda: charts.cores(BUSY, run="001-Native-b1", note=NOTE),
    "round trips, many": lambda: charts.round_trips(np.arange(1, 2e5), note=NOTE),
}
PICTURES = {name: functools.cache(draw) for name, draw in PICTURES.items()}
every_picture = pytest.mark.parametrize("name", PICTURES)


def shown(chart):
    bundle = chart._repr_mimebundle_()
    return bundle[0] if isinstance(bundle, tuple) else bundle


def rows(chart, **wanted):
    """All rows of a chart's data that have these values."""
    found = [row for data in chart.to_dict()["datasets"].values() for row in data]
    return [row for row in found if wanted.items() <= row.items()]


@pytest.mark.slow
@every_picture
@pytest.mark.parametrize("version", ["5.8", "6.4"])
def test_it_compiles_for_the_vega_of_jupyterlab_and_of_reports(name, version):
    spec = shown(PICTURES[name]())[charts.V5]
    assert vl_convert.vegalite_to_vega(spec, vl_version=version)["marks"]


@pytest.mark.slow
@every_picture
def test_it_shows_itself_in_a_form_that_jupyterlab_draws_and_asks_no_server(name):
    bundle = shown(PICTURES[name]())
    assert set(bundle) == {charts.V5, "image/svg+xml", "text/plain"}
    text = json.dumps(bundle[charts.V5])
    assert len(text) < 90_000
    assert set(re.findall(r"https?://[^/\"]+", text)) == {"https://vega.github.io"}  # $schema
    assert "/v5" in bundle[charts.V5]["$schema"]


@pytest.mark.slow
@every_picture
def test_it_speaks_to_a_screen_reader_and_bears_the_note(name):
    bundle = shown(PICTURES[name]())
    assert NOTE in bundle["text/plain"] == bundle[charts.V5]["description"]
    assert 'role="img" aria-label="' in bundle["image/svg+xml"]
    assert NOTE in bundle[charts.V5]["title"]["subtitle"]


@pytest.mark.slow
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


def test_ten_conditions_have_ten_colours_and_no_two_the_same_colour_and_shape():
    assert len(set(charts.COLOURS)) == 10 and len(set(charts.SHAPES)) == len(charts.SHAPES)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd",
    [
        "\x1b[31mred",
        "a\0b",
        "\u2028",
        'say "no"',
        "back\\slash",
        "constructor",
        "__proto__",
        "\ud800",
    ],
    ids=range(8),
)
def test_any_text_that_a_host_may_say_can_be_drawn(odd):
    values = {odd: {1: np.arange(1.0, 50)}, "Native": {1: np.arange(1.0, 60)}}
    words = {"title": odd, "note": odd, "metric": odd}
    shown(charts.ladder(values, unit=odd, runs={(odd, 1): odd}, **words))
    shown(charts.over_time({odd: ([1, 2], [1, 2])}, [charts.Happened(odd, 1)], unit=odd, **words))


@pytest.mark.slow
def test_importing_charts_leaves_out_what_makes_it_slow():
    code = (
        "import sys; from labkit.machine import lean; lean.start_lean(); import labkit.charts;"
        "print(sorted(n for n, m in sys.modules.items() if m))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "altair" in loaded.stdout
    for slow in ("rfc3987_syntax", "isoduration", "pandas", "matplotlib", "scipy.stats"):
        assert f"'{slow}'" not in loaded.stdout


def test_ratios_are_over_native_with_intervals_and_the_documents_beside():
    found = rows(charts.ratios(RATES, "Native", {"VM": 0.98, "gone": 1}), condition="VM")
    ours, theirs = found[0], found[1]
    assert ours["low"] < ours["value"] < ours["high"] and theirs["value"] == 0.98
    assert ours["value"] == pytest.approx(
        np.mean([v[0] for v in RATES["VM"].values()])
        / np.mean([v[0] for v in RATES["Native"].values()]),
        rel=1e-4,
    )
    assert "5 runs" in ours["from"]
    with pytest.raises(Unknown, match="known: Native"):
        charts.ratios(RATES, "Naive")
    with pytest.raises(BadInput, match="cannot be compared"):
        charts.ratios({"a": {1: np.array([1.0])}, "b": {1: np.array([0.0])}}, "b")


def test_a_labs_noise_is_shaded_around_1():
    chart = charts.ratios(RATES, "Native", noise=0.25)
    (band,) = [row for row in rows(chart) if "to" in row]
    assert band == {"value": 0.8, "to": 1.25}
    assert "this lab's noise, 25 %" in str(chart.to_dict()["title"])


@pytest.mark.parametrize(("margin", "said"), [(None, 0.05), (0.1, 0.1)])
def test_the_band_in_which_conditions_are_the_same_is_shaded_as_verdicts_have_it(margin, said):
    chart = charts.ratios(RATES, "Native", margin=margin)
    (band,) = [row for row in rows(chart) if "to" in row]
    assert band["to"] == 1 + said and band["value"] == pytest.approx(1 / (1 + said), rel=1e-4)
    assert f"the same within the margin, {100 * said:g} %" in str(chart.to_dict()["title"])


def test_the_end_of_a_warm_up_is_marked_and_nothing_is_cut():
    values = np.random.default_rng(1).lognormal(4, 0.1, 1000)
    assert not [row for row in rows(charts.round_trips(values)) if "value" not in row]
    values[:200] *= 2
    warm = charts.round_trips(values)
    (mark,) = [row for row in rows(warm) if "value" not in row]
    assert mark["n"] == pytest.approx(200, abs=10)
    said = " ".join(warm.to_dict()["title"]["subtitle"])
    assert f"warm-up until request {mark['n']}" in said
    assert min(row["n"] for row in rows(warm) if "n" in row) == 1


def test_two_runs_give_a_ratio_without_a_bar():
    few = {name: {k: blocks[k] for k in (0, 1)} for name, blocks in RATES.items()}
    assert rows(charts.ratios(few, "Native"), condition="VM")[0]["low"] is None


def test_speed_ups_are_of_each_place_over_itself_beside_the_ideal():
    one = {"Native": SCALED[1], "VM": SCALED[1]}
    chart = charts.speed_ups({"Native": SCALED[8], "VM": SCALED[4]}, one, 8, (5.6,))
    for name, times in {"Native": 8**0.9, "VM": 4**0.9}.items():
        found = sorted({row["value"] for row in rows(chart, condition=name)})
        assert found == pytest.approx([1, times], rel=0.02)
    assert rows(chart, x=8, value=8) and rows(chart, x=8, value=5.6)
    with pytest.raises(BadInput, match="two points"):
        charts.speed_ups({"Native": SCALED[8]}, {}, 8)


def test_a_speed_up_starts_at_one_beside_the_ideal_and_the_laws():
    chart = charts.speed_up(SCALED, [charts.Fit("law", [(1, 1), (8, 6)])])
    assert rows(chart, x=1, value=1.0)
    assert {row["law"] for row in rows(chart) if "law" in row} == {"ideal", "law"}
    assert rows(chart, law="ideal", x=8)[0]["value"] == 8
    with pytest.raises(BadInput, match="two points"):
        charts.speed_up({1: SCALED[1]})


def test_a_dip_of_a_millisecond_in_a_million_values_is_drawn():
    chart = charts.over_time({"orders": (MOMENTS, DIP)}, EVENTS, run="001-VM-b1")
    found = rows(chart, condition="orders")
    assert len(found) <= charts.POINTS
    assert min(row["low"] for row in found) == 0
    assert np.average([row["value"] for row in found]) == pytest.approx(DIP.mean(), rel=1e-3)
    assert {row["event"] for row in rows(chart) if "event" in row} == {"migration", "switch-over"}


def test_shares_are_of_the_same_moments_whatever_the_series_have():
    found = rows(charts.shares({"a": (MOMENTS, DIP), "b": (MOMENTS[::7], DIP[::7])}, of=2500))
    moments = {name: [row["at"] for row in found if row["condition"] == name] for name in "ab"}
    assert moments["a"] == moments["b"] and len(moments["a"]) <= charts.POINTS
    assert max(row["share"] for row in found) == pytest.approx(0.4, rel=1e-3)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: charts.over_time({}),
        lambda: charts.cores([]),
        lambda: charts.over_time({"a": ([], [])}),
        lambda: charts.over_time({"a": ([1, 2], [1])}),
        lambda: charts.over_time({"a": ([1.0], [float("nan")])}),
        lambda: charts.shares({"a": ([1.0, 2.0], [1.0, -1.0])}),
        lambda: charts.shares({"a": ([1.0], [1.0])}, of=0),
        lambda: charts.downtime({}),
        lambda: charts.downtime({"a": {"b": -1.0}}),
        lambda: charts.ratios({}, "a"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw):
    with pytest.raises(BadInput):
        draw()


def test_each_run_is_a_tick_that_names_it():
    chart = charts.ladder(MEASURED, runs={("Native", 1): "003-Native-b1"})
    ticks = [row for row in rows(chart) if "run" in row]
    assert {row["run"] for row in ticks if row["condition"] == "Native"} >= {
        "003-Native-b1",
        "block 2",
    }
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
    "speed-up": {"001-8-b1"},
    "downtime": {"001-small-b1"},
    "over time": {"001-VM-b1"},
    "shares": {"001-a-b1"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN_OF)
def test_a_mark_that_was_measured_names_its_runs_when_it_is_hovered(name):
    said = said_of_marks(PICTURES[name]())
    told = [found for text in said for found in re.findall(r"(?:runs?|measured in): (.*)", text)]
    assert all(any(run in text for text in told) for run in DRAWN_OF[name]), said[:3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("lat_cpu_exclusive", tradeoff.run_2_over_run_1),
        ("lat_vmxnet3", functools.partial(tradeoff.against_rate, metric="throughput", unit="1/s")),
    ],
)
def test_pictures_of_several_metrics_name_the_runs_of_recorded_results_too(name, draw):
    results = stored_results(name, "recorded")
    said = " ".join(said_of_marks(draw(find_study(name), results, note=NOTE)))
    runs = results.by_block()
    firsts = [runs[condition, min(b for c, b in runs if c == condition)] for condition, _ in runs]
    assert len(set(firsts)) == 2 and all(run in said for run in firsts)


@pytest.mark.slow
def test_metrics_beside_each_other_are_columns_and_one_that_no_host_has_says_so():
    study, results = (
        find_study("lat_cpu_exclusive"),
        stored_results("lat_cpu_exclusive", "recorded"),
    )
    found = tradeoff.both_sides(study, results, ("response_time", "throughput", "colour"))
    assert [row["condition"] for row in found] == ["Run 1", "Run 2"]
    for row in found:
        assert re.fullmatch(r"[\d,.]+ \([\d,.]+ to [\d,.]+\)", row["response time (µs)"])
        assert row["colour"] == "not reported by this lab"
    assert found[0]["throughput (trans/s)"] != found[1]["throughput (trans/s)"]


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


@pytest.mark.parametrize("ending", ["svg", "png", pytest.param("html", marks=pytest.mark.slow)])
def test_a_chart_is_saved_whole_and_asks_no_server(tmp_path, ending):
    file = charts.save(charts.ratios(RATES, "Native"), tmp_path / f"a.{ending}")
    whole = file.read_bytes()
    assert whole.startswith({"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>"}[ending])
    assert not re.search(rb"<(script|link|img)[^>]+(src|href)=.https?:", whole)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_chart_is_not_saved_as_something_unknown_or_nowhere(tmp_path):
    with pytest.raises(Unknown, match=r"known: \.csv, \.html, \.png, \.svg"):
        charts.save(charts.ratios(RATES, "Native"), tmp_path / "a.gif")
    with pytest.raises(ResultsError, match="cannot keep"):
        charts.save(charts.ratios(RATES, "Native"), tmp_path / "no" / "a.svg")
