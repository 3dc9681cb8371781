"""Settings on real files, over the local transport: in force inside a block, and back after it."""

import pytest
from knobs import Knob

from labkit.changes.in_force import applied, in_force
from labkit.errors import SettingRefused
from tests.changes.test_journal import NEW, OLD, knob


@pytest.mark.slow
def test_an_exception_in_the_body_still_puts_everything_back(bench, hosts):
    asked = applied([knob(bench, "a"), knob(bench, "b")], hosts)
    with pytest.raises(KeyboardInterrupt), asked as before:
        assert list(before.values()) == ["old", "old"] and bench.values() == NEW
        raise KeyboardInterrupt
    assert bench.values() == OLD


@pytest.mark.slow
def test_moving_on_changes_only_what_differs(bench, hosts):
    a, b = knob(bench, "a"), knob(bench, "b", "newer")
    with in_force(hosts) as changes:
        changes.move_to([a, b])
        written = (bench.folder / "a").stat().st_mtime_ns
        changes.move_to([a])
        assert bench.values() == {"a": "new\n", "b": "old\n"}
        assert (bench.folder / "a").stat().st_mtime_ns == written
        changes.move_to([knob(bench, "a", "newest")])
    assert bench.values() == OLD


@pytest.mark.slow
def test_what_somebody_else_changed_is_noticed_and_left_to_them(bench, hosts):
    wanted = [knob(bench, "a"), knob(bench, "b")]
    with (
        pytest.raises(SettingRefused, match=r"(?s)1 of 2 .* somebody else .*had been 'old'"),
        in_force(hosts) as changes,
    ):
        changes.move_to(wanted)
        changes.check(wanted)
        (bench.folder / "a").write_text("theirs\n")
        with pytest.raises(SettingRefused, match="became 'theirs' between"):
            changes.check(wanted)
    assert bench.values() == {"a": "theirs\n", "b": "old\n"}


@pytest.mark.slow
def test_what_only_the_next_start_will_bring_is_not_in_force_yet(bench, hosts):
    waiting = Knob(str(bench.folder / "a"), "new", (("live", ("echo", "first")),))
    with in_force(hosts) as changes:
        changes.move_to([waiting])
        with pytest.raises(SettingRefused, match="waits for the next start; until then 'first'"):
            changes.check([waiting])
        assert changes.waiting() == [waiting]
