"""`labkit report NEW --against OLD`: what has changed, in a terminal, a page and a script."""

import re

import numpy as np
import pytest
import synthetic

from labkit import charts, studies
from labkit.errors import BadInput
from labkit.pages.old_and_new import old_and_new
from labkit.results import Results
from labkit.running.open_lab import named_results
from labkit.statistics.percentiles import interval

STUDY = studies.find("lat_ping")
SLOWER = {**synthetic.SHAPES, "VM-SRIOV": (90, 0.35), "VM-Default": (70, 0.45)}


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[Results, Results]:
    """New results in which VM-SRIOV is half as slow again and VM-Default faster, and old ones."""
    folder = tmp_path_factory.mktemp("both")
    old = synthetic.write_results(folder / "old", STUDY, 5, 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "SHAPES", SLOWER)
        new = synthetic.write_results(folder / "new", STUDY, 5, 301)
    return new, old


@pytest.mark.slow
def test_five_columns_say_what_became_of_each_figure(both):
    new, old = both
    table = old_and_new(old, new).table()
    assert table.head[2:] == ("old", "new", "delta", "interval", "verdict")
    rows = {row[:2]: row[2:] for row in table.rows}
    verdicts = {condition: rows[condition, "median"][-1] for condition in synthetic.SHAPES}
    assert verdicts["VM-SRIOV"] == "higher" and verdicts["VM-Default"] == "lower"
    assert verdicts["Native"] in ("the same", "not clearly other")
    was, now, delta, within, _ = rows["VM-SRIOV", "median"]
    for text, results in ((was, old), (now, new)):
        found = interval(STUDY.blocks(results)["VM-SRIOV"], 50).value
        assert text == f"{found:.3g} µs"
    low, high = (float(end) for end in re.findall(r"[+-]\d+(?:\.\d+)?", within))
    assert low < float(delta.split()[0]) < high and low > 25


@pytest.mark.slow
def test_the_sentence_and_the_exit_code_name_what_changed_most(both, typed):
    new, old = (one.path for one in both)
    answer = typed("report", new, "--against", old, "--json", code=1)
    assert re.search(r"VM-SRIOV \(.*\) is \d+ % higher than it was", answer["found"])
    assert len(answer["sides"]) == len(answer["effects"]) == 8
    assert {v["among"] for v in answer["effects"]} == {8}, "all share one risk"


@pytest.mark.slow
def test_what_did_not_change_ends_with_0(tmp_path, both, typed):
    again = synthetic.write_results(tmp_path / "again", STUDY, 5, 299)
    said = typed("report", again.path, "--against", both[1].path)
    assert "None of 8 figures of lat_ping has clearly changed" in said


@pytest.mark.slow
def test_it_fits_80_columns(both, typed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    new, old = (one.path for one in both)
    shown = typed("report", new, "--against", old, code=1)
    lines = [x for x in shown.splitlines() if not x.startswith(("old ", "new "))]
    assert "VM-Latency-SRIOV" in lines and max(map(len, lines)) <= 80


@pytest.mark.slow
def test_the_page_has_the_chart_asks_for_nothing_and_runs_nothing(both, typed):
    new, old = (one.path for one in both)
    page = typed("report", new, "--against", old, "--html", code=1)
    assert "VM-SRIOV, median" in page.partition("<svg")[2].partition("</svg>")[0]
    assert "<script" not in page and not re.findall(r"(?:src|href)=", page)
    assert "@media print" in page and "color-scheme: light dark" in page
    assert "What else differs" in page and "workload: count" in page


def test_as_markdown_it_is_a_table_of_five_columns_and_the_names_of_both(both, typed):
    new, old = (one.path for one in both)
    output = typed("report", new, "--against", old, "--markdown", code=1)
    assert "| condition | figure | old | new | delta | interval | verdict |" in output
    assert output.count("| VM-SRIOV |") == 2


def test_only_two_results_of_one_study_are_compared(both, typed):
    new, old = both
    with pytest.raises(BadInput, match="both old and new"):
        old_and_new(new, new)
    said = typed("report", "lat_10us", "--against", old.path, code=2)
    assert "compare results of one study" in said
    assert "give --against OLD" in typed("report", new.path, "--html", code=2)


@pytest.mark.slow
def test_the_chart_shows_the_numbers_of_the_table(both):
    found = old_and_new(*reversed(both))
    drawn = [charts.Changed("x, median", 1.5, 1.2, None, "higher")]
    rows = charts.frame(charts.changes(drawn)).filter(layer="point")
    assert np.isclose(rows["value"][0], 1.5) and "higher" in rows["verdict"].to_list()
    shown = dict(zip(found.difference.sides, found.rows(), strict=True))
    drawn_whole = found.section()
    for verdict, sides in found.changed:
        share = 100 * (verdict.effect - 1)
        assert shown[sides][4] in (f"{share:+.0f} %", f"{share:+.1f} %")
        assert sides.condition in drawn_whole


@pytest.fixture(scope="module")
def three(tmp_path_factory, both) -> list[str]:
    """New results, and two older ones: the second is like the new one."""
    new, old = both
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "SHAPES", SLOWER)
        later = synthetic.write_results(tmp_path_factory.mktemp("later") / "later", STUDY, 5, 302)
    return [str(results.path) for results in (new, old, later)]


@pytest.mark.slow
def test_three_results_stand_in_one_table_and_one_chart(three, typed):
    new, *olds = three
    page = typed("report", new, "--against", *olds, "--html", code=1)
    assert page.count("<svg") == 1 and page.count("<table") == 1
    drawn = page.partition("<svg")[2].partition("</svg>")[0]
    assert "VM-SRIOV, median, over old" in drawn and "VM-SRIOV, median, over later" in drawn
    assert "Against old: " in page and "Against later: None of 8 figures" in page


@pytest.mark.slow
def test_each_row_of_three_results_is_that_of_the_two_alone(three, typed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    new, *olds = three
    lines = typed("report", new, "--against", *olds, code=1).splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("VM-SRIOV, median")
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["new", "old", "later"]
    for old, line in zip(olds, lines[at + 2 : at + 4], strict=True):
        table = old_and_new(named_results(old), named_results(new)).rows()
        (row,) = [row for row in table if row[:2] == ("VM-SRIOV", "median")]
        assert [row[2], *row[4:]] == re.split(r"\s{2,}", line)[1:]
    told = typed("report", new, "--against", *olds, "--json", code=1)["against"]
    assert [each["old"] for each in told] == olds and len(told[0]["effects"]) == 8
