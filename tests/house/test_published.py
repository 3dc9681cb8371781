import csv
from pathlib import Path

from each import each

FOLDER = Path(__file__).parents[2] / "data" / "published"
FILES = sorted(FOLDER.glob("*.csv"))
COLUMNS = ["condition", "x_name", "x", "metric", "statistic", "value", "unit", "relation", "source"]


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_document_study_with_printed_figures_has_its_file():
    assert len(FILES) >= 23
    assert all(path.stem == path.stem.lower().replace("-", "_") for path in FILES)


@each(FILES, lambda path: path.stem)
def test_a_published_file_has_the_columns_and_every_figure_is_a_number_with_a_unit(path):
    assert path.read_text(encoding="utf-8").splitlines()[0].split(",") == COLUMNS
    for row in rows(path):
        float(row["value"])
        assert row["condition"] and row["metric"] and row["statistic"] and row["unit"].strip()
        assert row["relation"] in {"=", "~", "<", "<=", ">", ">="}
        title, where = row["source"].rsplit("; ", 1) if "; " in row["source"] else ("", "")
        assert title and where
        assert bool(row["x_name"]) == bool(row["x"])


@each(FILES, lambda path: path.stem)
def test_no_figure_is_listed_twice(path):
    keys = [tuple(row[c] for c in COLUMNS if c != "relation") for row in rows(path)]
    assert len(keys) == len(set(keys))


@each(FILES, lambda path: path.stem)
def test_every_study_and_every_title_is_listed_in_the_sources(path):
    text = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    assert path.stem in text
    assert all(row["source"].split("; ")[0] in text for row in rows(path))


def test_lat_ping_has_the_seven_round_trips_of_figure_3():
    printed = {
        (row["condition"], row["statistic"]): float(row["value"])
        for row in rows(FOLDER / "lat_ping.csv")
        if row["metric"] == "response_time" and "Figure 3" in row["source"]
    }
    assert printed == {
        ("Native", "median"): 18,
        ("VM-Latency-SRIOV", "median"): 20,
        ("VM-SRIOV", "median"): 24,
        ("VM-Default", "median"): 34,
        ("VM-Latency-SRIOV", "p99.99"): 46,
        ("VM-SRIOV", "p99.99"): 193,
        ("VM-Default", "p99.99"): 557,
    }
