"""A report is one file that asks nothing of any server, and shows what hosts said as text."""

import re
from dataclasses import replace
from types import SimpleNamespace

import nbformat
import nbformat.v4 as nbf
import numpy as np
import pytest
from nbclient import NotebookClient
from nbconvert.exporters import HTMLExporter

from labkit import charts, studies
from labkit.charts.export import vega
from labkit.claim import Verdict
from labkit.claims import published
from labkit.errors import ResultsError
from labkit.judging import judge
from labkit.machine.places import HOME
from labkit.pages import report, report_head, tables, terminal
from labkit.pages.answer import _is_emulated, given
from labkit.reason import Reason, What
from labkit.running import notebook as campaign
from labkit.running.notebook import LEAN
from labkit.running.open_lab import named_results
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, UNDECIDED

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


def written(tmp_path, *outputs, head=report.NO_HEAD, **more):
    page = tmp_path / "reports" / "page.html"
    report.write(executed(tmp_path, *outputs, **more), page, head)
    return page.read_text("utf-8")


def verdict(word, why="it was measured"):
    reasons = (Reason(What.DECLARED, said=why),)
    about = "c-01", "this is less than that", "order"
    return Verdict(*about, word, reasons, *[None] * 4, 5, "Figure 3")


CHART = shown(charts.round_trips(np.arange(1, 99.0)))


@pytest.mark.slow
def test_it_asks_no_server_for_anything_and_only_scripts_of_our_own_are_in_it(tmp_path):
    page = written(tmp_path, CHART)
    without = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", without)
    assert not re.findall(r"url\((?!['\"]?(?:data:|#))", without)
    assert "default-src 'none'" in page.partition("<style")[0]
    nonce = re.search(r"script-src 'nonce-([^']+)'", page)[1]
    heads = re.findall(r"<script\b[^>]*>", page)
    assert set(heads) == {f'<script nonce="{nonce}">', '<script type="application/json">'}


@pytest.mark.slow
def test_charts_share_one_bundle_and_are_there_as_pictures_for_any_screen_and_paper(tmp_path):
    one, two = written(tmp_path, CHART), written(tmp_path, CHART, CHART)
    assert len(two) - len(one) < 100_000 < len(one) and len(one.encode()) <= 2_000_000
    assert two.count('class="labkit-chart"') == 2 and two.count("<svg") >= 2
    assert len(written(tmp_path, display(text__plain="42"))) < 600_000, "no bundle without charts"
    assert "prefers-color-scheme: dark" in one and "color-scheme: light dark" in one
    assert "@media print" in one and "fill: currentColor" in one


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_head_says_all_that_a_reader_asks_first(tmp_path):
    """Finding, chart, verdicts, controls, date, hosts, commit and command, in this order."""
    results = named_results(str(HOME / "data" / "recorded" / "lat_10us.labkit"))
    study = studies.find("lat_10us")
    head = report_head.head_of(study, results, judge(study, results))
    top = written(tmp_path, CHART, head=head).partition("<main>")[0].rpartition("<h1>")[2]
    run = results.finished()[0]
    wanted = ["Claims</dt>", "What to do</dt>", "<svg", "Verdicts: ", "lat-10us-01",
              run.started[:10], "Linux", run.facts["versions"]["labkit"],
              "labkit run lat_10us", f"-p seed={results.asked['seed']}",
              "Controls of this lab"]  # fmt: skip
    places = [top.find(text) for text in wanted]
    assert -1 not in places and places == sorted(places)
    assert all(f"<small>{claim.id}" in top for claim in study.claims)


