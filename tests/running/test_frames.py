"""Results, queries and charts as data frames, and as CSV."""

import json

import polars as pl
import pytest
import synthetic

from labkit import charts, studies
from labkit.cli import main
from labkit.pages.lab_panel import LadderPanel
from labkit.running.open_lab import named_results
from labkit.runs.index import open_store
from labkit.telemetry.counters import read
from tests.telemetry.test_columns import csv_of, file  # noqa: F401


@pytest.fixture
def study():
    return studies.find("lat_ping")


@pytest.fixture
def results(study, tmp_path):
    return synthetic.write_results(tmp_path / "r", study, 3, 500)


def test_the_frame_of_results_has_a_row_for_each_figure_of_each_run(results):
    found = results.frame()
    first = results.finished()[0]
    chosen = found.filter(condition=first.condition, block=first.block, figure="p99",
                          metric=first.rows[0]["metric"])  # fmt: skip
    assert chosen["value"].to_list() == [first.rows[0]["p99"]]
    assert chosen["n"].to_list() == [first.rows[0]["n"]]
    assert set(found["condition"]) == {run.condition for run in results.finished()}
    assert found["tier"].n_unique() == 1 and "n" not in set(found["figure"])


def test_the_frame_of_a_study_has_a_row_for_each_value(study, results):
    found = study.frame(results)
    for condition, blocks in study.blocks(results).items():
        for block, values in blocks.items():
            one = found.filter(condition=condition, block=block, metric=study.metric)
            assert one["value"].to_list() == values.tolist()
            assert one["number"].to_list() == list(range(1, len(values) + 1))


@pytest.mark.slow
def test_the_point_of_a_sweep_and_the_time_of_a_run_are_columns():
    study, recorded = studies.find("docker_stream"), named_results("docker_stream")
    assert "[" not in "".join(study.frame(recorded)["metric"].unique())
    found = recorded.frame()
    assert any(found["point"]) and found["time"].dtype.is_temporal()


def test_a_query_and_results_are_a_frame_and_a_csv_file(tmp_path, results, capsys, own_out):
    text = "select condition, metric, p99 from rows join runs on runs.id = run order by place"
    store = open_store(results.path)
    assert store.frame(text).to_dicts() == store.query(text)
    words = ["results", "query", text, str(results.path), "--csv", str(tmp_path / "x.csv")]
    assert main(words) == 0
    assert pl.read_csv(tmp_path / "x.csv").height == store.frame(text).height
    words = ["results", "export", str(results.path), "-o", str(tmp_path / "y.csv"), "--json"]
    capsys.readouterr()
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == results.frame().height
    assert pl.read_csv(tmp_path / "y.csv").height == results.frame().height


@pytest.mark.slow
def test_what_a_chart_shows_is_a_frame(study, results):
    found = charts.frame(LadderPanel(results, study).chart())
    assert set(found["condition"].drop_nulls()) >= set(study.blocks(results))
    assert {"layer", "value"} <= set(found.columns) and found["layer"].n_unique() > 1


@pytest.mark.slow
def test_a_chart_and_its_numbers_are_saved_by_one_call(study, results, own_out):
    panel = LadderPanel(results, study)
    files = panel.save()
    assert [one.suffix for one in files] == [".png", ".svg", ".csv"]
    assert all(one.stat().st_size for one in files)
    shown = charts.frame(panel.chart())
    assert pl.read_csv(files[2], infer_schema_length=None).height == shown.height


@pytest.mark.slow
def test_the_button_of_the_panel_saves_and_says_where(
    study, results, monkeypatch, tmp_path, own_out
):
    *_, saving = LadderPanel(results, study).view().children
    button, said = saving.children
    button.click()
    assert len(list((tmp_path / "out/pictures").iterdir())) == 3
    assert all(path.name in said.value for path in (tmp_path / "out/pictures").iterdir())
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "blocked"))
    button.click()
    assert "saved" not in said.value and "pictures" in said.value


def test_columns_are_a_frame_with_their_times_and_names_of_their_own(file):  # noqa: F811
    found = read(file(csv_of([["1.50", "2", ""]] * 2, names=["Used", "Ready", "Ready"]))).frame()
    assert found.columns == ["time", "Used", "Ready", "Ready #2"]
    assert found["Used"].to_list() == [1.5, 1.5] and found["Ready #2"].null_count() == 2
    assert str(found["time"][0]) == "2026-11-21 09:00:00"
