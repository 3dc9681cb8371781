"""Looks at results are kept, counted and paid for; none can be taken away unseen."""

import json
import shutil

import pytest
from synthetic import ping_text, values, write_results

from labkit import studies
from labkit.errors import ResultsError
from labkit.judging import judge
from labkit.pages.scorecard import scorecard
from labkit.results import Results, Run
from labkit.runs import bundle, looks

STUDY = studies.find("lat_ping")


def more(results, blocks, taken):
    """The same results with blocks copied to new numbers, begun after so many looks."""
    runs = results.finished()
    for block in blocks:
        for run in (one for one in runs if one.block == 1):
            again = Run(run.condition, block, run.order + 100 * block, "finished",
                        rows=run.rows, looks=taken)  # fmt: skip
            results.keep(again, {name: run.text(name) for name in run.raw})
    return Results.open(results.path)


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path / "results" / "lat_ping" / "one", STUDY, repeats=3, count=300)


@pytest.mark.slow
def test_a_look_at_more_blocks_is_kept_and_the_same_look_again_costs_nothing(results):
    first = judge(STUDY, results)
    assert {v.looks for v in first} <= {(), (3,)} and looks.taken(results) == (3,)
    assert judge(STUDY, results) == first and looks.taken(results) == (3,)
    more(results, (4, 5), 1)
    second = judge(STUDY, results)
    assert looks.taken(results) == (3, 5)
    judged = [v for v in second if v.looks]
    # Of what three blocks did not measure the look at five is the first.
    assert {v.looks for v in judged} >= {(3, 5)} and {v.looks for v in judged} <= {(3, 5), (5,)}
    assert all((0.03 < v.spent < 0.05) == (len(v.looks) > 1) for v in judged)
    assert all(v.counted >= v.p for v in judged)
    assert [len(json.loads((results.path / looks.FILE).read_text())[k]) for k in ("blocks", "at")]


@pytest.mark.slow
def test_looks_that_were_deleted_are_missed_and_nothing_is_lost(results):
    judge(STUDY, results)
    more(results, (4,), 1)
    judge(STUDY, results)
    before = sorted(results.path.rglob("*"))
    text = (results.path / looks.FILE).read_text()
    (results.path / looks.FILE).unlink()
    ledger = results.path.parents[2] / "looks" / "lat_ping.jsonl"
    assert looks.taken(results) == (3, 4), "they are known elsewhere, too"
    ledger.unlink()
    with pytest.raises(ResultsError, match=r"1 had been taken before 401-\S+b4, and 0 are kept"):
        judge(STUDY, results)
    (results.path / looks.FILE).write_text(text)
    assert judge(STUDY, results)[0].looks in ((), (3, 4))
    assert sorted(results.path.rglob("*")) == before


@pytest.mark.slow
def test_a_look_that_was_deleted_before_the_next_run_is_counted_and_so_is_one_at_a_copy(results):
    judge(STUDY, results)
    (results.path / looks.FILE).unlink()
    more(results, (4, 5), 0)
    assert looks.taken(results) == (3,)
    judge(STUDY, results)
    copy = results.path.with_name("copy")
    shutil.copytree(results.path, copy)
    (copy / looks.FILE).unlink()
    assert looks.taken(Results.open(copy)) == (3, 5)
    shutil.rmtree(copy / "runs" / "006-VM-Default-b2")
    assert looks.taken(Results.open(copy)) == (), "of other runs it is not known"


def test_an_edited_list_of_looks_is_refused(results):
    judge(STUDY, results)
    file = results.path / looks.FILE
    file.write_text(file.read_text().replace("3", "2", 1))
    with pytest.raises(ResultsError, match="its checksum differs"):
        judge(STUDY, results)


def test_the_scorecard_takes_no_look_while_runs_are_to_be_made(results):
    looks.set_unfinished(results, unfinished=True)
    lines = scorecard(results.path, study="lat_ping").lines
    assert {line.verdict for line in lines} == {"undecided"} and looks.taken(results) == ()
    assert "still to be made" in lines[0].why
    looks.set_unfinished(results, unfinished=False)
    scorecard(results.path, study="lat_ping")
    assert looks.taken(results) == (3,)


@pytest.mark.parametrize(
    "blocks", ["[5, 3]", "[0]", "[]", '["3"]', "[true]", "{}", "[3, 3]", f"[{'1,' * 2000}2]"]
)
def test_looks_that_cannot_have_been_are_refused(results, blocks):
    text = f'{{"format": 1, "blocks": {blocks}, "at": ["x", "y"]}}'
    (results.path / looks.FILE).write_text(text)
    with pytest.raises(ResultsError, match="is not a list of looks"):
        judge(STUDY, results)


def test_a_run_of_another_seed_put_among_the_others_is_named(results, tmp_path):
    other = write_results(tmp_path / "results" / "lat_ping" / "two", STUDY, repeats=1, count=300)
    asked = json.loads((other.path / "study.json").read_text()) | {"seed": 2}
    shutil.rmtree(other.path)
    Results.begin(other.path, {k: v for k, v in asked.items() if k != "format"})
    text = ping_text(values("Native", 4))
    made = Results.open(other.path).keep(Run("Native", 4, 40, "finished"), {"ping.txt": text})
    shutil.copytree(made.path, results.path / "runs" / made.path.name)
    with pytest.raises(ResultsError, match=r"040-Native-b4: was measured for another question"):
        judge(STUDY, results)


@pytest.mark.slow
def test_looks_travel_with_a_bundle_and_reading_one_is_no_new_look(results, tmp_path, own_out):
    judge(STUDY, results)
    more(results, (4,), 1)
    file = tmp_path / "one.labkit"
    bundle.export(results, file)
    unpacked = Results.open(bundle.open_bundle(file))
    judged = [v for v in judge(STUDY, unpacked) if v.looks]
    assert {v.looks for v in judged} >= {(3, 4)} and {v.looks for v in judged} <= {(3, 4), (4,)}
    assert looks.taken(unpacked) == (3,)


@pytest.mark.slow
def test_what_was_imported_is_imported_again_after_a_look_at_it(results, tmp_path, own_out):
    judge(STUDY, results)
    file = tmp_path / "one.labkit"
    bundle.export(results, file)
    there, new = bundle.take_in(file)
    assert new
    more(there, (4,), 1)
    judge(STUDY, there)
    assert bundle.take_in(file)[1] is False
