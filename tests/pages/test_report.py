"""A report is one file that asks nothing of any server, and shows what hosts said as text."""

from __future__ import annotations

import re
from dataclasses import replace

import nbformat
import nbformat.v4 as nbf
import numpy as np
import pytest

from labkit import charts, studies
from labkit.charts.export import vega
from labkit.claim import Verdict
from labkit.commands import report as commands_report
from labkit.errors import ResultsError
from labkit.pages import report, tables, terminal

BAD = '</script><script>alert("taken")</script><img src=x onerror=alert(1)>'


def display(**kinds):
    data = {name.replace("__", "/"): value for name, value in kinds.items()}
    return nbf.new_output("display_data", data=data)


def shown(thing):
    data = thing._repr_mimebundle_()
    data, metadata = data if isinstance(data, tuple) else (data, {})
    return nbf.new_output("display_data", data=data, metadata=metadata)


def executed(tmp_path, *outputs, title="A study", ran=True):
    cell = nbf.new_code_cell("look()", execution_count=1 if ran else None, outputs=list(outputs))
    notebook = nbf.new_notebook(cells=[nbf.new_markdown_cell(f"# {title}\n\nProse."), cell])
    path = tmp_path / "executed.ipynb"
    nbformat.write(notebook, path)
    return path


def written(tmp_path, *outputs, **more):
    page = tmp_path / "reports" / "page.html"
    report.write(executed(tmp_path, *outputs, **more), page)
    return page.read_text("utf-8")


def verdict(word, why="it was measured"):
    return Verdict("c-01", "this is less than that", "order", word, why, *[None] * 4, 5, "Figure 3")


def test_it_asks_no_server_for_anything(tmp_path):
    page = written(tmp_path, shown(charts.round_trips(np.arange(1, 99.0))))
    without = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", without)
    assert not re.findall(r"url\((?!['\"]?(?:data:|#))", without)
    assert "default-src 'none'" in page.partition("<style")[0]


def test_only_scripts_of_our_own_are_in_it(tmp_path):
    page = written(tmp_path, shown(charts.round_trips(np.arange(1, 99.0))))
    nonce = re.search(r"script-src 'nonce-([^']+)'", page)[1]
    heads = re.findall(r"<script\b[^>]*>", page)
    assert set(heads) == {f'<script nonce="{nonce}">', '<script type="application/json">'}


def test_charts_share_one_bundle_and_are_there_as_pictures_too(tmp_path):
    chart = shown(charts.round_trips(np.arange(1, 99.0)))
    one, two = written(tmp_path, chart), written(tmp_path, chart, chart)
    assert len(two) - len(one) < 100_000 < len(one)
    assert two.count('class="labkit-chart"') == 2 and two.count("<svg") >= 2


def test_a_report_without_charts_carries_no_bundle(tmp_path):
    assert len(written(tmp_path, display(text__plain="42"))) < 600_000


def test_what_a_host_said_never_becomes_html(tmp_path):
    outputs = [
        display(text__html=BAD, text__plain=BAD),
        display(text__markdown=BAD, text__plain=BAD),
        display(application__javascript="alert(1)", text__plain=BAD),
        display(text__plain=BAD),
        nbf.new_output("stream", text=BAD),
        nbf.new_output("error", ename=BAD, evalue=BAD, traceback=[BAD]),
        shown(tables.table([{BAD: BAD}])),
        shown(tables.verdict_table([verdict("holds", BAD)], BAD)),
        shown(charts.round_trips(np.arange(1, 99.0), note=BAD)),
    ]
    page = written(tmp_path, *outputs)
    assert "<img src=x" not in page and "<script>alert" not in page
    assert page.count("taken") >= len(outputs)


def test_widgets_are_left_out(tmp_path):
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "VBox()"}
    page = written(tmp_path, nbf.new_output("display_data", data=view))
    assert "VBox()" in page and "widget-view+json" not in page


def test_the_verdicts_come_before_the_notebook_with_their_note(tmp_path):
    table = tables.verdict_table([verdict("holds"), verdict("contradicted")], "Emulated")
    top, _, rest = written(tmp_path, shown(table)).partition("<main>")
    assert "contradicted" in top and "Emulated" in top and "contradicted" in rest


def test_the_title_is_the_notebooks_and_stands_once(tmp_path):
    page = written(tmp_path, title="Is 1 < 2 & so on?")
    assert "<title>Is 1 &lt; 2 &amp; so on?</title>" in page
    assert len(re.findall(r"<h1\b", page)) == 1


def test_a_notebook_that_did_not_run_to_its_end_says_so_at_the_top(tmp_path):
    top = written(tmp_path, ran=False).partition("<main>")[0]
    assert "did not run to its end: 1 of 1 cells" in top
    assert "did not run" not in written(tmp_path)


def test_a_missing_or_damaged_notebook_is_named_and_nothing_is_written(tmp_path):
    page = tmp_path / "page.html"
    with pytest.raises(ResultsError, match=r"no notebook .*none\.ipynb"):
        report.write(tmp_path / "none.ipynb", page)
    (tmp_path / "half.ipynb").write_text('{"cells": [')
    with pytest.raises(ResultsError, match=r"half\.ipynb: cannot be read"):
        report.write(tmp_path / "half.ipynb", page)
    assert [path.name for path in tmp_path.iterdir()] == ["half.ipynb"]


def test_a_table_shows_itself_as_html_as_text_and_as_rows():
    bundle = tables.table([{"a": 1, "b": "x\x1b[31m"}], ["b", "a"])._repr_mimebundle_()
    assert tables.read(bundle[tables.MIME]).rows == (("x\x1b[31m", "1"),)
    assert bundle["text/plain"].split() == ["b", "a", "x\\x1b[31m", "1"]
    assert "\x1b" not in bundle["text/html"]


@pytest.mark.parametrize("name", studies.names())
def test_the_name_of_a_claim_stays_on_one_line(name):
    judged = [replace(verdict("holds"), claim=claim.id) for claim in studies.find(name).claims]
    page = tables.verdict_table(judged).html()
    assert [v.claim for v in judged if f'white-space:nowrap">{v.claim}<' not in page] == []


def test_a_report_tells_the_load_of_its_results_and_nothing_else_that_they_say():
    asked = {"workload": {"name": "Ping", "count": 2500, "where": "x", "label": "y", "odd": 1}}
    given = commands_report.given("lat_ping", "here", asked)
    assert given == {"where": "here", "label": given["label"], "count": "2500"} != asked
    assert given["label"] != "y"


def test_each_verdict_has_its_sign_and_words_not_colour_alone():
    for word in tables.CHIPS:
        assert word in tables.verdict_table([verdict(word)]).html()
    assert len({sign for _, sign in tables.CHIPS.values()}) >= 3


def test_a_cell_of_several_lines_stays_in_its_row_of_a_terminal():
    shown = terminal.table([["a", "two\nlines\n", "x"]], ["name", "now", "why"])
    assert shown.splitlines()[1:] == ["a     two; lines  x"]


@pytest.mark.slow
def test_the_script_of_the_charts_is_made_once_and_also_where_nothing_can_be_kept(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = vega.__wrapped__()
    (kept,) = (tmp_path / "labkit").iterdir()
    kept.write_text(kept.read_text("utf-8") + "// kept", "utf-8")
    assert vega.__wrapped__() == made + "// kept"
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert vega.__wrapped__() == made
