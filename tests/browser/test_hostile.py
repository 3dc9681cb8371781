"""Every text that a host, a file or a lab may bring, through all that shows one, in a browser.

A payload that runs sets `window.taken`, opens a dialogue or asks for something; none may, and no
element may come of one.
"""

import json
from functools import partial

import nbformat.v4 as nbf
import numpy as np
import pytest
import synthetic
from nbconvert.filters import markdown2html

from labkit import charts, studies
from labkit.claim import Verdict
from labkit.pages import report, scorecard, tables
from labkit.results import Results, Run
from tests.browser.conftest import CHECKOUT, script
from tests.browser.payloads import PAYLOADS, RUN, SHELLS, WHOLE

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/pages/", "labkit/charts/", "labkit/claims/"),
]

FOUND = script("found")


@pytest.fixture
def looked(page, tmp_path):
    """Opens a page and says what became of the payloads in it."""
    said = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))

    def look(whole: str, wait: str = ""):
        file = tmp_path / "page.html"
        file.write_text(whole, "utf-8")
        page.goto(file.as_uri())
        if wait:
            page.wait_for_function(wait)
        page.mouse.move(300, 300)
        page.wait_for_timeout(300)
        found = page.evaluate(FOUND)
        assert said == [] and page.strayed == []
        assert found["taken"] is None, found
        assert found["bad"] == []
        return page.content()

    return look


def bare(body: str) -> str:
    return f"<!DOCTYPE html><html><head><meta charset=utf-8></head><body>{body}</body></html>"


def test_the_check_itself_sees_a_payload_that_runs(page, tmp_path):
    (tmp_path / "x.html").write_text(bare(f"<img src=x onerror={RUN}>"))
    page.goto((tmp_path / "x.html").as_uri())
    page.wait_for_function("window.taken === 1")
    assert page.evaluate(FOUND)["bad"]


def rows():
    return [{"a host said": p, p: p, "holds": "holds"} for p in PAYLOADS]


def verdicts():
    return [Verdict(p, p, p, p, p, None, None, None, None, 0, p) for p in PAYLOADS]


def test_tables_show_every_payload_as_text(looked):
    both = (tables.table(rows()), tables.verdict_table(verdicts(), PAYLOADS[0]))
    shown = looked(bare("".join(one.html() for one in both)))
    assert shown.count("&lt;script") >= len(SHELLS)


KINDS = 5
"""Kinds of chart that are made of each payload."""


def hostile_charts():
    """What makes charts with payloads wherever a text can stand, each when it is called."""
    some = PAYLOADS[:3] + PAYLOADS[17:19] + WHOLE[:13:2]
    for p, q in zip(some, reversed(some), strict=True):
        values = {p: {1: np.arange(1.0, 50)}, "Native": {1: np.arange(1.0, 60)}}
        words = {"note": q, "metric": p}
        published = [{"condition": p, "statistic": "median", "value": "3", "source": q}]
        named = {(p, 1): q, ("Native", 1): p}
        yield partial(charts.ladder, values, published, unit=q, runs=named, **words)
        happened = [charts.Happened(q, 1, 2)]
        yield partial(
            charts.over_time, {p: ([1, 2], [1, 2])}, happened, run=q, unit=p, title=p, **words
        )  # fmt: skip
        yield partial(charts.ratios, values, "Native", {p: 1.0}, runs=named, title=p, **words)
        yield partial(charts.spread, values, unit=q, runs=named, **words)
        yield partial(charts.round_trips, np.arange(1.0, 50), unit=p, run=q, **words)


def test_drawn_charts_show_every_payload_as_text(looked):
    drawn = [charts.bundle(chart().to_dict())["image/svg+xml"] for chart in hostile_charts()]
    looked(bare("".join(drawn)))


def test_a_saved_page_of_a_chart_runs_nothing_of_its_texts(looked, tmp_path):
    for chart in list(hostile_charts())[::16]:
        text = charts.save(chart(), tmp_path / "chart.html").read_text()
        looked(text, "document.querySelector('svg.marks')")


def outputs(*data):
    return [nbf.new_output("display_data", data=one) for one in data]


