"""Odd blocks, two states and change points: found where they are, seldom where they are not."""

import numpy as np
import pytest
import verdicts_kept

from labkit.errors import BadInput
from labkit.statistics.odd_blocks import change_points, drift, odd_blocks, two_states

RNG = np.random.default_rng(17)


def of(figures):
    return {"Native": dict(enumerate(figures, 1))}


def test_the_block_that_lies_apart_is_named():
    (odd,) = odd_blocks(of([9, 9, 9, 16, 9]))
    assert (odd.condition, odd.block, odd.figure, odd.usual) == ("Native", 4, 16, 9)
    assert two_states(of([9, 9, 9, 16, 9])) == []


def test_two_states_are_named_with_the_blocks_of_each():
    (found,) = two_states(of([9, 27, 9, 9, 28, 9, 10]))
    assert (found.quick, found.slow) == ((1, 3, 4, 6, 7), (2, 5))
    assert odd_blocks(of([9, 27, 9, 9, 28, 9, 10])) == []


@pytest.mark.slow
@pytest.mark.parametrize("between", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("blocks", [4, 5, 10])
def test_blocks_of_one_state_are_seldom_called_odd(between, blocks):
    many, alarms = 1000, 0
    for _ in range(many):
        figures = np.exp(between * RNG.standard_normal((3, blocks)))
        medians = {name: dict(enumerate(row)) for name, row in zip("abc", figures, strict=True)}
        alarms += bool(odd_blocks(medians) or two_states(medians))
    assert alarms <= 0.1 * many


@pytest.mark.slow
def test_slow_runs_are_found_where_each_is_three_times_as_slow_with_10_percent():
    named, there = 0, 0
    for _ in range(300):
        slow = RNG.random(10) < 0.1
        figures = np.exp(0.05 * RNG.standard_normal(10)) * np.where(slow, 3, 1)
        there += slow.any()
        named += bool(odd_blocks(of(figures)) or two_states(of(figures)))
    assert named > 0.95 * there


@pytest.mark.slow
def test_a_change_is_found_where_it_is_and_none_where_there_is_none():
    steps = np.concatenate(
        [RNG.normal(10, 0.2, 20), RNG.normal(11, 0.2, 15), RNG.normal(9, 0.2, 9)]
    )
    found = change_points(steps)
    assert [one.at for one in found] == [20, 35]
    assert found[0].after / found[0].before == pytest.approx(1.1, rel=0.02)
    assert change_points(steps) == found
    alarms = sum(bool(change_points(RNG.normal(0, 1, 20))) for _ in range(30))
    assert alarms <= 6


@pytest.mark.parametrize("series", [[], [1.0], [1, 2, 3], [5.0] * 30])
def test_too_few_or_equal_figures_have_no_change(series):
    assert change_points(series) == []


@pytest.mark.parametrize("series", [[1.0, float("nan")] * 5, [[1, 2], [3, 4]], [0.0] * 3000])
def test_what_is_no_series_is_refused(series):
    with pytest.raises(BadInput, match="series"):
        change_points(series)


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
