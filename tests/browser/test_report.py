"""A report in a real browser that has no network at all."""

import re
import shutil
import socket
import subprocess
from pathlib import Path

import nbformat as nbf
import numpy as np
import papermill
import pytest

from labkit import charts, find_study, studies
from labkit.judging import judge
from labkit.pages import report, scorecard
from labkit.pages.answer import answer
from labkit.pages.report_head import head_of
from labkit.pages.tables import VERDICTS, Table, table
from labkit.running.notebook import LEAN
from labkit.running.open_lab import stored_results
from tests.browser.conftest import BROWSERS, CHECKOUT, CONTRAST, script

PROGRAMS = ("unshare",)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Not even a loopback is there: what a page asks for can come from nowhere but its own file.
WALLED = """#!/bin/sh
exec unshare --map-root-user --net {} "$@"
"""
HOSTILE = """
from labkit.charts import round_trips
from labkit.pages.tables import VERDICTS, Table, table
import numpy as np
bad = '</script><script>document.title = "taken"</script><img src=x onerror="document.title=1">'
from IPython.display import HTML, display
display(HTML(bad))
display(table([{"a host said": bad}]))
print(bad)
round_trips(np.arange(1, 50.0), note=bad)
"""


@pytest.fixture
def offline(page):
    page.wrong = []
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.context.set_offline(True)
    return page


def test_the_report_of_a_study_draws_its_charts_from_one_file(
    offline, tmp_path, screenshots, monkeypatch
):
    monkeypatch.setenv("LABKIT_BATCH", "1")
    executed, page = tmp_path / "executed.ipynb", tmp_path / "report.html"
    papermill.execute_notebook(
        str(CHECKOUT / "notebooks" / "01-lat-ping.ipynb"), str(executed), {"where": "recorded"},
        kernel_name="python3", progress_bar=False, extra_arguments=[LEAN],
    )  # fmt: skip
    study, results = find_study("lat_ping"), stored_results("lat_ping", "recorded")
    report.write(executed, page, head_of(study, results, judge(study, results)))
    assert page.stat().st_size <= 2_000_000
    asked = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.goto(page.as_uri())
    offline.wait_for_function("document.querySelectorAll('.labkit-chart[data-live]').length === 3")
    assert asked == [page.as_uri()]
    assert offline.locator(".labkit-chart[data-live] svg.marks").count() == 3
    assert offline.title().startswith("Round trips by ping")
    assert offline.locator(".labkit-top .chips li").count() == 7
    chart = offline.locator(".labkit-top .labkit-chart").bounding_box()
    assert chart["y"] + chart["height"] < 900, "the chart is on the first screen"
    broken = "getComputedStyle(document.querySelector('.jp-OutputArea-output pre')).wordBreak"
    assert offline.evaluate(broken) == "normal", "words stay whole where a line is too long"
    offline.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert not offline.locator("text=study_results(study").first.is_visible()
    offline.check("#labkit-code")
    assert offline.locator("text=study_results(study").first.is_visible()
    offline.uncheck("#labkit-code")
    offline.screenshot(path=screenshots / "report-top.png")
    offline.locator("text=What we see").first.scroll_into_view_if_needed()
    offline.locator(".labkit-chart").first.screenshot(path=screenshots / "report-ladder.png")
    in_the_dark_and_on_paper(offline, screenshots)
    assert offline.wrong == []


