"""The figures that documents print: each once, with its source."""

from dataclasses import astuple, replace

from each import each

from labkit.claims.printed import FOLDER, figures

FILES = sorted(FOLDER.glob("*.csv"))


def test_every_document_study_with_printed_figures_has_its_file():
    assert len(FILES) >= 23
    assert all(path.stem == path.stem.lower().replace("-", "_") for path in FILES)


@each(FILES, lambda path: path.stem)
def test_a_published_file_lists_each_figure_once_with_a_unit_and_its_source(path):
    """Its columns and numbers are looked at when it is read."""
    printed, sources = figures(path.stem), (FOLDER / "SOURCES.md").read_text("utf-8")
    assert path.stem in sources
    for row in printed:
        assert row.condition and row.metric and row.statistic and row.unit.strip()
        assert row.relation in {"=", "~", "<", "<=", ">", ">="}
        title, _, place = row.source.rpartition("; ")
        assert title and place and row.source.split("; ")[0] in sources
        assert bool(row.x_name) == bool(row.x)
    assert len({astuple(replace(row, relation="")) for row in printed}) == len(printed)


def test_lat_ping_has_the_seven_round_trips_of_figure_3():
    printed = {
        (row.condition, row.statistic): float(row.value)
        for row in figures("lat_ping")
        if row.metric == "response_time" and "Figure 3" in row.source
    }
    assert printed == {
        ("Native", "median"): 18, ("VM-Latency-SRIOV", "median"): 20, ("VM-SRIOV", "median"): 24,
        ("VM-Default", "median"): 34, ("VM-Latency-SRIOV", "p99.99"): 46,
        ("VM-SRIOV", "p99.99"): 193, ("VM-Default", "p99.99"): 557,
    }  # fmt: skip
