"""The risk of all looks together, held against bounds that are published and against simulation."""

import numpy as np
import pytest
from scipy.special import ndtri, stdtr

from labkit.errors import BadInput
from labkit.statistics import spending
from labkit.statistics.spending import counted, levels, spent


def crossed(looks, found, many=40_000, blocks=None):
    """How often equal conditions cross any of these levels, by the t test of their blocks."""
    values = np.random.default_rng(5).standard_normal((many, looks[-1]))
    wrong = np.zeros(many, bool)
    for n, level in zip(looks, found, strict=True):
        t = values[:, :n].mean(1) / (values[:, :n].std(1, ddof=1) / np.sqrt(n))
        wrong |= 2 * stdtr(n - 1, -abs(t)) <= level
    return wrong.mean()


def test_bounds_are_those_of_pocock_where_the_risk_is_spent_as_his(monkeypatch):
    # Pocock (1977): five equal looks at 0.0158 each keep 5 %; what they spend comes back as they.
    known, looks = 0.0158, (10, 20, 30, 40, 50)
    walk = np.random.default_rng(1).standard_normal((400_000, 5)).cumsum(1) / np.sqrt(
        np.arange(1, 6)
    )
    gone = np.maximum.accumulate(abs(walk) > -ndtri(known / 2), axis=1).mean(0)
    monkeypatch.setattr(spending, "spent", lambda risk, first, n, share: gone[int(n) // 10 - 1])
    spending._after.cache_clear()
    try:
        assert levels(looks) == pytest.approx([known] * 5, rel=0.05)
    finally:
        spending._after.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    "looks", [(3,), (5, 10, 20, 40), (3, 5, 8, 12, 18, 27), tuple(range(5, 25))]
)
def test_equal_conditions_cross_the_levels_of_all_looks_in_at_most_5_of_100(looks):
    found = levels(looks)
    assert found[0] == pytest.approx(spending.FIRST * 0.05)
    share = crossed(looks, found)
    assert 0.6 * spent(0.05, looks[0], looks[-1]) <= share <= 0.053  # 40,000 studies know it to 0.1
    assert share < crossed(looks, [0.05] * len(looks)), "without paying, looks would cost more"


def test_a_p_value_counts_as_the_least_risk_that_it_would_clear():
    for looks in ((5,), (5, 10), (3, 5, 8, 12)):
        for risk in (0.05, 0.05 / 9):
            level = levels(looks, risk)[-1]
            assert counted(level, looks) == pytest.approx(risk, rel=0.05)
            assert counted(0.8 * level, looks) < risk < counted(1.25 * level, looks)
    assert counted(1.0, (5, 10)) == 1.0 and counted(0.0, (5, 10)) == 0.0
    assert counted(1e-30, (3,)) < 1e-29


def test_what_is_spent_rises_to_the_risk_and_never_reaches_it():
    gone = [spent(0.05, 5, n) for n in (5, 10, 100, 10_000)]
    assert gone == sorted(gone) and gone[0] == pytest.approx(0.03) and gone[-1] < 0.05


@pytest.mark.parametrize("looks", [(), (0,), (5, 5), (5, 3), tuple(range(1, 1003))])
def test_looks_that_cannot_have_been_are_refused(looks):
    with pytest.raises(BadInput, match="look"):
        levels(looks)
