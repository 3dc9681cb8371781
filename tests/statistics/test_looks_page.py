"""The page of proof on looks comes out of its simulations; a slice of them runs each time."""

import re

import numpy as np
import pytest
import verdicts_kept


def test_the_intervals_shown_after_stopping_hold_and_those_of_one_look_do_not():
    _, _, wrong, (one, shown) = verdicts_kept.kept((1.0, 1.02))
    assert shown > 94 and shown > one and wrong < 5


def test_power_is_80_of_100_after_the_usual_six_blocks_of_noise():
    margins, powers = zip(*(verdicts_kept.noise(n, 1500) for n in (6, 12)), strict=True)
    assert min(powers[0]) >= 78
    assert margins[0] <= 1.1 * margins[1], "what is known less well makes no larger margin"


@pytest.mark.torture
def test_the_page_of_looks_is_what_comes_out_now():
    def figures(text):
        return [float(x) for x in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)]

    kept, now = verdicts_kept.PAGE.read_text("utf-8"), verdicts_kept.page()
    assert re.sub(r"[\d.]+", "", kept) == re.sub(r"[\d.]+", "", now)
    assert figures(now) == pytest.approx(figures(kept), abs=0.2)
    assert np.isfinite(figures(now)).all()
