"""The picture that grows while a study measures."""

import re

import numpy as np
import pytest

from labkit.pages.growing import EDGE, WIDE, Median, lines, median

RANDOM = np.random.default_rng(3)


def blocks(middle, number):
    """So many blocks of latencies around a middle."""
    return {n: middle * RANDOM.lognormal(0, 0.1, 200) for n in range(number)}


def places(line):
    """Where the large mark of a line stands, its small ones, and its bar."""
    circles = re.findall(r'<circle cx="([\d.]+)" cy="\d+" r="(\d)"', line)
    (large,) = (float(x) for x, r in circles if r == "4")
    bar = re.search(r'd="M([\d.]+) \d+H([\d.]+)" stroke-width', line)
    small = [float(x) for x, r in circles if r == "2"]
    return large, small, tuple(map(float, bar.groups())) if bar else ()


def test_two_times_as_slow_stands_two_times_as_far_from_the_left():
    drawn = lines({"A": median(blocks(100, 1), "us"), "B": median(blocks(200, 1), "us")})
    (a, *_), (b, *_) = places(drawn["A"]), places(drawn["B"])
    assert (b - EDGE) / (a - EDGE) == pytest.approx(2, rel=0.1) and b == WIDE - EDGE


def test_the_picture_grows_from_a_mark_to_blocks_and_to_an_interval():
    one, few, enough = (median(blocks(100, n), "us") for n in (1, 2, 6))
    assert places(lines({"A": one})["A"])[1:] == ([], ())
    at, each, bar = places(lines({"A": few})["A"])
    assert len(each) == 2 and bar == ()
    at, each, (low, high) = places(lines({"A": enough})["A"])
    assert each == [] and EDGE < low < at < high <= WIDE - EDGE
    assert re.fullmatch(r"[\d.]+ µs, [\d.]+ to [\d.]+ \(\d+% wide\)", enough.text)


def test_of_one_figure_a_run_the_mean_is_told_as_in_reports():
    found = median({n: np.array([x]) for n, x in enumerate((10.0, 11.0, 10.0, 13.0))}, "us")
    assert found.value == 11 and found.text.startswith("11 µs, ") and found.single
    assert not median(blocks(100, 4), "us").single


def test_far_apart_the_scale_is_logarithmic_and_all_marks_are_inside():
    drawn = lines({name: Median(name, 10.0**n) for n, name in enumerate("ABC")})
    a, b, c = (places(drawn[name])[0] for name in "ABC")
    assert (a, b, c) == pytest.approx((EDGE, WIDE / 2, WIDE - EDGE))


def test_what_has_no_figure_is_a_line_without_marks_and_words_are_never_markup():
    drawn = lines({"A": median({}, "us"), "<b>": Median("<i>odd</i>", 1.0)})
    assert "circle" not in drawn["A"] and drawn["A"].endswith("no figure")
    assert "<i>" not in drawn["<b>"]
