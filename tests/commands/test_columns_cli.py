"""`labkit columns` lists, counts, draws and writes the counters of a file."""

from pathlib import Path

import polars as pl
import pytest

from labkit.telemetry.counters import counters, read
from tests.telemetry.test_columns import csv_of

HOME = Path(__file__).resolve().parents[2]
FILE = HOME / "data/esxtop/three-guests.csv"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))


@pytest.fixture
def columns(typed):
    return lambda *words, code=0: typed("columns", FILE, *words, code=code)


def test_without_a_pattern_each_counter_is_a_line(columns):
    assert columns().splitlines() == columns("--json") == list(counters(FILE))


def test_a_pattern_shows_the_mean_and_the_range_of_what_fits(columns):
    answer = columns("answering*ready", "--json")
    (name,) = (
        counter for counter in counters(FILE) if "answering" in counter and "Ready" in counter
    )
    values = read(FILE, [name])[name]
    (row,) = answer["counters"]
    assert row == {"counter": name, "mean": pytest.approx(values.mean()), "least": values.min(),
                   "most": values.max(), "values": answer["moments"]}  # fmt: skip
    assert "moments, from 20" in columns("answering*ready")


@pytest.mark.slow
def test_a_table_and_pictures_are_written_by_one_call_each(tmp_path, columns):
    for kind in ("html", "svg", "png"):
        columns("% Ready", "--chart", tmp_path / f"x.{kind}")
        assert (tmp_path / f"x.{kind}").stat().st_size > 5000
    assert "computing-1" in (tmp_path / "x.svg").read_text()
    assert f"wrote {tmp_path / 'x.csv'}" in columns("% Ready", "--csv", tmp_path / "x.csv")
    found = pl.read_csv(tmp_path / "x.csv", try_parse_dates=True)
    names = [name for name in counters(FILE) if name.endswith("% Ready")]
    assert found.columns == ["time", *names]
    assert found[names[0]].to_list() == read(FILE)[names[0]].tolist()
    assert found["time"].dtype.is_temporal()


@pytest.mark.parametrize(
    ("words", "said"),
    [(["redy"], "did you mean '% Ready'"), (["--csv", "x.csv"], "which counters?"),
     (["ready", "--chart", "x.txt"], "unknown kind of picture '.txt'")],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_what_can(words, said, columns):
    assert said in columns(*words, code=2)


def test_what_was_cut_off_is_said_and_two_of_one_name_are_left_out(tmp_path, typed):
    lines = FILE.read_bytes().replace(b"computing-2", b"computing-1").replace(b"102:", b"101:")
    (tmp_path / "cut.csv").write_bytes(lines[:-3])
    output = typed("columns", tmp_path / "cut.csv", "ready")
    assert "the last line is not whole" in output and "left out: 1 counters" in output
    output = typed("columns", tmp_path / "cut.csv", "computing", code=2)
    assert "several counters have the name" in output


def test_too_many_lines_for_one_picture_are_refused(tmp_path, typed):
    (tmp_path / "many.csv").write_text(csv_of([["1"] * 30] * 3))
    words = ("columns", tmp_path / "many.csv", "util", "--chart", tmp_path / "x.svg")
    assert "30 counters are too many for one picture" in typed(*words, code=2)
