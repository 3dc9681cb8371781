"""Settings on a real file, over the local transport."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from knobs import Knob

from labkit.changes.in_force import applied, in_force
from labkit.errors import BadInput, SettingRefused
from labkit.host import Host
from labkit.setting import Setting, Way
from labkit.transports.local import Local

# Stands for a knob that takes no more writes.
WRITES = '[ ! -e "$1.stuck" ] || { echo "no more"; exit 1; }; printf %s "$2" > "$1"'


@dataclass(frozen=True)
class Line(Setting):
    role: ClassVar[str] = "server"
    path: str
    value: str
    deaf: bool = False

    @property
    def thing(self):
        return self.path

    @property
    def wanted(self):
        return self.value

    def way(self, kind, host):
        writes = ("sh", "-c", WRITES, "sh", self.path)
        return Way(("cat", self.path), lambda value: () if self.deaf else ((*writes, value),))


@pytest.fixture
def hosts(tmp_path):
    (tmp_path / "a").write_text("first")
    (tmp_path / "b").write_text("second")
    return {"server": Host("here", "127.0.0.1", Local())}


def contents(folder):
    return {name: (folder / name).read_text() for name in ("a", "b")}


@pytest.mark.slow
def test_settings_are_in_force_inside_and_put_back_after(hosts, tmp_path):
    wanted = [Line(str(tmp_path / "a"), "new"), Line(str(tmp_path / "b"), "newer")]
    with applied(wanted, hosts) as before:
        assert contents(tmp_path) == {"a": "new", "b": "newer"}
        assert list(before.values()) == ["first", "second"]
    assert contents(tmp_path) == {"a": "first", "b": "second"}


@pytest.mark.slow
def test_an_exception_in_the_body_still_puts_everything_back(hosts, tmp_path):
    with pytest.raises(KeyboardInterrupt), applied([Line(str(tmp_path / "a"), "new")], hosts):
        raise KeyboardInterrupt
    assert contents(tmp_path)["a"] == "first"


@pytest.mark.slow
def test_a_setting_that_does_not_take_is_refused_and_the_ones_before_it_go_back(hosts, tmp_path):
    wanted = [Line(str(tmp_path / "a"), "new"), Line(str(tmp_path / "b"), "newer", deaf=True)]
    with (
        pytest.raises(SettingRefused, match=r"was ignored: wanted 'newer', reads back as 'second'"),
        applied(wanted, hosts),
    ):
        pytest.fail("the body must not run")
    assert contents(tmp_path) == {"a": "first", "b": "second"}


def test_two_values_of_one_thing_are_refused_before_anything_changes(hosts, tmp_path):
    path = str(tmp_path / "a")
    with (
        pytest.raises(BadInput, match="cannot be both 'new' and 'newer'"),
        applied([Line(path, "new"), Line(path, "newer")], hosts),
    ):
        pytest.fail("the body must not run")
    assert contents(tmp_path)["a"] == "first"


@pytest.mark.slow
def test_moving_on_changes_only_what_differs(hosts, tmp_path):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    with in_force(hosts) as changes:
        changes.move_to([Line(a, "new"), Line(b, "newer")])
        stood = (tmp_path / "a").stat().st_ino
        changes.move_to([Line(a, "new")])
        assert contents(tmp_path) == {"a": "new", "b": "second"}
        assert (tmp_path / "a").stat().st_ino == stood
        changes.move_to([Line(a, "newest")])
    assert contents(tmp_path) == {"a": "first", "b": "second"}


@pytest.mark.slow
def test_what_somebody_else_changed_is_noticed_and_left_to_them(hosts, tmp_path):
    wanted = [Line(str(tmp_path / "a"), "new"), Line(str(tmp_path / "b"), "newer")]
    with (
        pytest.raises(SettingRefused, match=r"(?s)1 of 2 .* somebody else .*had been 'first'"),
        in_force(hosts) as changes,
    ):
        changes.move_to(wanted)
        changes.check(wanted)
        (tmp_path / "a").write_text("theirs")
        with pytest.raises(SettingRefused, match="became 'theirs' between"):
            changes.check(wanted)
    assert contents(tmp_path) == {"a": "theirs", "b": "second"}


@pytest.mark.slow
def test_a_setting_that_does_not_go_back_is_said(hosts, tmp_path):
    wanted = [Line(str(tmp_path / "b"), "newer"), Line(str(tmp_path / "a"), "new")]
    with (
        pytest.raises(SettingRefused, match=r"(?s)1 of 2 .* does not go back to 'first': no more"),
        applied(wanted, hosts),
    ):
        (tmp_path / "a.stuck").touch()
    assert contents(tmp_path) == {"a": "new", "b": "second"}


@pytest.mark.slow
def test_what_only_the_next_start_will_bring_is_not_in_force_yet(hosts, tmp_path):
    (tmp_path / "a").write_text("first\n")
    waiting = Knob(str(tmp_path / "a"), "new", (("live", ("echo", "first")),))
    with in_force(hosts) as changes:
        changes.move_to([waiting])
        with pytest.raises(SettingRefused, match="waits for the next start; until then 'first'"):
            changes.check([waiting])
        assert changes.waiting() == [waiting]