def test_a_reader_is_told_what_to_do_about_claims_that_are_open():
    """The shortest run that may decide one, else the labs that can; nothing, where all is known."""
    soon, late = Reason(What.UNCLEAR, more=15, seconds=600.0), Reason(What.UNCLEAR, more=900)
    undecided = replace(verdict("undecided"), reasons=(soon,), more=15, blocks=5)
    slow = replace(undecided, reasons=(replace(soon, seconds=6000.0),))
    hopeless = replace(undecided, reasons=(late,), more=900)
    untestable, known = verdict("not testable here"), verdict("holds")
    measure, ask = report_head.next_steps(studies.find("lat_ping"), [slow, undecided, untestable])
    assert measure.command == 'labkit run lat_ping -p repeats="until decided in 14 minutes"'
    assert ask.command == "labkit studies lat_ping --deciders"
    answers = replace(slow, claim="c-02", statement="the answer")
    (step,) = report_head.next_steps(studies.find("lat_ping"), [answers, undecided], ["c-02"])
    assert "the answer" in step.words, "the claim of the answer comes first"
    for verdicts in ([hopeless, known], [untestable], [replace(undecided, more=None)]):
        (step,) = report_head.next_steps(studies.find("lat_ping"), verdicts)
        assert step.command == "labkit studies lat_ping --deciders"
    raid = studies.find("raid_iometer")
    (step,) = report_head.next_steps(raid, [replace(untestable, claim="raid-iometer-02")])
    assert "other hosts (KVM, ESXi)" in step.words
    nowhere = [known, replace(untestable, form="not here")]
    (step,) = report_head.next_steps(studies.find("lat_ping"), nowhere)
    assert not step.command and step.words.startswith("Nothing more to run")
    (step,) = report_head.next_steps(studies.find("lat_ping"), [known])
    assert step.command == "labkit run lat_ping --where lab.toml"
    assert report_head.next_steps(studies.find("lat_ping"), []) == ()


@pytest.mark.parametrize(("kernels", "names"), [
    ({"Native": "real kernel", "VM": "emulated guest (User-Mode Linux)"}, ["VM"]),
    ({"VM": "emulated guest (User-Mode Linux)"}, []), ({"Native": "real kernel"}, []), ({}, []),
])  # fmt: skip
def test_emulated_conditions_beside_real_ones_are_named(kernels, names):
    caution = report_head._caution(kernels)
    assert caution.startswith(f"Emulated: {', '.join(names)}.") if names else caution == ""


def test_the_command_of_a_report_asks_for_the_load_that_was_measured():
    results = named_results(str(HOME / "data" / "recorded" / "lat_ping.labkit"))
    words = report_head.command(studies.find("lat_ping"), results).split()
    assert words[:3] == ["labkit", "run", "lat_ping"]
    assert f"count={results.asked['workload']['count']}" in words
    given = dict(word.split("=") for word in words if "=" in word)
    source = campaign.notebook("lat_ping")
    assert campaign.read_parameters(source, given)["count"] == results.asked["workload"]["count"]


LESSON = """## The question

See [another](00-start-here.ipynb), [there](https://example.org/), [here](#What-we-see).
"""


def lesson(tmp_path, *outputs):
    cells = [nbf.new_markdown_cell("# A study\n\nWords."), nbf.new_markdown_cell(LESSON),
             nbf.new_markdown_cell("## Parameters"),
             nbf.new_code_cell("a = 1", execution_count=1),
             nbf.new_markdown_cell("## What we see\n\nThis."),
             nbf.new_code_cell("b", execution_count=2, outputs=list(outputs))]  # fmt: skip
    nbformat.write(nbf.new_notebook(cells=cells), tmp_path / "lesson.ipynb")
    report.write(tmp_path / "lesson.ipynb", tmp_path / "lesson.html")
    return (tmp_path / "lesson.html").read_text("utf-8")


def test_the_lesson_is_folded_and_what_was_seen_is_open(tmp_path):
    page = lesson(tmp_path, display(text__plain="42"))
    folds = re.findall(r'<details class="([^"]*)"( open)?><summary[^>]*>(.*?)</summary>', page)
    assert folds == [
        ("lesson", "", "About this lesson"),
        ("lesson", "", "The question"),
        ("lesson only-code", "", "Parameters"),
        ("lesson", " open", "What we see"),
    ]
    assert page.count("<details") == page.count("</details>")