def test_a_report_of_hostile_results_runs_nothing(looked, tmp_path):
    shown = [one._repr_mimebundle_() for one in (tables.table(rows()),
                                                 tables.verdict_table(verdicts()))]  # fmt: skip
    shown += [charts.bundle(chart().to_dict()) for chart in list(hostile_charts())[:8]]
    shown += [{"text/html": p, "text/plain": p, "application/javascript": p} for p in PAYLOADS]
    shown += [{"text/markdown": p, "text/latex": p, "text/plain": p} for p in PAYLOADS]
    view = "application/vnd.jupyter.widget-view+json"
    shown += [{view: {"model_id": p}, "text/plain": p} for p in WHOLE]
    cells = [nbf.new_markdown_cell("# A bad host"), nbf.new_code_cell("1", execution_count=1)]
    cells[1].outputs = [
        *outputs(*shown), nbf.new_output("stream", text="\n".join(PAYLOADS)),
        nbf.new_output("error", ename=PAYLOADS[0], evalue=PAYLOADS[1], traceback=PAYLOADS),
    ]  # fmt: skip
    file = tmp_path / "executed.ipynb"
    file.write_text(json.dumps(nbf.new_notebook(cells=cells)), "utf-8")
    report.write(file, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    looked(text, "document.querySelectorAll('.labkit-chart[data-live]').length === 8")


def test_the_scorecard_of_a_hostile_lab_runs_nothing(looked, tmp_path):
    study = studies.find("lat_ping")
    for n, p in enumerate(PAYLOADS[:3] + WHOLE[:3]):
        results = synthetic.write_results(tmp_path / "lat_ping" / f"r{n}", study, 3, 60)
        asked = json.loads((results.path / "study.json").read_text())
        asked = {**asked, "label": p, "lab": {**asked["lab"], "name": p, "tier": p}}
        (results.path / "study.json").write_text(json.dumps(asked))
    for n, p in enumerate([*PAYLOADS[:3], *WHOLE[:3]]):
        for way in (p, f"'{p}"):
            claimed = {"ways": {"latency": [way]}, "study": "docker_netperf"}
            imported(tmp_path / f"i{n}{way == p}", p, claimed)
    card = scorecard.scorecard(tmp_path)
    assert card.unread and any(line.tier == "imported" for line in card.lines)
    shown = looked(scorecard.page(card))
    assert shown.count("&lt;script") > len(card.unread) and "<script" not in shown
    looked(bare(card.html()))
    looked(bare(markdown2html(card.markdown())))


def imported(path, p, claimed):
    """What another tool measured, of conditions and files with such names, judged on claims."""
    lab = {"name": p, "tier": "imported", "hosts": {}}
    asked = {"study": "imported", "label": p, "lab": lab, "workload": {"name": "netperf"},
             "conditions": [p], "where": p, "imported": p, "refused": {p: p}, "claims": claimed,
             "seed": 0}  # fmt: skip
    results = Results.begin(path, asked)
    facts = {"file": p, "left_out": p, "versions": {p: p}}
    text = (CHECKOUT / "tests/imports/netperf/omni_pairs/input.txt").read_text()
    for order, (condition, state) in enumerate([(p, "finished"), ("Native", "finished"),
                                                (p, "interrupted")], 1):  # fmt: skip
        run = Run(condition, 1, order, state, why=p, started=p, facts=facts, gates={p: {p: p}})
        results.keep(run, {"import.txt": text})


def spoken(chart, page):
    """What the tooltip says when each of some marks is hovered; the page shows the chart."""
    told = []
    marks = "svg.marks g.mark-symbol.role-mark path, svg.marks g.mark-rect.role-mark path"
    for mark in page.locator(marks).all()[:6]:
        mark.hover(force=True)
        page.wait_for_selector("#vg-tooltip-element.visible")
        told.append(page.inner_text("#vg-tooltip-element"))
        found = page.evaluate(FOUND)
        assert found["taken"] is None and found["bad"] == [], found
    return told


@pytest.mark.parametrize("which", ["ladder", "ratios"])
def test_a_tooltip_shows_every_payload_as_text(looked, page, tmp_path, which):
    place = {"ladder": 0, "ratios": 2}[which]
    charts_of = list(hostile_charts())
    chart = charts_of[len(charts_of) // KINDS // 2 * KINDS + place]
    whole = charts.save(chart(), tmp_path / "chart.html").read_text()
    looked(whole, "!!document.querySelector('svg.marks')")
    told = spoken(chart, page)
    assert told and any("condition" in text or "percentile" in text for text in told)


PANELS = """\
import sys
sys.path[:0] = [{home!r}, {home!r} + "/tests/helpers"]
from tests.browser.hostile_panels import show
from tests.browser.payloads import PAYLOADS, WHOLE

show([*PAYLOADS[:4], *PAYLOADS[17:20], *WHOLE[:3], {formula!r}])"""
FORMULA = "$$\\href{javascript:window.taken=1}{x}$$"
CARRIES = script("carries")


@pytest.mark.torture
def test_the_panels_of_a_hostile_lab_run_nothing_in_jupyterlab(lab_notebook, page):
    said = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    code = PANELS.format(home=str(CHECKOUT), formula=FORMULA)
    lab_notebook.show("panels", nbf.new_code_cell(code))
    lab_notebook.run_all()
    page.wait_for_selector(".vega-embed canvas, .vega-embed svg.marks")
    page.wait_for_selector("text=/11 of 22 runs/")
    found = page.evaluate(CARRIES)
    assert found == {"taken": None, "bad": []}
    assert said == [] and page.strayed == []


COMMANDING = (
    "<button data-commandlinker-command='notebook:insert-cell-below'>harmless</button>"
    "<img src=x onerror=window.taken=1><script>window.taken=1</script>"
)


@pytest.mark.torture
def test_a_colleagues_notebook_that_is_opened_and_clicked_on_gives_no_commands(lab_notebook, page):
    cells = [nbf.new_markdown_cell(COMMANDING), nbf.new_code_cell("1")]
    cells[1].outputs = outputs(
        {"text/html": COMMANDING}, {"text/markdown": COMMANDING}, {"application/javascript": RUN}
    )
    lab_notebook.show("sent", *cells)
    buttons = page.locator(".jp-Notebook button", has_text="harmless")
    buttons.nth(2).wait_for()
    for number in range(3):
        buttons.nth(number).click()
    page.wait_for_timeout(300)
    assert page.evaluate(CARRIES) == {"taken": None, "bad": []}
    cells = "window.jupyterapp.shell.currentWidget.content.widgets.length"
    assert page.evaluate(cells) == 2