def test_the_report_with_the_most_claims_has_two_pages_on_paper(offline, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_BATCH", "1")
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    study = max(map(find_study, studies.names()), key=lambda study: len(study.claims))
    written = answer(study, {"where": "recorded", "label": "x"}, print, print)
    offline.goto(Path(written.report).as_uri())
    offline.wait_for_selector(".labkit-top .labkit-chart[data-live]")
    assert len(re.findall(rb"/Type\s*/Page\b", offline.pdf(format="A4"))) <= 2


READ = "p, td, th, li, h1, h2, h3, h4, summary, label, a, b, span, code, small"
COLOURS_OF = script("colours_of")


def in_the_dark_and_on_paper(page, screenshots) -> None:
    """Words are light on a dark screen, those of charts too; on paper all is dark on white."""
    words = ".labkit-chart svg.marks text"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        least, shown = page.evaluate(CONTRAST, f":is({READ}, {words})")
        assert least >= 4.5, (scheme, least, shown)
    assert max(page.evaluate(COLOURS_OF, "body")[2]) < 60
    assert min(page.evaluate(COLOURS_OF, words)[1]) > 180
    page.screenshot(path=screenshots / "report-dark.png")
    page.emulate_media(color_scheme="dark", media="print")
    assert max(page.evaluate(COLOURS_OF, words)[1]) < 80
    assert not page.locator("#labkit-code").is_visible()
    pages = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert 1 <= len(pages) <= 2
    page.emulate_media(color_scheme="light", media="screen")


def test_a_scorecard_is_four_screens_at_most_before_anything_is_unfolded(page, tmp_path):
    (tmp_path / "card.html").write_text(
        scorecard.page(scorecard.scorecard(study="lat_ping")), "utf-8"
    )
    for width in (1400, 800):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((tmp_path / "card.html").as_uri())
        assert page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture
def walled(chromium, tmp_path):
    """A page of a browser whose network is an empty one of the kernel's."""
    found = next(filter(None, map(shutil.which, BROWSERS)))
    if subprocess.run(["unshare", "--map-root-user", "--net", "true"]).returncode:
        pytest.skip("no network namespace may be made here")
    start = tmp_path / "walled"
    start.write_text(WALLED.format(found))
    start.chmod(0o755)
    browser = chromium.browser_type.launch(executable_path=start, args=["--no-sandbox"])
    try:
        yield browser.new_page()
    finally:
        browser.close()


@pytest.mark.when_changed("labkit/pages/", "labkit/charts/")
def test_without_any_network_charts_of_pages_and_reports_are_drawn(walled, tmp_path):
    """F74: the page that asks a server of ours for a chart shows that there is no way out."""
    chart = charts.round_trips(np.arange(1, 50.0))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        text = f"fetch('http://127.0.0.1:{listening.getsockname()[1]}').then(() => 1, () => 0)"
        walled.goto(charts.save(chart, tmp_path / "chart.html").as_uri())
        assert walled.evaluate(text) == 0
    walled.wait_for_selector("svg.marks path")
    cell = nbf.v4.new_code_cell("1")
    cell.outputs = [nbf.v4.new_output("display_data", data=charts.bundle(chart.to_dict()))]
    nbf.write(nbf.v4.new_notebook(cells=[cell]), tmp_path / "executed.ipynb")
    report.write(tmp_path / "executed.ipynb", tmp_path / "report.html")
    walled.goto((tmp_path / "report.html").as_uri())
    walled.wait_for_selector(".labkit-chart[data-live] svg.marks path")


@pytest.mark.parametrize("wide", [1000, 400])
def test_a_saved_chart_fills_its_page(page, tmp_path, wide):
    page.set_viewport_size({"width": wide, "height": 600})
    page.goto(charts.save(charts.round_trips(np.arange(1, 50.0)), tmp_path / "c.html").as_uri())
    page.wait_for_selector("#chart svg.marks")
    assert 0.8 * wide < page.locator("#chart svg.marks").bounding_box()["width"] <= wide


@pytest.mark.when_changed("labkit/pages/", "labkit/charts/")
def test_without_scripts_the_pictures_are_there(chromium, tmp_path):
    executed, page = tmp_path / "executed.ipynb", tmp_path / "report.html"
    nbf.write(nbf.v4.new_notebook(cells=[nbf.v4.new_code_cell(HOSTILE)]), executed)
    papermill.execute_notebook(
        str(executed), str(executed), kernel_name="python3", progress_bar=False,
        extra_arguments=[LEAN],
    )  # fmt: skip
    report.write(executed, page)
    plain = chromium.new_context(java_script_enabled=False).new_page()
    plain.goto(page.as_uri())
    assert plain.locator(".labkit-chart svg").count() == 1
    plain.context.close()


def test_a_wide_table_has_nothing_off_screen_in_a_narrow_cell(page):
    rows = [{"claim": "lat-ping-01", "verdict": "holds", "what was measured": "so much " * 20,
             "statement": "this is lower than that", "source": "Figure 3"}]  # fmt: skip
    for width, shown in ((1200, "table-cell"), (360, "block")):
        page.set_viewport_size({"width": width, "height": 700})
        page.set_content(f"<body style='margin:0'>{table(rows).html()}</body>")
        display = "getComputedStyle(document.querySelector('td')).display"
        assert page.evaluate(display) == shown
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_wide_table_of_figures_scrolls_below_its_first_column_in_a_narrow_cell(page):
    row = {"condition": "VM-Default", **{f"metric {n}": "1.23 (1.02 to 1.45)" for n in range(5)}}
    page.set_viewport_size({"width": 360, "height": 700})
    page.set_content(f"<body style='margin:0'>{table([row]).html()}</body>")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.evaluate("document.querySelector('.labkit-table').scrollLeft = 200")
    first, second = (page.locator("td").nth(n).bounding_box() for n in (0, 1))
    assert first["x"] == 0 and second["x"] < 0, "the first column stays, the others go below it"


def test_a_claim_in_a_narrow_cell_begins_with_its_verdict_and_says_it_in_whole_lines(page):
    texts = ("x-01", "this is lower than that", "so much " * 20, "not testable here", "why " * 30)
    for width, beside in ((1200, False), (740, True), (360, False)):
        page.set_viewport_size({"width": width, "height": 700})
        shown = Table(VERDICTS, (texts,)).html()
        page.set_content(f"<body style='margin:0'>{shown}</body>")
        verdict, claim, *lines = (
            page.locator(f"td[data-label='{column}']").bounding_box()
            for column in ("verdict", "the claim", "measured here", "why")
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width < 1000:
            assert (verdict["y"] == claim["y"]) == beside
            assert verdict["y"] <= claim["y"] < lines[0]["y"] < lines[1]["y"]
            assert all(line["width"] > width / 2 for line in lines)