@pytest.mark.slow
def test_the_chart_of_what_we_see_stands_in_the_head_and_once_and_no_link_is_dead(tmp_path):
    whole = lesson(tmp_path, CHART)
    top, _, rest = whole.partition("<main>")
    assert top.count('class="labkit-chart"') == 1 and 'class="labkit-chart"' not in rest
    page = re.sub(r"<script\b.*?</script>", "", whole, flags=re.DOTALL)
    links = re.findall(r'<a\b[^>]*href="([^"]*)"', page)
    inside = [link[1:] for link in links if link.startswith("#")]
    assert {link for link in links if not link.startswith("#")} == {"https://example.org/"}
    assert "labkit-chart" in inside and [one for one in inside if f'id="{one}"' not in page] == []


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


@pytest.mark.parametrize("name", published.names())
def test_the_name_of_a_claim_stays_on_one_line(name):
    judged = [replace(verdict("holds"), claim=claim.id) for claim in published.of(name)]
    page = tables.verdict_table(judged).html()
    assert [v.claim for v in judged if f'white-space:nowrap">{v.claim}<' not in page] == []


def test_a_report_tells_the_load_of_its_results_and_nothing_else_that_they_say():
    asked = {"workload": {"name": "Ping", "count": 2500, "where": "x", "label": "y", "odd": 1}}
    chosen = given("lat_ping", "here", asked, "mine")
    assert chosen == {"where": "here", "label": "mine", "count": "2500"}


def test_how_verdicts_were_judged_is_folded_on_a_page_and_whole_elsewhere():
    shown = tables.Table(("a",), (("b",),), "Note.", "One risk of 5 %.")
    page = shown.html()
    assert "<b>Note.</b>" in page and "<summary>How these were judged</summary><p>One" in page
    assert shown.text().startswith("Note. One risk of 5 %.\n\n")
    assert shown.markdown().startswith("Note. One risk of 5 %.\n\n")
    assert tables.read(shown._repr_mimebundle_()[tables.MIME]) == shown


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


def test_columns_of_figures_stay_columns_in_a_narrow_cell():
    row = {"condition": "a long name of a condition", **{f"metric {n}": "1.23 (1.02 to 1.45)"
                                                        for n in range(5)}}  # fmt: skip
    page = tables.table([row]).html()
    assert 'class="labkit figures"' in page and "overflow-x: auto" in page
    assert "@container" not in page and "sticky" in page
    assert 'class="labkit stacked"' in tables.table([{**row, "metric 1": "words " * 9}]).html()


@pytest.mark.parametrize(("asked", "emulated"), [
    ({"lab": {"tier": "root", "accelerator": "uml"}}, True),
    ({"lab": {"tier": "root", "accelerator": "kvm"}}, False),
    ({"lab": {"tier": "hosts", "accelerator": ""}}, False),
    ({"lab": {"tier": "root"}, "kernels": {"A": "real kernel", "B": "emulated guest (x)"}}, True),
    ({"lab": {"tier": "root"}, "kernels": {"A": "real kernel"}}, False),
])  # fmt: skip
def test_only_of_an_emulated_lab_figures_are_called_none_of_hardware(asked, emulated):
    assert _is_emulated(SimpleNamespace(asked=asked)) is emulated


@pytest.mark.slow
def test_blocks_that_are_wanting_are_told_in_minutes():
    results = named_results(str(HOME / "data" / "recorded" / "lat_ping.labkit"))
    runs = results.finished()
    a_block = sum(run.seconds for run in runs) / len({run.block for run in runs})
    judged = [v for v in judge(studies.find("lat_ping"), results) if v.more]
    assert judged, "one is undecided"
    for one in judged:
        minutes = re.search(
            r"(?:about|more than) \d+ more blocks?(?: of this size)?, (\d+) min", one.why
        )
        assert int(minutes[1]) == max(1, round(one.more * a_block / 60))


