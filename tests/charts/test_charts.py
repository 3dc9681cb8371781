"""Every kind of picture compiles, stays small, says what it shows, and needs no network."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import altair as alt
import numpy as np
import pytest
import vl_convert
from drawn import (
    DIP,
    EVENTS,
    MEASURED,
    MOMENTS,
    NOTE,
    PICTURES,
    PUBLISHED,
    RATES,
    SCALED,
    every_picture,
    rows,
    shown,
)

from labkit import charts, kernels
from labkit.charts import look
from labkit.charts.bars import shared_line
from labkit.charts.look import LINE
from labkit.errors import BadInput, ResultsError, Unknown
from labkit.verdict import REAL_KERNEL


@pytest.mark.slow
@every_picture
def test_it_draws_in_jupyterlab_and_reports_in_any_theme_speaks_and_asks_no_server(name):
    bundle = shown(PICTURES[name]())
    assert set(bundle) == {charts.V5, "image/svg+xml", "text/plain"}
    spec, text = bundle[charts.V5], json.dumps(bundle[charts.V5])
    for version in ("5.8", "6.4"):
        assert vl_convert.vegalite_to_vega(spec, vl_version=version)["marks"]
    assert len(text) < 90_000 and "/v5" in spec["$schema"]
    assert set(re.findall(r"https?://[^/\"]+", text)) == {"https://vega.github.io"}  # $schema
    assert NOTE in bundle["text/plain"] == spec["description"]
    assert 'role="img" aria-label="' in bundle["image/svg+xml"]
    assert spec["title"]["subtitle"][0].startswith(NOTE)
    assert "…" not in json.dumps(spec["title"], ensure_ascii=False)
    assert "background" not in spec
    assert not any("Color" in key for part in spec["config"].values() for key in part)


def test_its_schema_is_of_no_release_that_jupyterlab_would_warn_of():
    """Vega-Embed warns in the console of each picture that is of a newer release than itself."""
    file = Path(sys.prefix) / "share/jupyter/lab/static/third-party-licenses.json"
    brought = {row["name"]: row["versionInfo"] for row in json.loads(file.read_text())["packages"]}
    asked = re.search(r"/v([\d.]+)\.json$", charts.V5_SCHEMA)[1].split(".")
    there = brought["vega-lite"].split(".")
    assert asked[0] == there[0] and [*map(int, asked)] <= [*map(int, there)]


@pytest.mark.slow
def test_the_ladder_holds_the_pooled_percentiles_with_their_intervals_and_the_documents():
    chart = charts.ladder(MEASURED, PUBLISHED)
    row = rows(chart, condition="Native", percentile="median")[0]
    whole = np.concatenate(list(MEASURED["Native"].values()))
    assert row["value"] == np.sort(whole)[len(whole) // 2 - 1]
    assert row["low"] <= row["value"] <= row["high"]
    layers = chart.to_dict()["layer"]
    bar = next(layer for layer in layers if layer["mark"]["type"] == "rule")
    assert (bar["encoding"]["y"]["field"], bar["encoding"]["y2"]["field"]) == ("low", "high")
    assert [row["value"] for row in rows(chart, source="Figure 3")] == [18.0, 557.0]
    assert not rows(chart, value=2.0) and "diamond" in json.dumps(layers)


@pytest.mark.slow
def test_percentiles_with_too_few_values_are_hollow_and_say_so():
    chart = charts.ladder(MEASURED)
    row = rows(chart, condition="Native", percentile="99.99 %")[0]
    assert row["enough"] is False and row["low"] is None and "too few" in row["from"]
    hollow = [x["mark"] for x in chart.to_dict()["layer"] if x["mark"]["type"] == "point"]
    assert {mark["filled"] for mark in hollow} == {True, False}
    assert "Hollow" in str(chart.to_dict()["title"])
    assert "Hollow" not in str(charts.ladder(MEASURED, percentiles=(50,)).to_dict()["title"])


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_a_host_said_is_text_in_the_picture_and_nothing_else():
    bad = '"><script>alert(1)</script>'
    drawn = shown(charts.round_trips(np.arange(1, 9.0), note=bad))["image/svg+xml"]
    assert "<script" not in drawn and "&lt;script" in drawn


@pytest.mark.slow
@pytest.mark.parametrize("odd", [
    "\x1b[31mred", "a\0b", "\u2028", 'say "no"', "back\\slash", "constructor", "__proto__",
    "\ud800",
], ids=range(8))  # fmt: skip
def test_any_text_that_a_host_may_say_can_be_drawn(odd):
    values = {odd: {1: np.arange(1.0, 50)}, "Native": {1: np.arange(1.0, 60)}}
    words = {"note": odd, "metric": odd, "unit": odd}
    shown(charts.ladder(values, runs={(odd, 1): odd}, **words))
    happened = [charts.Happened(odd, 1)]
    shown(charts.over_time({odd: ([1, 2], [1, 2])}, happened, title=odd, **words))


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
    theirs, ours = found[0], found[1]
    assert ours["low"] < ours["value"] < ours["high"] and theirs["value"] == 0.98
    vm, native = (np.mean([v[0] for v in RATES[name].values()]) for name in ("VM", "Native"))
    assert ours["value"] == pytest.approx(vm / native, rel=1e-4)
    assert "5 runs" in ours["from"]
    few = {name: {k: blocks[k] for k in (0, 1)} for name, blocks in RATES.items()}
    assert rows(charts.ratios(few, "Native"), condition="VM")[0]["low"] is None


@pytest.mark.parametrize(("asked", "share", "said"), [
    ({"noise": 0.25}, 0.25, "this lab's noise, 25 %"),
    ({}, 0.05, "the same within the margin, 5 %"),
    ({"margin": 0.1}, 0.1, "the same within the margin, 10 %"),
])  # fmt: skip
def test_what_is_no_finding_is_shaded_around_1_as_verdicts_have_it(asked, share, said):
    chart = charts.ratios(RATES, "Native", **asked)
    (band,) = [row for row in rows(chart) if "to" in row]
    assert band["to"] == 1 + share and band["value"] == pytest.approx(1 / (1 + share), rel=1e-4)
    assert said in str(chart.to_dict()["title"])


@pytest.mark.slow
def test_the_end_of_a_warm_up_is_marked_and_nothing_is_cut():
    values = np.random.default_rng(1).lognormal(4, 0.1, 1000)
    assert not [row for row in rows(charts.round_trips(values)) if "value" not in row]
    values[:200] *= 2
    warm = charts.round_trips(values)
    (mark,) = [row for row in rows(warm) if "value" not in row]
    assert mark["n"] == pytest.approx(200, abs=10)
    text = " ".join(warm.to_dict()["title"]["subtitle"])
    assert f"warm-up until request {mark['n']}" in text
    assert min(row["n"] for row in rows(warm) if "n" in row) == 1


def test_a_sizing_curve_shows_each_trial_and_the_gate_that_users_have_to_pass():
    trials = {"Native": [(16, 1.0), (32, 0.97), (64, 0.2)], "VM": [(16, 0.5)]}
    drawn = charts.sizing(trials, 0.95, "pages in time").to_dict()
    points = [row for rows in drawn["datasets"].values() for row in rows if "users" in row]
    native = [(row["users"], row["share"]) for row in points if row["condition"] == "Native"]
    assert sorted(native) == trials["Native"]
    assert [{"gate": 0.95}] in drawn["datasets"].values()
    assert "Native 32; VM 0" in drawn["description"]


@pytest.mark.slow
def test_speed_ups_are_of_each_place_over_itself_beside_the_ideal():
    one = {"Native": SCALED[1], "VM": SCALED[1]}
    chart = charts.speed_ups({"Native": SCALED[8], "VM": SCALED[4]}, one, 8, (5.6,))
    for name, times in {"Native": 8**0.9, "VM": 4**0.9}.items():
        found = sorted({row["value"] for row in rows(chart, condition=name)})
        assert found == pytest.approx([1, times], rel=0.02)
    assert rows(chart, x=8, value=8) and rows(chart, x=8, value=5.6)


@pytest.mark.slow
def test_a_dip_of_a_millisecond_in_a_million_values_is_drawn():
    chart = charts.over_time({"orders": (MOMENTS, DIP)}, EVENTS, run="001-VM-b1")
    found = rows(chart, condition="orders")
    assert len(found) <= charts.POINTS
    assert min(row["low"] for row in found) == 0
    assert np.average([row["value"] for row in found]) == pytest.approx(DIP.mean(), rel=1e-3)
    assert {row["event"] for row in rows(chart) if "event" in row} == {"migration", "switch-over"}


@pytest.mark.parametrize(("draw", "why"), [
    *((partial(charts.ladder, empty), "nothing to draw")
      for empty in ({}, {"Native": {}}, {"Native": {1: np.array([])}})),
    (partial(charts.ladder, MEASURED, scale="cubic"), "known: linear, log"),
    (partial(charts.round_trips, np.array([])), "nothing to draw"),
    (partial(charts.round_trips, np.array([1.0, np.nan])), "some values of the run are not num"),
    (partial(charts.spread, {"VM": {1: np.array([1.0, np.nan])}}), "VM: some samples are not num"),
    (partial(charts.sizing, {"Native": []}, 0.95, "pages in time"), "nothing to draw"),
    (partial(charts.speed_ups, {"Native": SCALED[8]}, {}, 8), "two points"),
    (partial(charts.ratios, RATES, "Naive"), "known: Native"),
    (partial(charts.ratios, RATES, {"VM": "nothing"}), "known: Native"),
    (partial(charts.ratios, {"a": {1: np.array([1.0])}, "b": {1: np.array([0.0])}}, "b"),
     "cannot be compared"),
    (partial(charts.ratios, {}, "a"), ""), (partial(shared_line, {}, 500), ""),
    (partial(charts.cores, []), ""), *((partial(charts.over_time, odd), "") for odd in (
        {}, {"a": ([], [])}, {"a": ([1, 2], [1])}, {"a": ([1.0], [float("nan")])})),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(draw, why):
    with pytest.raises((BadInput, Unknown), match=why):
        draw()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["svg", "png", pytest.param("html", marks=pytest.mark.slow)])
def test_a_chart_is_saved_whole_and_asks_no_server(tmp_path, ending):
    file = charts.save(charts.ratios(RATES, "Native"), tmp_path / f"a.{ending}")
    whole = file.read_bytes()
    assert whole.startswith({"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>"}[ending])
    assert not re.search(rb"<(script|link|img)[^>]+(src|href)=.https?:", whole)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.slow
def test_a_chart_is_not_saved_as_something_unknown_or_nowhere(tmp_path):
    with pytest.raises(Unknown, match=r"known: \.csv, \.html, \.png, \.svg"):
        charts.save(charts.ratios(RATES, "Native"), tmp_path / "a.gif")
    with pytest.raises(ResultsError, match="cannot keep"):
        charts.save(charts.ratios(RATES, "Native"), tmp_path / "no" / "a.svg")


@pytest.mark.parametrize("on, shown", [
    ("emulated guest (User-Mode Linux)", "KVM (User-Mode Linux here)"), ("guest by KVM", "KVM"),
])  # fmt: skip
def test_a_condition_named_after_kvm_says_what_ran_in_its_place_and_keeps_its_name(on, shown):
    rates = {"Docker": RATES["Native"], "KVM": RATES["VM"]}
    told = kernels.titles({"Docker": REAL_KERNEL, "KVM": on, "VM": on})
    assert told == ({} if shown == "KVM" else {"KVM": shown})
    chart = charts.ratios(rates, "Docker", {"KVM": 0.4}, titles=told)
    assert {row["condition"] for row in rows(chart) if "condition" in row} == {shown}
    assert set(rates) == {"Docker", "KVM"}


@pytest.mark.slow
def test_it_follows_its_cell_under_one_line_and_the_rest_opens_at_a_sign():
    long = charts.ratios(RATES, "Native", {"VM": 0.9}, noise=0.04, note="Emulated: " + "long " * 20)
    spec = shown(long)[charts.V5]
    (line,) = spec["title"]["subtitle"]
    assert len(line) <= LINE
    assert line == "◆ the document; grey: noise, 4 %; bars: 95 % intervals"
    assert spec["layer"][-1]["mark"]["text"] == "details"
    assert "this lab's noise" in json.dumps(spec["layer"][-1]["data"])
    width = next(one for one in spec["params"] if one["name"] == "width")
    assert "containerSize()" in width["init"]
    brief = shown(PICTURES["over time"]())[charts.V5]
    assert brief["title"]["subtitle"] == [f"{NOTE}. Band: least to most"]
    assert all(layer["mark"].get("text") != "details" for layer in brief["layer"])


@pytest.mark.slow
def test_series_of_another_unit_have_a_panel_of_their_own():
    moments = np.linspace(0, 5, 50)
    spec = charts.over_time(
        {"bandwidth": (moments, 500 * moments)}, EVENTS,
        below={"CPU (% of one)": {"cpu": (moments, moments)}},
    ).to_dict()  # fmt: skip
    first, second = (part["layer"] for part in spec["layer"] if "layer" in part)
    ranges = [part[1]["encoding"]["y"]["scale"]["range"] for part in (first, second)]
    assert ranges[0][0] < ranges[1][1]
    assert spec["resolve"]["scale"]["y"] == "independent"


def test_names_of_what_happened_neither_overprint_nor_run_out():
    moments = [0.0, 10.0]
    near = [charts.Happened(f"round {n}", 9 + n / 10) for n in range(4)]
    drawn = charts.over_time({"it": (moments, moments)}, [*near, charts.Happened("last", 9.99)])
    texts = [part["mark"] for part in drawn.to_dict()["layer"] if part["mark"]["type"] == "text"]
    places = [(mark["dy"], mark["align"]) for mark in texts]
    assert len(set(places)) == len(places) >= 2 and ("right" in {align for _, align in places})


def test_more_conditions_than_colours_differ_in_their_lines():
    names = [f"condition {n}" for n in range(14)]
    ranges = look.dash(names).to_dict()["scale"]["range"]
    assert len({(n % 10, str(dash)) for n, dash in enumerate(ranges)}) == 14
    assert look.dash(names[:10]) is alt.Undefined


@pytest.mark.slow
def test_each_condition_may_have_a_base_of_its_own():
    chart = charts.ratios(RATES, {"VM": "Native"}, under="bare metal")
    assert {row["condition"] for row in rows(chart) if "condition" in row} == {"VM"}
    assert "relative to bare metal" in " ".join(chart.to_dict()["title"]["text"])


@pytest.mark.parametrize("low, high", [(0.93, 1.05), (0.5, 1.6), (0.08, 1.1), (0.99, 1.004)])
def test_an_axis_of_ratios_has_few_marks_within_its_ends(low, high):
    values = look.even_steps(low, high)
    assert 3 <= len(values) <= look.MOST_LABELS
    assert all(low <= value <= high for value in values)


@pytest.mark.slow
def test_the_line_below_a_title_says_which_conditions_are_emulated():
    on = {"Native": REAL_KERNEL, "VM": "emulated guest (User-Mode Linux)"}
    assert kernels.brief(on) == "emulated: VM"
    many = dict.fromkeys([f"a long condition {n}" for n in range(9)], on["VM"])
    assert kernels.brief({**many, "Native": REAL_KERNEL}) == "emulated: 9 of 10"
    assert kernels.brief(many) == "all emulated"
    note = kernels.Note("long " * 40, kernels.brief(on))
    (line,) = shown(charts.ratios(RATES, "Native", note=note))[charts.V5]["title"]["subtitle"]
    assert line == "Emulated: VM; grey: alike within 5 %; bars: 95 % intervals"


def test_what_is_emulated_beside_what_is_not_is_faint_and_its_name_says_so():
    note = kernels.Note("a note", "emulated: VM", ("VM",))
    chart = charts.ratios({**RATES, "Other": RATES["VM"]}, "Native", note=note)
    (faint, *_), (other, *_) = (
        rows(chart, condition="VM (emulated)"),
        rows(chart, condition="Other"),
    )
    assert faint["opacity"] < other["opacity"] == 1


def test_a_condition_that_did_nothing_at_all_says_0_beside_its_name():
    nothing = {block: 0 * values for block, values in RATES["VM"].items()}
    spec = json.dumps(charts.ratios({**RATES, "Down": nothing}, "Native").to_dict())
    assert '"Down (0)"' in spec and '"VM"' in spec


@pytest.mark.slow
def test_what_a_log_scale_has_no_place_for_is_drawn_on_a_linear_one():
    idle = {"idle": {1: np.zeros(50), 2: np.ones(50)}, "early": {1: -np.ones(50)}}
    # The shares of a distribution are on a log scale of their own.
    for drawn, shares in ((charts.ladder, 0), (charts.spread, 1)):
        assert json.dumps(drawn(MEASURED).to_dict()).count('"type": "log"') > shares
        assert json.dumps(drawn(idle).to_dict()).count('"type": "log"') == shares


@pytest.mark.slow
def test_a_legend_of_many_or_long_names_has_rows():
    many = {f"condition {n}": {1: np.array([1.0, 2.0])} for n in range(30)}
    assert '"columns": 4' in json.dumps(charts.ladder(many).to_dict())
    long = {f"{'long ' * 20}{n}": {1: np.array([1.0, 2.0])} for n in range(3)}
    assert '"columns": 1' in json.dumps(charts.spread(long).to_dict())
