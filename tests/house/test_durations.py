"""The tests watch themselves: what takes long says so, and nothing is run twice in silence."""

import re
import subprocess
import sys
from pathlib import Path

import again
import durations
import pytest

HELPERS = Path(again.__file__).parent
MOST_AGAIN = 7
"""How many tests may be run once more. Lower it with each one that is mended; never raise it."""
TREE = {
    "conftest.py": """
        import os, sys
        sys.path.insert(0, {helpers!r})
        from pathlib import Path
        from again import Again
        from durations import Durations

        def pytest_configure(config):
            config.pluginmanager.register(Again({{"test_it.py::test_unsteady": "it is unsteady"}}))
            config.pluginmanager.register(Durations(Path("kept.json")))
    """,
    "test_it.py": """
        from pathlib import Path

        def unsteady(name):
            there = Path(name).exists()
            Path(name).touch()
            assert there, "not there yet"

        def test_unsteady():
            unsteady("one")

        def test_unsteady_and_on_no_list():
            unsteady("two")
    """,
}


def ran(folder, *words):
    for name, text in TREE.items():
        lines = text.format(helpers=str(HELPERS)).splitlines()
        (folder / name).write_text("\n".join(line[8:] for line in lines))
    words = (sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *words, "test_it.py")
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n", "1")], ids=["in one process", "in several"])
def test_a_test_on_the_list_runs_once_more_and_says_so_and_another_one_does_not(tmp_path, words):
    done = ran(tmp_path, *words)
    assert done.returncode == 1
    assert "FAILED test_it.py::test_unsteady_and_on_no_list" in done.stdout
    assert "PASSED test_it.py::test_unsteady\n" in done.stdout
    assert "run once more: test_it.py::test_unsteady" in done.stdout
    assert "may fail once: it is unsteady" in done.stdout and "not there yet" in done.stdout
    assert re.search(r"1 failed, 1 passed, 1 again", done.stdout), done.stdout
    assert ran(tmp_path, *words).returncode == 0, "the files are there now"


def test_the_list_of_what_is_run_once_more_only_shrinks():
    reasons = again.listed()
    assert len(reasons) <= MOST_AGAIN
    for test, why in reasons.items():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (again.LIST.parents[1] / file).read_text("utf-8"), f"no {test}"
        assert len(why.split()) >= 8, f"{test}: say why it may fail once"


@pytest.mark.parametrize(
    ("seconds", "before", "marks", "fails"),
    [
        (19, 19, [], False),
        (25, 0, [], False),
        (25, 15, ["box"], False),
        (25, 25, ["box"], True),
        (61, 0, [], True),
        (300, 300, ["slow"], False),
        (300, 300, ["box", "torture"], False),
    ],
)
def test_a_long_test_fails_unless_it_is_marked_slow(seconds, before, marks, fails):
    assert bool(durations.too_long(seconds, before, marks)) is fails


def test_how_long_each_test_took_is_kept_until_the_test_is_gone(tmp_path):
    path, here = tmp_path / "kept.json", f"tests/house/{Path(__file__).name}"
    took = {"seconds": 1.0, "alone": 0.5}
    durations.write({f"{here}::test_a": took, "tests/house/test_gone.py::test_b": took}, path)
    durations.write({f"{here}::test_c": took}, path)
    assert durations.read(path) == {f"{here}::test_a": took, f"{here}::test_c": took}
    path.write_text("{")
    assert durations.read(path) == {}


def test_a_crowd_on_the_machine_is_no_fault_of_a_test(monkeypatch):
    monkeypatch.setattr(durations.os, "cpu_count", lambda: 2)
    for load, crowd in ((0.1, 1.0), (8.0, 4.0)):
        monkeypatch.setattr(durations.os, "getloadavg", lambda load=load: (load, 0, 0))
        assert durations.crowd() == crowd
