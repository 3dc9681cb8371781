"""One owner has a host at a time: of many that come, of a second one, of one that has ended."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from labkit.changes.change_set import restore_all
from labkit.changes.in_force import InForce, applied, in_force
from labkit.changes.lease import Owner
from labkit.errors import Busy, SettingRefused, Unfinished
from tests.changes.test_journal import NEW, OLD, knob, other


@pytest.mark.parametrize(("many", "times"), [
    (8, 1), pytest.param(200, 50, marks=pytest.mark.torture),
])  # fmt: skip
def test_of_many_that_come_at_once_one_gets_the_host(bench, many, times):
    for _ in range(times):
        bench.reset()
        with ThreadPoolExecutor(many) as pool:
            said = list(pool.map(lambda n: bench.apply(token=f"t{n}").stdout, range(many)))
        assert sum("made b" in one for one in said) == 1
        assert sum("held t" in one for one in said) == many - 1 and bench.values() == NEW


@pytest.mark.slow
def test_a_second_user_is_told_who_holds_the_host(bench, hosts):
    bench.apply()
    with (
        pytest.raises(Busy, match=r"(?s)here is held by me on here .* for study.*--break"),
        applied([knob(bench, "a", "newer")], hosts),
    ):
        pytest.fail("the body must not run")


@pytest.mark.slow
def test_an_owner_whose_host_was_taken_over_writes_nothing_more(bench, hosts):
    with pytest.raises(SettingRefused), in_force(hosts) as changes:
        changes.move_to([knob(bench, "a")])
        restore_all(hosts["server"], other(), breaking=True, forgetting=False)
        assert bench.values() == OLD
        with pytest.raises(Busy, match="lease has ended, so nothing more was written"):
            changes.move_to([knob(bench, "a"), knob(bench, "b")])
    assert bench.values() == OLD


@pytest.mark.slow
def test_the_lease_of_a_process_that_has_ended_on_this_machine_is_taken_over_at_once(bench, hosts):
    me = Owner.me("x")
    dead = Owner(me.name, me.controller, "999999999", "1", me.boot, "x")
    gone = InForce(hosts, dead)
    gone.move_to([knob(bench, "a")])
    with pytest.raises(Unfinished), applied([knob(bench, "b")], hosts):
        pytest.fail("the body must not run")
    restore_all(hosts["server"], me, breaking=False, forgetting=False)
    assert bench.values() == OLD