HEAD = ["round trip", "median", "90 %", "99 %", "99.9 %", "99.99 %", "document's median"]


@pytest.mark.parametrize("conditions", [1, 2, 7])
def test_a_table_of_wide_rows_fits_and_loses_nothing(conditions, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [(f"VM-Latency-{n}", *(f"{n}{q} (100 to 2000)" for q in range(5)), "20")
            for n in range(conditions)]  # fmt: skip
    shown = terminal.narrow_table(rows, HEAD)
    assert max(map(len, shown.splitlines())) <= 80
    assert all(cell in shown for row in rows for cell in row)


def test_a_table_that_fits_stays_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [("Native", "9", "10", "12", "15", "~20", "18")]
    assert terminal.narrow_table(rows, HEAD) == terminal.table(rows, HEAD)


def told(word, effect, low, high, statement, *each, says=""):
    return {"verdict": word, "effect": effect, "low": low, "high": high, "statement": statement,
            "each": each, "local": {"says": says} if says else None}  # fmt: skip


LOOSE = told(HOLDS, 0.5, 0.2, 0.9, "loose")


@pytest.mark.parametrize(("verdicts", "said"), [
    ([LOOSE, told(CONTRADICTED, 3.0, 2.9, 3.1, "clear"), told(NOT_TESTABLE, *[None] * 3, "other")],
     "of the document's 3 claims 1 holds, 1 is contradicted, 1 cannot be tested here. "
     'Decided most clearly: "clear" is contradicted here.'),
    ([LOOSE, told(HOLDS, 3.0, None, None, "few", 2.9, 3.0, 3.1)],
     "of the document's 2 claims 2 hold. "
     'Decided most clearly: "few" holds here.'),
    ([told(UNDECIDED, 0.9, 0.5, 1.5, "loose")], "the claim needs more repeats."),
    ([told(NOT_TESTABLE, 0.9, 0.5, 1.5, "x", says=s) for s in ("agrees", "differs", "differs")],
     "of the document's 3 claims 3 cannot be tested here."),
])  # fmt: skip
def test_the_claim_that_was_decided_most_clearly_is_what_was_found(verdicts, said):
    assert report_head.finding(verdicts) == said


# A notebook that was saved and is opened again, or converted, shows what its panels showed.
CELLS = """
from labkit import find_study
from labkit.pages.lab_panel import LadderPanel
from labkit.pages.study_panel import StudyPanel
from labkit.running.open_lab import stored_results

study = find_study("lat_10us")
results = stored_results("lat_10us", "recorded")
---
panel = StudyPanel(study, None, results)
results = await panel.run()
---
ladder = LadderPanel(results, study)
ladder
---
ladder.draw(lambda: ladder.chart((50,)))
"""


@pytest.mark.slow
def test_each_panel_leaves_its_picture_and_its_numbers(monkeypatch):
    monkeypatch.delenv("LABKIT_BATCH", raising=False)
    notebook = nbf.new_notebook(cells=[nbf.new_code_cell(c.strip()) for c in CELLS.split("---")])
    NotebookClient(notebook, kernel_name="python3", timeout=300, extra_arguments=[LEAN]).execute()
    _, study, ladder, _ = ([o["data"] for o in cell.outputs] for cell in notebook.cells)
    assert any("runs are there (recorded" in data["text/plain"] for data in study)
    assert any(tables.MIME in data for data in study)
    pictures = [data for data in ladder if charts.V5 in data]
    assert len(pictures) == 1 and pictures[0]["image/svg+xml"].lstrip().startswith("<svg")
    # The last cell has drawn it anew, in the place where it was.
    assert "median" in pictures[0]["text/plain"] and "99 %" not in pictures[0]["text/plain"]
    page, _ = HTMLExporter(template_name="lab").from_notebook_node(notebook)
    assert "runs are there (recorded" in page and 'src="data:image/svg+xml;base64,' in page
