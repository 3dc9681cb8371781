"""The formula of a live migration: what must follow from it, and whether it finds itself again."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from labkit import find_study
from labkit.errors import BadInput
from labkit.models.migration import WORDS, Migrating, Observed, fitted
from labkit.pages.plan_panel import PlanPanel

GB, GBIT = 1e9, 1e9 / 8
GUEST = Migrating(memory=4 * GB, line=10 * GBIT, dirty=0.2 * GB, working_set=2 * GB)


def totals(key, values, of=GUEST):
    return [replace(of, **{key: value}).planned().total for value in values]


def test_time_falls_as_the_line_gets_faster():
    assert all(a > b for a, b in pairwise(totals("line", [5 * GBIT, 10 * GBIT, 20 * GBIT])))


def test_a_short_run_of_monster_vmotion_has_migrations_enough_for_the_formula():
    assert len(find_study("monster_vmotion").few) > len(WORDS)


def test_more_writing_takes_more_rounds():
    rounds = [len(replace(GUEST, dirty=d * GB).planned().rounds) for d in (0, 0.2, 0.6, 0.9)]
    assert rounds == sorted(rounds) and rounds[0] == 1 and rounds[-1] > rounds[1]


def test_who_writes_faster_than_the_line_never_arrives_by_pre_copy_and_does_by_the_others():
    wild = replace(GUEST, dirty=5 * GB, deadline=60)
    assert not wild.planned().converged
    slowed, fetched = (replace(wild, variant=v).planned() for v in ("throttle", "post-copy"))
    assert slowed.converged and slowed.slowed > 0.3
    assert fetched.converged and fetched.stopped == wild.stop and fetched.after > 0


def test_no_more_becomes_dirty_than_there_is():
    assert GUEST.dirtied(1e9) == pytest.approx(GUEST.working_set)


def test_capacity_bounds_what_a_line_brings():
    bound = replace(GUEST, capacity=10 * GBIT)
    assert totals("line", [20 * GBIT, 80 * GBIT], bound)[0] == pytest.approx(
        totals("line", [80 * GBIT], bound)[0]
    )


TRUTH = {"efficiency": 0.85, "capacity": 15 * GBIT, "stop": 0.05}


def measured(seed):
    rng = np.random.default_rng(seed)
    for line in (5, 10, 20, 40):
        for dirty in (0.02, 0.1, 0.3):
            asked = replace(GUEST, line=line * GBIT, dirty=dirty * GB)
            plan = replace(asked, **TRUTH).planned()
            total, stopped = np.exp(rng.normal(0, 0.02, 2)) * (plan.total, plan.stopped)
            yield Observed(asked, total, stopped, len(plan.rounds))


def test_a_fit_finds_the_parameters_again_and_its_intervals_hold_them_nearly_always():
    found = [fitted(list(measured(seed))) for seed in range(8)]
    for word, true in TRUTH.items():
        assert np.median([one.values[word] for one in found]) == pytest.approx(true, rel=0.1)
        assert sum(one.low[word] <= true <= one.high[word] for one in found) >= 6, word
    assert found[0].rows()[0]["measured (s)"] == pytest.approx(
        found[0].rows()[0]["model (s)"], rel=0.1
    )


@pytest.mark.parametrize("odd", [{"memory": 0}, {"line": -1}, {"variant": "magic"}, {"dirty": -1}])
def test_what_is_no_migration_is_refused(odd):
    with pytest.raises(BadInput):
        replace(GUEST, **odd)


def test_too_few_migrations_are_no_fit():
    with pytest.raises(BadInput, match="too few"):
        fitted([Observed(GUEST, 1.0, 0.1, 1)])


def test_the_panel_plans_the_documents_guest_and_follows_its_dials():
    panel = PlanPanel()
    assert "does not converge" not in panel.shown.value.split("throttle")[0]
    panel.dials["dirty"].value = 50
    assert "does not converge" in panel.shown.value
    assert panel.asked.dirty == pytest.approx(50e9)
