"""Columns that were read once are kept beside the results, and read again in milliseconds."""

import json

import pytest

from labkit.errors import ResultsError
from labkit.telemetry import counters
from labkit.telemetry.counters import read
from labkit.telemetry.kept import cached
from tests.telemetry.test_columns import csv_of, file  # noqa: F401


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    return tmp_path / "out" / "columns"


def unread(*_):
    raise AssertionError("the source was read again")


def test_a_second_read_comes_from_the_cache_until_the_file_changes(file, kept, monkeypatch):  # noqa: F811
    path = file(csv_of([["1.50", "2"]] * 3))
    first = cached(path)
    with monkeypatch.context() as patched:
        patched.setattr(counters, "read", unread)
        again = cached(path)
        assert again.values.tolist() == first.values.tolist() and again.names == first.names
        assert again.times.tolist() == first.times.tolist()
    path.write_text(csv_of([["9.50", "2"]] * 3))
    assert cached(path).values[0, 0] == 9.5


def test_a_cache_that_is_damaged_is_made_anew(file, kept):  # noqa: F811
    path = file(csv_of([["1.50", "2"]] * 3))
    cached(path)
    for name, content in [
        ("about.json", b"{"),
        ("about.json", json.dumps({"signature": 0}).encode()),
        ("names.txt", b"one"),
        ("values.npy", b"nothing"),
        ("times.npy", b""),
    ]:
        (entry,) = kept.iterdir()
        (entry / name).write_bytes(content)
        assert cached(path).values.tolist() == [[1.5, 2]] * 3


def test_a_file_that_grows_while_it_is_read_is_not_kept(file, kept, monkeypatch):  # noqa: F811
    path = file(csv_of([["1.50", "2"]] * 3))

    def grows(*asked):
        found = read(*asked)
        with path.open("a") as more:
            more.write('"11/21/2026 09:28:12","1.00","2.00"\n')
        return found

    monkeypatch.setattr(counters, "read", grows)
    assert len(cached(path).values) == 3
    assert not kept.exists()


def test_a_full_disk_says_so(file, tmp_path, monkeypatch):  # noqa: F811
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "blocked"))
    with pytest.raises(ResultsError, match="cannot keep columns"):
        cached(file(csv_of([["1.50"]])))
