"""Changes in a series are found, whether or not neighbours are alike, and a drift is no step."""

import numpy as np
import pytest
import verdicts_kept

from labkit.statistics.change_points import change_points, drift


def stepped(rng, by, at=15, count=30, noise=0.03):
    series = noise * rng.standard_normal(count)
    series[at:] += np.log(by)
    return series


def test_a_threefold_step_is_clear_among_26_series():
    (one, *_) = change_points(stepped(np.random.default_rng(1), 3), shuffles=40 * 26)
    assert one.at == 15 and 26 * one.p <= 0.05
    assert np.exp(one.after - one.before) == pytest.approx(3, rel=0.1)


def test_a_step_is_no_drift_and_a_drift_no_step():
    rng = np.random.default_rng(2)
    step = stepped(rng, 1.1)
    assert drift(step, change_points(step)) is None
    slow = np.linspace(0, 0.2, 30) + 0.01 * rng.standard_normal(30)
    points = change_points(slow)
    assert points and drift(slow, points) == pytest.approx((0, 0.2), abs=0.02)


@pytest.mark.slow
def test_sessions_that_are_alike_to_their_neighbours_raise_no_more_alarms_than_5_of_100():
    many = 120
    assert verdicts_kept.alarms(0.5, studies=many) <= 100 * (0.05 + 3 * np.sqrt(0.0475 / many))
