"""Settings on a real file, over the local transport."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from labkit.errors import SettingRefused
from labkit.host import Host
from labkit.setting import Setting, Way, applied, in_force
from labkit.transports.local import Local


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
        writes = () if self.deaf else ("sh", "-c", 'printf %s "$2" > "$1"', "sh", self.path)
        return Way(("cat", self.path), lambda value: ((*writes, value),) if writes else ())


@pytest.fixture
def hosts(tmp_path):
    (tmp_path / "a").write_text("first")
    (tmp_path / "b").write_text("second")
    return {"server": Host("here", "127.0.0.1", Local())}


def contents(folder):
    return {name: (folder / name).read_text() for name in ("a", "b")}


def test_settings_are_in_force_inside_and_put_back_after(hosts, tmp_path):
    wanted = [Line(str(tmp_path / "a"), "new"), Line(str(tmp_path / "b"), "newer")]
    with applied(wanted, hosts) as before:
        assert contents(tmp_path) == {"a": "new", "b": "newer"}
        assert list(before.values()) == ["first", "second"]
    assert contents(tmp_path) == {"a": "first", "b": "second"}


def test_an_exception_in_the_body_still_puts_everything_back(hosts, tmp_path):
    with pytest.raises(KeyboardInterrupt), applied([Line(str(tmp_path / "a"), "new")], hosts):
        raise KeyboardInterrupt
    assert contents(tmp_path)["a"] == "first"


def test_a_setting_that_does_not_take_is_refused_and_the_ones_before_it_go_back(hosts, tmp_path):
    wanted = [Line(str(tmp_path / "a"), "new"), Line(str(tmp_path / "b"), "newer", deaf=True)]
    with (
        pytest.raises(SettingRefused, match=r"wanted 'newer', reads back as 'second'"),
        applied(wanted, hosts),
    ):
        pytest.fail("the body must not run")
    assert contents(tmp_path) == {"a": "first", "b": "second"}


def test_the_same_setting_twice_goes_back_to_the_first_value(hosts, tmp_path):
    path = str(tmp_path / "a")
    with applied([Line(path, "new"), Line(path, "newer")], hosts):
        assert contents(tmp_path)["a"] == "newer"
    assert contents(tmp_path)["a"] == "first"


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


def test_a_setting_that_changed_meanwhile_is_noticed(hosts, tmp_path):
    wanted = [Line(str(tmp_path / "a"), "new")]
    with in_force(hosts) as changes:
        changes.move_to(wanted)
        changes.check(wanted)
        (tmp_path / "a").write_text("somebody else's")
        with pytest.raises(SettingRefused, match="changed meanwhile"):
            changes.check(wanted)


def test_a_setting_that_does_not_go_back_is_said(hosts, tmp_path):
    stubborn, other = Line(str(tmp_path / "a"), "new"), Line(str(tmp_path / "b"), "newer")
    with (
        pytest.raises(SettingRefused, match="1 of 2 settings did not go back"),
        applied([other, stubborn], hosts),
    ):
        object.__setattr__(stubborn, "deaf", True)
    assert contents(tmp_path) == {"a": "new", "b": "second"}
