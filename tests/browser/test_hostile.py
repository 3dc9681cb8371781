"""Every text that a host, a file or a lab may bring, through all that shows one, in a browser.

A payload that runs sets `window.taken`, opens a dialogue or asks for something; none may, and no
element may come of one.
"""

from __future__ import annotations

import base64
import html
import json

import nbformat.v4 as nbf
import numpy as np
import pytest
import synthetic
from nbconvert.filters import markdown2html

from labkit import charts, report, studies, tables
from labkit.claim import Verdict
from labkit.scorecard import scorecard

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RUN = "window.taken=1"
EVENTS = [
    "onerror", "onload", "onclick", "onfocus", "onmouseover", "onanimationstart", "ontoggle",
    "onbegin", "onpointerenter", "onbeforeinput", "onscroll", "onwheel", "onpageshow",
]  # fmt: skip
TAGS = ["img", "svg", "body", "video", "audio", "details", "iframe", "object", "embed", "marquee",
        "input", "math", "style", "link"]  # fmt: skip
SHELLS = [
    "{}", '"{}', "'{}", "</td>{}", "</script>{}", "</style>{}", "</title>{}", "</textarea>{}",
    "<!--{}", "]]>{}", "\\{}", "${{{}}}", "{{{{{}}}}}", "`{}`", "</svg>{}", "\u2028{}", "%3c{}",
]  # fmt: skip
WHOLE = [
    f"javascript:{RUN}", f"[x](javascript:{RUN})", f"![x](x onerror={RUN})", f"<javascript:{RUN}>",
    f"data:text/html,<script>{RUN}</script>", f"'+({RUN})+'", f'"+({RUN})+"',
    f"\x1b]8;;javascript:{RUN}",
    f"=HYPERLINK(\"javascript:{RUN}\")", f"datum['constructor'].constructor('{RUN}')()",
    f"expr: {RUN}", "__proto__", "constructor", "toString", f"{{{{{RUN}}}}}", f"$${RUN}$$",
    "\\href{javascript:" + RUN + "}{x}", f"<a href=javascript:{RUN}>x</a>", "a.b[0]", "'][0]['x",
    f"<button data-commandlinker-command=console:create>{RUN}</button>", "\u202ereversed",
    f"<base href=//evil.invalid><script src=x.js>{RUN}</script>",
    "<meta http-equiv=refresh content=0>",
    f"<form action=javascript:{RUN}><input type=submit autofocus>",
    f"<svg><script>{RUN}</script></svg>",
    base64.b64encode(f"<script>{RUN}</script>".encode()).decode(),
]  # fmt: skip
PAYLOADS = [
    *(shell.format(f"<script>{RUN}</script>") for shell in SHELLS),
    *(shell.format(f"<img src=x onerror={RUN}>") for shell in SHELLS),
    *(f"<{tag} {event}={RUN} src=x autofocus>x" for tag in TAGS for event in EVENTS),
    *WHOLE,
    *(html.escape(payload) for payload in WHOLE),
]
assert len(PAYLOADS) >= 200
# What the pages hold of their own accord; anything else came of a payload.
FOUND = """() => {
const LINKS = ['href', 'xlink:href', 'src', 'action', 'formaction', 'data'];
return ({
  taken: window.taken, title: document.title,
  bad: [...document.querySelectorAll('*')].filter(e =>
    [...e.attributes].some(a => /^on/i.test(a.name)
      || (LINKS.includes(a.name) && /^\\s*javascript:/i.test(a.value)))
    || ['IFRAME','OBJECT','EMBED','MARQUEE','VIDEO','AUDIO','BASE'].includes(e.tagName)
    || (e.tagName === 'FORM' && e.className !== 'vega-bindings')
    || (e.tagName === 'IMG' && !e.src.startsWith('data:'))
    || e.dataset.commandlinkerCommand).map(e => e.outerHTML.slice(0, 200)),
}) }"""


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
    shown = looked(
        bare(tables.table(rows()).html() + tables.verdict_table(verdicts(), PAYLOADS[0]).html())
    )
    assert shown.count("&lt;script") >= len(SHELLS)


