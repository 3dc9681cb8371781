"""Files that hold several runs, files of several tools, and values that are blocks."""

from pathlib import Path

import pytest

from labkit import imports
from labkit.results import Results
from labkit.running import measured

HERE = Path(__file__).parent


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    return tmp_path


def figures(results):
    """Condition -> block -> the first value of each metric, read again from what was kept."""
    found = {}
    for run in results.finished():
        told = {sample.metric: sample.values.tolist() for sample in measured.samples(results, run)}
        found.setdefault(run.condition, {})[run.block] = told
    return found


@pytest.fixture
def take(home, typed):
    def take(*words, code=0):
        said = typed("results", "import", "--label", "x", "--json", *words, code=code)
        return said if code else Results.open(Path(said[0]["path"]))

    return take


ROWS = """condition,block,metric,value,unit
VM,1,latency,12,us
VM,1,latency,14,us
Native,1,latency,9,us
VM,2,latency,12,us
VM,2,rate,80,1/s
"""


def test_a_file_of_values_says_its_conditions_and_blocks_itself(home, take):
    (home / "a.csv").write_text(ROWS)
    (home / "b.jsonl").write_text('{"condition": "Native", "block": 2, "value": 7}\n')
    results = take("--from", "values", home / "a.csv", home / "b.jsonl")
    assert figures(results) == {
        "VM": {1: {"latency": [12, 14]}, 2: {"latency": [12], "rate": [80]}},
        "Native": {1: {"latency": [9]}, 2: {"value": [7]}},
    }
    found = measured.of_metric(results, "latency")
    assert {name: sorted(blocks) for name, blocks in found.items()} == {"VM": [1, 2], "Native": [1]}


def test_a_block_is_in_one_file_and_a_file_with_conditions_gets_no_other(home, take):
    (home / "a.csv").write_text(ROWS)
    (home / "b.csv").write_text("condition,block,value\nVM,2,3\n")
    said = take("--from", "values", home / "a.csv", home / "b.csv", code=2)
    assert f"b.csv: block 2 of VM is in {home / 'a.csv'} too" in said
    said = take("--from", "values", f"VM={home / 'a.csv'}", code=2)
    assert "a.csv names conditions itself: Native, VM" in said
    assert not (home / "out").exists()


def test_one_metric_has_one_unit_in_all_runs_of_a_file_and_in_all_files(home, take):
    (home / "a.csv").write_text(ROWS + "Native,2,latency,0.009,ms\n")
    message = take("--from", "values", home / "a.csv", code=1)
    assert "a.csv: line 7: latency is in ms, and in us on line 2" in message
    (home / "a.csv").write_text(ROWS)
    (home / "b.csv").write_text("condition,metric,value,unit\nDocker,latency,0.009,ms\n")
    message = take("--from", "values", home / "a.csv", home / "b.csv", code=2)
    assert "b.csv: latency is in ms, not in \N{MICRO SIGN}s" in message
    assert not (home / "out").exists()


def test_files_are_matched_in_the_order_of_their_numbers_and_may_be_of_two_tools(home, take):
    for n in (10, 2, 1):
        (home / f"run{n}.txt").write_text(f"{n}\n")
    copy = home / "stream.txt"
    copy.write_text(imports.text_of(HERE / "stream/one_run/input.txt"))
    words = ("--from", "values", f"VM={home}/run*.txt", f"VM=stream:{copy}")
    found = figures(take(*words))["VM"]
    assert [found[block]["value"] for block in (1, 2, 3)] == [[1], [2], [10]]
    assert found[1]["Copy"] == [8886.2] and "Copy" not in found[2]
    assert "no file matches" in take("--from", "values", f"VM={home}/no*.txt", code=2)


def test_each_trial_of_a_file_can_be_a_block_equal_ones_too(home, take, typed):
    file = home / "linpack.txt"
    file.write_text("12.5\n12.5\n13\n")
    results = take("--from", "values", "--trials", f"VM={file}")
    assert figures(results)["VM"] == {n: {"value": [v]} for n, v in enumerate((12.5, 12.5, 13), 1)}
    (blocks,) = measured.of_metric(results, "value").values()
    assert sorted(blocks) == [1, 2, 3]
    (home / "copy.txt").write_text(file.read_text())
    words = ("results", "import", "--from", "values", "--trials", "--label", "y", f"A={file}")
    said = typed(*words, f"B={home / 'copy.txt'}", code=2)
    assert "copy.txt, for B, has the same content" in said


def test_several_commands_of_hyperfine_are_several_conditions(home, take):
    file = HERE / "hyperfine/two_commands/input.json"
    results = take("--from", "hyperfine", file)
    assert {name: len(blocks[1]["time taken"]) for name, blocks in figures(results).items()} == {
        "sleep 0.01": 12, "sleep 0.02": 12,
    }  # fmt: skip


@pytest.mark.slow
def test_of_two_million_rows_one_that_is_no_number_is_named_with_file_and_line(home, take):
    row, file = "VM,{},latency,12.5,us\n", home / "large.csv"
    rows = [row.format(1 + n % 4) for n in range(2_000_000)]
    rows[1_499_999] = "VM,4,latency,,us\n"
    file.write_text("condition,block,metric,value,unit\n" + "".join(rows))
    said = take("--from", "values", file, code=1)
    assert f"{file}: line 1500001: the value is missing" in said
    assert not (home / "out").exists()
    file.write_text("condition,block,metric,value,unit\n" + "".join(rows[:400_000]))
    results = take("--from", "values", file)
    assert {run.rows[0]["n"] for run in results.finished()} == {100_000}
