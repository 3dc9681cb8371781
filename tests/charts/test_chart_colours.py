"""What is drawn can be seen, and what is written can be read, on a light page and on a dark one."""

import re
from itertools import combinations

import numpy as np
import pytest
from drawn import PICTURES, every_picture, shown

from labkit import charts
from labkit.charts.look import GREY, steps


def light(colour):
    """The relative luminance of WCAG 2."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("behind", ["#ffffff", "#333333", "#111111"])
@pytest.mark.parametrize("colour", [*charts.COLOURS, GREY])
def test_every_colour_stands_out_on_a_light_page_and_on_a_dark_one(colour, behind):
    low, high = sorted((light(colour), light(behind)))
    assert (high + 0.05) / (low + 0.05) >= 3


# What Machado, Oliveira and Fernandes (2009) give for eyes that lack one kind of cones.
EYES = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
}  # fmt: skip
# From linear RGB to Oklab, in which distances are about what eyes see.
TO_CONES = [[0.41222147, 0.53633254, 0.05144599], [0.21190350, 0.68069955, 0.10739696],
            [0.08830246, 0.28171884, 0.62997870]]  # fmt: skip
TO_OKLAB = [[0.21045426, 0.79361779, -0.00407205], [1.97799850, -2.42859221, 0.45059371],
            [0.02590404, 0.78277177, -0.80867577]]  # fmt: skip


def seen(colours, eyes):
    """Where these eyes see the colours, in Oklab."""
    parts = np.array([[int(c[n : n + 2], 16) / 255 for n in (1, 3, 5)] for c in colours])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    there = np.clip(linear @ np.transpose(eyes), 0, 1)
    return np.cbrt(there @ np.transpose(TO_CONES)) @ np.transpose(TO_OKLAB)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize(("first", "apart"), [(10, 0.069), (7, 0.07), (3, 0.09), (2, 0.2)])
def test_colours_are_told_apart_without_red_or_green_the_first_ones_best(eyes, first, apart):
    places = seen(charts.COLOURS[:first], EYES[eyes])
    nearest = min(np.linalg.norm(a - b) for a, b in combinations(places, 2))
    assert nearest >= apart


@pytest.mark.slow
def test_what_is_written_is_9_pixels_high_in_the_narrowest_cell():
    """A window of 800 pixels leaves 356 of them beside the list of files."""
    names = [f"VM-Latency-SRIOV of a long name [vms={n}]" for n in range(7)]
    runs = {name: {1: np.linspace(1, 9e5, 50), 2: np.linspace(2, 9e5, 50)} for name in names}
    note = "Emulated: " + "one machine, " * 12
    moments = np.linspace(0, 60, 100)
    for chart in (
        charts.ladder(runs, note=note), charts.spread(runs, note=note),
        charts.ratios(runs, names[0], note=note),
        charts.round_trips(runs[names[0]][1], note=note),
        charts.over_time(dict.fromkeys(names, (moments, moments))),
    ):  # fmt: skip
        drawn = charts.svg(charts.bundle(chart.to_dict())[charts.V5])
        wide = float(re.search(r'viewBox="0 0 ([\d.]+)', drawn)[1])
        least = min(map(float, re.findall(r'font-size="([\d.]+)px', drawn)))
        assert least * 350 / wide >= 9, chart.title


@pytest.mark.slow
def test_words_in_a_picture_have_the_colour_that_the_theme_gives_to_words():
    moments = np.linspace(0, 60, 100)
    events = [charts.Happened("migration", 10, 31)]
    spec = charts.over_time({"orders": (moments, moments)}, events).to_dict()
    (words,) = [part["mark"] for part in spec["layer"] if part["mark"]["type"] == "text"]
    assert "color" not in words
    dark = {**spec, "config": {"style": {"guide-label": {"fill": "#fedcba"}}}}
    drawn = charts.svg(dark)
    assert "#fedcba" in drawn
    style = charts.EMBEDDED[charts.V5]["embed_options"]["defaultStyle"]
    assert ".mark-text.role-mark) text {" in style and 'class="mark-text role-mark' in drawn


@pytest.mark.parametrize(("low", "high", "labels"), [
    (4.0, 12_000.0, [10, 100, 1000, 10_000]),
    (40.0, 800.0, [50, 100, 200, 500]),
    (60.0, 140.0, [70, 100]),
    (1.2, 33.0, [2, 5, 10, 20]),
])  # fmt: skip
def test_labels_of_a_logarithmic_axis_follow_a_rule(low, high, labels):
    found = steps(low, high)
    assert set(labels) <= set(found) and 2 <= len(found) <= 8
    assert found == sorted(found) and low <= found[0] and found[-1] <= high


def test_one_run_by_itself_names_its_run_and_with_it_the_condition():
    drawn = charts.round_trips(np.arange(1, 99.0), run="007-VM-SRIOV-b1").to_dict()
    assert "VM-SRIOV" in " ".join(drawn["title"]["text"])


def test_the_colours_of_a_page_follow_its_theme_and_not_the_picture():
    """So that a change of theme needs no cell to be run again."""
    style = charts.EMBEDDED[charts.V5]["embed_options"]["defaultStyle"]
    assert "background: transparent !important" in style
    assert "fill: var(--jp-ui-font-color1" in style


@pytest.mark.slow
@every_picture
def test_no_mark_is_black_as_the_page_of_a_dark_theme_may_be(name):
    """Words are, and take their colour from the page."""
    drawn = charts.svg(shown(PICTURES[name]())[charts.V5])
    marks = re.split(r'(?=<g class="mark-)', drawn)
    painted = [mark for mark in marks if re.match(r'<g class="mark-(?!text)\S+ role-mark', mark)]
    assert painted and not re.search(r'"(?:black|#000|#000000)"', "".join(painted))
