"""Settings in force on a host: who has it, what is put back, and the script that it keeps."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from knobs import NEW, OLD, Knob, refused

from labkit.changes import journal
from labkit.changes.change_set import restore_all
from labkit.changes.in_force import applied, in_force
from labkit.changes.lease import Owner
from labkit.errors import Busy, SettingRefused
from labkit.host import Host
from labkit.transports.local import Local


@pytest.mark.parametrize("many, times", [(8, 1), pytest.param(200, 50, marks=pytest.mark.torture)])
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
    words = r"(?s)here is held by me on here .* for study.*--break"
    refused(Busy, words, [bench.knob("a", "newer")], hosts)


@pytest.mark.slow
def test_an_owner_whose_host_was_taken_over_writes_nothing_more(bench, hosts):
    with pytest.raises(SettingRefused), in_force(hosts) as changes:
        changes.move_to([bench.knob("a")])
        other = Owner("bob", "elsewhere", "1", "1", "another boot", "theirs")
        restore_all(hosts["server"], other, breaking=True, forgetting=False)
        assert bench.values() == OLD
        with pytest.raises(Busy, match="lease has ended, so nothing more was written"):
            changes.move_to([bench.knob("a"), bench.knob("b")])
    assert bench.values() == OLD


@pytest.mark.slow
def test_an_exception_in_the_body_still_puts_everything_back(bench, hosts):
    asked = applied([bench.knob("a"), bench.knob("b")], hosts)
    with pytest.raises(KeyboardInterrupt), asked as before:
        assert list(before.values()) == ["old", "old"] and bench.values() == NEW
        raise KeyboardInterrupt
    assert bench.values() == OLD


@pytest.mark.slow
def test_moving_on_changes_only_what_differs(bench, hosts):
    a, b = bench.knob("a"), bench.knob("b", "newer")
    with in_force(hosts) as changes:
        changes.move_to([a, b])
        written = (bench.folder / "a").stat().st_mtime_ns
        changes.move_to([a])
        assert bench.values() == {"a": "new\n", "b": "old\n"}
        assert (bench.folder / "a").stat().st_mtime_ns == written
        changes.move_to([bench.knob("a", "newest")])
    assert bench.values() == OLD


@pytest.mark.slow
def test_what_somebody_else_changed_is_noticed_and_left_to_them(bench, hosts):
    wanted = [bench.knob("a"), bench.knob("b")]
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


@dataclass(frozen=True)
class Counting(Local):
    """This machine; notes how many bytes each command is given beside its words."""

    given: list = field(default_factory=list, compare=False)

    def run(self, words, *, stdin=b"", **more):
        self.given.append(len(stdin))
        return super().run(words, stdin=stdin, **more)


@pytest.fixture
def counting():
    return Counting()


@pytest.fixture
def changes(counting, bench):
    with in_force({"server": Host("here", "", counting)}, period=100) as found:
        yield found


def kept(bench):
    return list(bench.changes.glob("kept-*.sh"))


def test_the_script_is_sent_until_the_host_is_held_and_then_no_more(changes, bench, counting):
    changes.move_to([bench.knob("a")])
    assert [path.read_text() for path in kept(bench)] == [journal.script()]
    assert max(counting.given) > len(journal.script())
    counting.given.clear()
    changes.check([bench.knob("a")])
    changes.move_to([])
    assert bench.values()["a"] == "old\n"
    assert len(counting.given) == 2 and not any(counting.given)


@pytest.mark.slow
def test_a_host_that_has_lost_it_is_told_it_again(changes, bench, counting):
    changes.move_to([bench.knob("a")])
    for path in kept(bench):
        path.unlink()
    counting.given.clear()
    changes.move_to([])
    assert bench.values()["a"] == "old\n"
    assert counting.given[0] == 0 and counting.given[1] > len(journal.script())


@pytest.mark.slow
def test_what_is_too_long_for_a_command_goes_with_the_script(changes, bench, counting):
    changes.move_to([bench.knob("a")])
    counting.given.clear()
    long = bench.knob("a", journal.SHORT * "x")
    changes.move_to([long])
    assert bench.values()["a"] == f"{long.value}\n" and max(counting.given) > journal.SHORT


def test_another_version_of_the_script_takes_the_place_of_ours(bench, tmp_path):
    other = tmp_path / "other.sh"
    other.write_text(f"{journal.script()}# of another version\n")
    bench.changes.mkdir()
    (bench.changes / "kept-ours.sh").write_text("exit 1\n")
    bench.run("change", lines=[("set", "new")], script=other)
    assert not kept(bench)
    assert (bench.changes / "labkit.sh").read_text() == other.read_text()