def hostile_charts():
    """Charts with payloads wherever a text can stand."""
    some = PAYLOADS[:3] + PAYLOADS[17:19] + WHOLE[:13:2]
    for p, q in zip(some, reversed(some), strict=True):
        values = {p: {1: np.arange(1.0, 50)}, "Native": {1: np.arange(1.0, 60)}}
        words = {"title": p, "note": q, "metric": p}
        published = [{"condition": p, "statistic": "median", "value": "3", "source": q}]
        yield charts.ladder(values, published, unit=q, runs={(p, 1): q}, **words)
        yield charts.over_time(
            {p: ([1, 2], [1, 2])}, [charts.Event(q, 1, 2)], run=q, unit=p, **words
        )
        yield charts.downtime({p: {q: 1.0, "b": 2.0}}, unit=q, title=p, note=q)
        yield charts.ratios(values, "Native", {p: 1.0}, **words)


def test_drawn_charts_show_every_payload_as_text(looked):
    drawn = [charts.bundle(chart.to_dict())["image/svg+xml"] for chart in hostile_charts()]
    looked(bare("".join(drawn)))


def test_a_saved_page_of_a_chart_runs_nothing_of_its_texts(looked, tmp_path):
    for chart in list(hostile_charts())[::16]:
        whole = charts.save(chart, tmp_path / "chart.html").read_text()
        looked(whole, "document.querySelector('svg.marks')")


def outputs(page):
    data = [page] if isinstance(page, dict) else page
    return [nbf.new_output("display_data", data=one) for one in data]


def test_a_report_of_hostile_results_runs_nothing(looked, tmp_path):
    shown = [
        tables.table(rows())._repr_mimebundle_(),
        tables.verdict_table(verdicts())._repr_mimebundle_(),
    ]
    shown += [charts.bundle(chart.to_dict()) for chart in list(hostile_charts())[:8]]
    shown += [{"text/html": p, "text/plain": p, "application/javascript": p} for p in PAYLOADS]
    shown += [{"text/markdown": p, "text/latex": p, "text/plain": p} for p in PAYLOADS]
    shown += [
        {"application/vnd.jupyter.widget-view+json": {"model_id": p}, "text/plain": p}
        for p in WHOLE
    ]
    cells = [nbf.new_markdown_cell("# A bad host"), nbf.new_code_cell("1", execution_count=1)]
    cells[1].outputs = [
        *outputs(shown), nbf.new_output("stream", text="\n".join(PAYLOADS)),
        nbf.new_output("error", ename=PAYLOADS[0], evalue=PAYLOADS[1], traceback=PAYLOADS),
    ]  # fmt: skip
    file = tmp_path / "executed.ipynb"
    file.write_text(json.dumps(nbf.new_notebook(cells=cells)), "utf-8")
    report.write(file, tmp_path / "report.html")
    whole = (tmp_path / "report.html").read_text("utf-8")
    looked(whole, "document.querySelectorAll('.labkit-chart[data-live]').length === 8")


def test_the_scorecard_of_a_hostile_lab_runs_nothing(looked, tmp_path):
    study = studies.find("lat_ping")
    for n, p in enumerate(PAYLOADS[:3] + WHOLE[:3]):
        results = synthetic.write_results(tmp_path / "lat_ping" / f"r{n}", study, 3, 60)
        asked = json.loads((results.path / "study.json").read_text())
        asked = {**asked, "label": p, "lab": {**asked["lab"], "name": p, "tier": p}}
        (results.path / "study.json").write_text(json.dumps(asked))
    card = scorecard(tmp_path)
    looked(bare(card.html()))
    looked(bare(markdown2html(card.markdown())))
