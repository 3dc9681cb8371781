"""All runs at once: the index says what the directories say, whatever happened to either."""

import json

import pytest

from labkit.errors import BadInput
from labkit.results import Results, Run
from labkit.runs import bundle
from labkit.runs.index import open_store

LAB = {"name": "l", "tier": "test", "accelerator": ""}
ASKED = {"study": "lat_ping", "where": "box", "lab": LAB}
ROW = {"metric": "round trip", "unit": "us", "n": 10, "lost": 0, "p50": 5.0, "p99.9": 7.0, "own": 1}


@pytest.fixture
def folder(tmp_path, own_out):
    return tmp_path / "shared"


def made(folder, label, runs=2):
    results = Results.begin(folder / "lat_ping" / label, {**ASKED, "label": label, "seed": 1})
    for n in range(1, runs + 1):
        results.keep(Run("Native", n, n, "finished", rows=(ROW,)), {"ping.txt": "x"})
    return results


def count(folder, where="1"):
    return open_store(folder).query(f"select count(*) as n from runs where {where}")[0]["n"]


def test_the_rows_of_all_runs_are_asked_at_once(folder):
    made(folder, "a"), made(folder, "b", 3)
    found = open_store(folder).query(
        "select label, count(*) as n, avg(p50) as p50, max(p99_9) as far, "
        "sum(fields ->> '$.own') as own from results join runs on runs.results = results.id "
        "join rows on rows.run = runs.id where metric = ? group by label",
        ["round trip"],
    )
    assert found == [
        {"label": "a", "n": 2, "p50": 5.0, "far": 7.0, "own": 2},
        {"label": "b", "n": 3, "p50": 5.0, "far": 7.0, "own": 3},
    ]


def test_failed_runs_and_damaged_ones_stay_visible_with_their_reason(folder):
    results = made(folder, "a")
    results.keep(Run("VM", 1, 3, "failed", why="no answer"), {})
    (results.runs()[0].path / "run.json").write_text("{")
    found = open_store(folder).query("select state, why from runs order by place")
    assert [row["state"] for row in found] == ["damaged", "finished", "failed"]
    assert "cannot be read" in found[0]["why"] and found[2]["why"] == "no answer"


def test_new_runs_new_results_and_removed_ones_are_seen(folder):
    results = made(folder, "a")
    assert count(folder) == 2
    results.keep(Run("VM", 1, 9, "finished"), {})
    assert count(folder) == 3
    made(folder, "b")
    assert count(folder) == 5
    (folder / "lat_ping" / "a").rename(folder / "elsewhere-and-too-deep-to-count")
    assert count(folder) == 5  # it is still below the folder
    (folder / "elsewhere-and-too-deep-to-count").rename(folder.parent / "gone")
    assert count(folder) == 2


def test_bundles_are_read_where_they_lie(folder, tmp_path):
    packed = bundle.export(made(tmp_path / "mine", "a"), tmp_path / "a.labkit")
    folder.mkdir()
    packed.path.rename(folder / "a.labkit")
    folder.chmod(0o555)
    before = sorted(folder.rglob("*"))
    assert count(folder) == 2
    assert sorted(folder.rglob("*")) == before
    assert not (tmp_path / "out" / "bundles").exists()


def test_a_damaged_bundle_is_shown_and_the_rest_is_readable(folder):
    made(folder, "a")
    (folder / "bad.labkit").write_bytes(b"PK nonsense")
    found = open_store(folder).query("select path, damaged from results order by path")
    assert [bool(row["damaged"]) for row in found] == [True, False]
    assert count(folder) == 2


def test_a_broken_index_is_made_again(folder, tmp_path):
    made(folder, "a")
    assert count(folder) == 2
    (file,) = (tmp_path / "out/index").iterdir()
    file.write_bytes(b"this is no index" * 100)
    assert count(folder) == 2


def test_where_no_index_can_be_kept_it_lies_in_memory(folder, tmp_path):
    made(folder, "a")
    (tmp_path / "out").write_text("no folder")
    assert count(folder) == 2


@pytest.mark.parametrize("sql", [
    "delete from runs", "attach 'x' as y", "select load_extension('x')", "select 1; select 2",
    "pragma writable_schema=1", "create table x (y)", "select nothing from nowhere", "", " \n", ";",
    "-- nothing",
])  # fmt: skip
def test_only_questions_are_answered(folder, sql):
    made(folder, "a")
    with pytest.raises(BadInput, match="refused") as error:
        open_store(folder).query(sql)
    assert "; runs (results, name, condition, block, " in error.value.hint
    assert count(folder) == 2


def test_odd_types_in_a_row_are_kept_as_they_are_and_break_nothing(folder):
    asked = {**ASKED, "label": ["a"], "lab": {"name": 7}}
    results = Results.begin(folder / "lat_ping" / "odd", asked)
    results.keep(Run("<b>", 1, 1, "finished", rows=({"own": [1], "metric": {"a": 1}},)), {})
    sql = "select label, lab, p50, metric, fields from results, runs, rows"
    (row,) = open_store(folder).query(sql)
    assert (row["label"], row["lab"]) == ('["a"]', "7")
    assert (row["p50"], row["metric"]) == (None, '{"a": 1}')
    assert json.loads(row["fields"]) == {"own": [1], "metric": {"a": 1}}


def test_a_run_whose_figures_are_none_is_damaged_and_the_others_are_still_listed(folder):
    results = made(folder, "a")
    results.keep(Run("VM", 9, 10**30, "finished", rows=({"metric": "a", "p50": "abc"},)), {})
    states = [row["state"] for row in open_store(folder).query("select state from runs")]
    assert sorted(states) == sorted(["damaged", *["finished"] * (len(states) - 1)])
    assert len(states) > 1
