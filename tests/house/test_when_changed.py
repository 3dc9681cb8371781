"""Costly tests run when what they are about has changed, and say what that is."""

import re
from pathlib import Path
from types import SimpleNamespace

import changed
import pytest

HOME = Path(__file__).resolve().parents[2]
MARK = re.compile(r"when_changed\(([^)]*)\)")
TEST = "tests/box/test_moving.py"


def item(*places, file=TEST, slow=True):
    marks = [pytest.mark.when_changed(*places).mark] if places else []
    return SimpleNamespace(
        nodeid=f"{file}::test_it", iter_markers=lambda _: iter(marks),
        get_closest_marker=lambda name: slow if name == "slow" else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("file", "runs"),
    [
        ("labkit/box/box.py", True),
        (TEST, True),
        ("tests/box/conftest.py", True),
        ("tests/helpers/leftovers.py", True),  # which it imports
        ("tests/helpers/shops.py", False),
        ("tests/helpers/synthetic.py", False),
        ("labkit/boxes.py", False),
        ("README.md", False),
    ],
)
def test_what_it_is_about_and_what_it_is_made_of_count(monkeypatch, file, runs):
    monkeypatch.setattr(changed, "changed_files", lambda: {file})
    assert changed.meant(item("labkit/box/", "labkit/lab.py")) == runs
    assert changed.meant(item()), "a test that names no place always runs"
    assert changed.meant(item("labkit/box/", slow=False)), "and so does one that takes no time"


def test_who_names_a_file_has_its_tests_run():
    def asked(*args):
        return SimpleNamespace(rootpath=HOME, args=args)

    assert changed.whole(asked("tests")) and changed.whole(asked(str(HOME / "tests")))
    assert not changed.whole(asked("tests/box")) and not changed.whole(asked(TEST))


def test_where_git_tells_nothing_all_tests_run(monkeypatch):
    assert changed.changed_files() is not None
    monkeypatch.setenv("LABKIT_SINCE", "no-such-commit")
    assert changed.changed_files.__wrapped__() is None
    monkeypatch.setattr(changed, "changed_files", lambda: None)
    assert changed.meant(item("labkit/box/"))


def test_each_place_is_there_or_its_tests_would_never_run_again():
    found = {
        place
        for file in (HOME / "tests").rglob("test_*.py")
        for inside in MARK.findall(file.read_text("utf-8"))
        for place in re.findall(r'"([^"]+)"', inside)
    }
    assert len(found) > 10
    assert {place for place in found if not (HOME / place).exists()} == set()


def test_helpers_are_found_however_they_are_imported():
    assert "tests/helpers/synthetic.py" in changed.made_of("tests/campaign/test_compare.py")
    assert "tests/helpers/campaigns.py" in changed.made_of("tests/campaign/test_compare.py")
