"""The tests watch themselves: what takes long says so."""

from pathlib import Path

import durations
import pytest


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
