"""What is drawn can be seen, and what is written can be read, on a light page and on a dark one."""

import numpy as np
import pytest

from labkit import charts
from labkit.charts.look import GREY


def light(colour):
    """The relative luminance of WCAG 2."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("behind", ["#ffffff", "#333333", "#111111"])
@pytest.mark.parametrize("colour", [charts.COLOURS[0], GREY])
def test_blue_and_grey_stand_out_on_a_light_page_and_on_a_dark_one(colour, behind):
    low, high = sorted((light(colour), light(behind)))
    assert (high + 0.05) / (low + 0.05) >= 3


def test_words_in_a_picture_have_the_colour_that_the_theme_gives_to_words():
    moments = np.linspace(0, 60, 100)
    events = [charts.Event("migration", 10, 31)]
    spec = charts.over_time({"orders": (moments, moments)}, events).to_dict()
    (words,) = [part["mark"] for part in spec["layer"] if part["mark"]["type"] == "text"]
    assert "color" not in words
    dark = {**spec, "config": {"style": {"guide-label": {"fill": "#fedcba"}}}}
    assert "#fedcba" in charts.svg(dark)
