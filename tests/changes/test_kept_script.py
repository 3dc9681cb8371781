"""The script that a host keeps while we hold it: asked without it, and told it where it is gone."""

from dataclasses import dataclass, field

import pytest
from knobs import Knob

from labkit.changes import journal
from labkit.changes.in_force import in_force
from labkit.host import Host
from labkit.transports.local import Local


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


def knob(bench, value):
    return Knob(str(bench.folder / "a"), value)


def kept(bench):
    return list(bench.changes.glob("kept-*.sh"))


def test_the_script_is_sent_until_the_host_is_held_and_then_no_more(changes, bench, counting):
    changes.move_to([knob(bench, "new")])
    assert [path.read_text() for path in kept(bench)] == [journal.script()]
    assert max(counting.given) > len(journal.script())
    counting.given.clear()
    changes.check([knob(bench, "new")])
    changes.move_to([])
    assert bench.values()["a"] == "old\n"
    assert len(counting.given) == 2 and not any(counting.given)


@pytest.mark.slow
def test_a_host_that_has_lost_it_is_told_it_again(changes, bench, counting):
    changes.move_to([knob(bench, "new")])
    for path in kept(bench):
        path.unlink()
    counting.given.clear()
    changes.move_to([])
    assert bench.values()["a"] == "old\n"
    assert counting.given[0] == 0 and counting.given[1] > len(journal.script())


@pytest.mark.slow
def test_what_is_too_long_for_a_command_goes_with_the_script(changes, bench, counting):
    changes.move_to([knob(bench, "new")])
    counting.given.clear()
    long = knob(bench, journal.SHORT * "x")
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
