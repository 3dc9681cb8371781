"""The page of proof on looks comes out of its simulations; a slice of them runs each time."""

import re

import numpy as np
import pytest
import verdicts_kept

from labkit.statistics.spending import FIRST


def test_the_intervals_shown_after_stopping_hold_and_those_of_one_look_do_not():
    _, _, wrong, (one, shown) = verdicts_kept.kept((1.0, 1.02))
    assert shown > 94 and shown > one and wrong < 5


def test_power_is_80_of_100_after_the_usual_six_blocks_of_noise():
    margins, powers = zip(*(verdicts_kept.noise(n, 1500) for n in (6, 12)), strict=True)
    assert min(powers[0]) >= 78
    assert margins[0] <= 1.1 * margins[1], "what is known less well makes no larger margin"


@pytest.mark.slow
def test_a_smaller_first_part_saves_few_blocks_and_costs_a_single_look_much_power():
    """Why FIRST is what it is, although it is not best for studies that stop by themselves."""
    (most, _, *once), (less, _, *fewer) = map(verdicts_kept.first_look, (FIRST, FIRST / 2))
    assert 0.99 < most / less < 1.04
    assert fewer[0] < 0.75 * once[0] and fewer[1] < 0.8 * once[1]


@pytest.mark.torture
def test_the_page_of_looks_is_what_comes_out_now():
    def figures(text):
        return [float(x) for x in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)]

    kept, now = verdicts_kept.PAGE.read_text("utf-8"), verdicts_kept.page()
    assert re.sub(r"[\d.]+", "", kept) == re.sub(r"[\d.]+", "", now)
    assert figures(now) == pytest.approx(figures(kept), abs=0.2)
    assert np.isfinite(figures(now)).all()
