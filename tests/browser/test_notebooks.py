"""The notebooks in a real JupyterLab, in a real browser, with no way out to the internet."""

import ast
import re
from itertools import chain
from pathlib import Path

import nbformat
import pytest

from labkit.changes.journal import hello
from labkit.errors import ResultsError
from labkit.lab import opened
from labkit.running.open_lab import recorded
from tests.browser.conftest import CONTRAST, CUT_OFF, DARK, SHOWN, script

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DRAWN = f"{SHOWN} .vega-embed svg.marks"
LADDER = f"{SHOWN} .jp-Cell:has(select)"
READ = f"{DRAWN} text, {SHOWN} .jp-Cell-outputArea :is(p, td, th, summary, label, button)"
NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("[0-9]*.ipynb"))
OPENED = ("00-start-here", "01-lat-ping")
"""Each of these is opened by a test of its own."""
MOST = 3600
"""Words of a notebook that has run: 18 minutes at 200 a minute. Numbers of tables are looked up."""
WORDS = script("words")
SMALLEST = 360
"""So many pixels wide is a cell beside the list of files in a window of 800."""
FITTING = script("fitting")
LETTERS = script("letters")
DRAWERS = ("LadderPanel", "orders")
"""What draws a chart and is no chart itself."""


def pictures(path: Path) -> list[str]:
    """The charts that the cells of a notebook end with, by the name of what draws them."""
    names, shown = set[str](), []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        *_, last = body = compile(cell.source, path.name, "exec", flags).body
        brought = [part for part in body if isinstance(part, ast.ImportFrom)]
        names |= {
            alias.name for part in brought for alias in part.names
            if str(part.module).startswith("labkit.charts") or alias.name in DRAWERS
        }  # fmt: skip
        shows = getattr(last, "value", None)
        if isinstance(shows, ast.IfExp):
            shows = shows.body
        drawing = isinstance(last, ast.Expr) and getattr(shows, "func", None)
        if isinstance(drawing, ast.Name) and drawing.id in names:
            shown.append(drawing.id)
    return shown


CHARTS = {path.stem: pictures(path) for path in NOTEBOOKS}


def is_recorded(stem: str) -> bool:
    """Whether a run of that study comes with labkit; one that is new may have none yet."""
    try:
        return bool(recorded(stem[3:].replace("-", "_")))
    except ResultsError:
        return False


RECORDED = {stem: {*kinds} for stem, kinds in CHARTS.items() if kinds and is_recorded(stem)}


def one_of_each_kind() -> list[str]:
    """Few notebooks that show all kinds of pictures: first the one with the most new kinds."""
    lacking, chosen = {*chain(*RECORDED.values())} - {*chain(*map(CHARTS.get, OPENED))}, []
    while lacking:
        chosen.append(max(RECORDED, key=lambda stem: len(lacking & RECORDED[stem])))
        lacking -= RECORDED[chosen[-1]]
    return chosen


OF_EACH_KIND = one_of_each_kind()
OTHERS = [stem for stem in RECORDED if stem not in (*OPENED, *OF_EACH_KIND)]


def drawn(notebook) -> int:
    notebook.page.wait_for_selector(DRAWN)
    return notebook.page.locator(DRAWN).count()


def marks(notebook) -> str:
    """What the ladder's picture looks like now."""
    return notebook.page.locator(f"{LADDER} svg.marks").first.evaluate("drawn => drawn.outerHTML")


def redrawn(notebook, before: str) -> str:
    """The ladder's picture, once it is another one."""
    for _ in range(100):
        notebook.page.wait_for_timeout(100)
        there = notebook.page.locator(f"{LADDER} svg.marks").count()
        if there and (now := marks(notebook)) != before:
            return now
    pytest.fail("the chart did not change")


def all_drawn(notebook, stem: str, charts: int) -> None:
    """Wait until so many charts are there, and keep pictures of the page."""
    notebook.page.wait_for_function(
        f"document.querySelectorAll({DRAWN!r}).length >= {charts}", timeout=120_000
    )
    assert drawn(notebook) == charts
    assert 500 < notebook.page.evaluate(WORDS) <= MOST, f"{stem}: too long to read in 18 minutes"
    notebook.shoot(f"{stem}-top", "Parameters")
    notebook.shoot(f"{stem}-run", "One run by hand")
    notebook.shoot(f"{stem}-study", "StudyPanel(study")
    notebook.shoot(f"{stem}-see", "What we see")
    notebook.shoot(f"{stem}-verdicts", "What the document says")
    notebook.shoot(f"{stem}-means", "What it means")
    assert notebook.page.strayed == []


def test_every_cell_runs_every_chart_is_drawn_and_nothing_leaves_this_machine(lab_notebook):
    lab_notebook.open("00-start-here", where="recorded")
    lab_notebook.run_all()
    all_drawn(lab_notebook, "00-start-here", len(CHARTS["00-start-here"]))
    lab_notebook.open_beside("01-lat-ping", where="recorded")
    lab_notebook.run_all()
    all_drawn(lab_notebook, "01-lat-ping", len(CHARTS["01-lat-ping"]))
    choices_change_the_ladder(lab_notebook)


def choices_change_the_ladder(lab_notebook) -> None:
    """Choose other percentiles, another scale and fewer conditions; each changes the picture."""
    lab_notebook.page.wait_for_selector(f"{LADDER} svg.marks")
    whole = marks(lab_notebook)
    percentiles, scale = lab_notebook.page.locator(f"{LADDER} select").all()
    percentiles.select_option("up to 99 %")
    fewer = redrawn(lab_notebook, whole)
    scale.select_option("linear")
    straight = redrawn(lab_notebook, fewer)
    lab_notebook.page.locator(f"{LADDER} input[type=checkbox]").first.click()
    redrawn(lab_notebook, straight)
    lab_notebook.shoot("01-lat-ping-ladder-linear", "What we see")
    assert lab_notebook.page.strayed == []


@pytest.mark.parametrize("stems", [
    pytest.param(OF_EACH_KIND, id="one of each kind of picture"),
    pytest.param(OTHERS, id="the others", marks=pytest.mark.torture),
])  # fmt: skip
def test_studies_run_on_recorded_data_and_in_the_dark_theme_their_charts_are_dark(
    lab_notebook, stems
):
    first, *others = stems
    lab_notebook.open(first, where="recorded")
    lab_notebook.page.evaluate(DARK)
    lab_notebook.page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    for stem in (first, *others):
        if stem in others:
            lab_notebook.open_beside(stem, where="recorded")
        lab_notebook.run_all()
        all_drawn(lab_notebook, stem, len(CHARTS[stem]))
        picture = lab_notebook.page.locator(DRAWN).first
        behind = picture.evaluate("drawn => getComputedStyle(drawn).backgroundColor")
        least, words = lab_notebook.page.evaluate(CONTRAST, READ)
        assert least >= 4.5, words
        assert behind == "rgba(0, 0, 0, 0)" or max(map(int, re.findall(r"\d+", behind))) < 100
    charts_fit_into_a_narrow_window(lab_notebook)


def charts_fit_into_a_narrow_window(lab_notebook) -> None:
    """Pictures get smaller with the window, and choices go below each other: nothing is cut off,
    and what is written stays 9 pixels high."""
    page = lab_notebook.page
    for width in (1280, 1024, 800):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(FITTING, arg=DRAWN)
        lab_notebook.shoot(f"narrow-{width}", "What we see")
    sizes = page.locator(DRAWN).evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().width)"
    )
    assert sizes and max(sizes) <= SMALLEST
    assert page.locator(DRAWN).evaluate_all(LETTERS) >= 9
    assert page.locator(f"{SHOWN} .widget-box").evaluate_all(CUT_OFF) == []


@pytest.mark.box
def test_a_study_that_is_stopped_in_the_middle_leaves_its_hosts_as_they_were(lab_notebook, own_box):
    page = lab_notebook.page
    with opened(Path(own_box)) as lab:
        before = state(lab)
        lab_notebook.open("01-lat-ping", where=own_box, label="stopped", count=1000)
        lab_notebook.run_until("/[1-9] of 20 runs/")
        # The table below the bars counts with them.
        page.wait_for_selector("text=/lat_ping: [1-9] of 20 runs are there/", timeout=20_000)
        lab_notebook.shoot("01-lat-ping-running", "StudyPanel(study")
        # The panel of dials above it has such a button too.
        page.click(".jp-Cell:has-text('StudyPanel(study') button:has-text('Stop')")
        page.wait_for_selector("text=Stopped; everything was put back", timeout=60_000)
        lab_notebook.shoot("01-lat-ping-stopped", "StudyPanel(study")
        page.set_viewport_size({"width": 800, "height": 900})
        lab_notebook.shoot("01-lat-ping-narrow", "LabPanel(lab")
        assert page.locator(f"{SHOWN} .widget-box").evaluate_all(CUT_OFF) == []
        assert state(lab) == before
        assert [hello(host).open for host in lab.hosts.values()] == [()] * 3


def state(lab) -> list[str]:
    """All that the study changes, as the server says it."""
    asked = [("state",), ("get", "nic", "batch", "lro"), ("placement",)]
    return [lab.host("server").check("guest", *words) for words in asked]


@pytest.mark.torture
@pytest.mark.box
def test_on_the_box_a_study_is_stopped_and_goes_on_where_it_stopped(lab_notebook, own_box):
    page = lab_notebook.page
    lab_notebook.open("00-start-here", where=own_box, label="browser")
    page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells') }")
    page.wait_for_selector("text=/[1-9] of 12 runs/", timeout=120_000)
    lab_notebook.shoot("00-start-here-running", "Now the study measures")
    page.click("button:has-text('Stop')")
    page.wait_for_selector("text=Stopped; everything was put back", timeout=60_000)
    lab_notebook.shoot("00-start-here-stopped", "Now the study measures")
    page.click("button:has-text('Start')")
    page.wait_for_selector("text=Finished in", timeout=180_000)
    lab_notebook.run_all()
    lab_notebook.shoot("00-start-here-box-see", "What we see")
    lab_notebook.shoot("00-start-here-box-lab", "Who is in the lab?")
    assert page.strayed == []


@pytest.mark.box
def test_the_tour_draws_the_box_cuts_it_and_mends_it(lab_notebook, own_box):
    page = lab_notebook.page
    lab_notebook.open("03-box-tour", where=own_box)
    lab_notebook.run_all()
    page.wait_for_selector(".jp-RenderedSVG img")
    outputs = "\n".join(page.locator(".jp-OutputArea-output").all_text_contents())
    losses = re.findall(r"(\d+)% packet loss", outputs)
    assert losses == ["0", "0", "0", "100", "0"]
    _, slow, again, *_ = (int(ms) for ms in re.findall(r"loss, time (\d+)ms", outputs))
    assert slow > 700 and again < slow
    lab_notebook.shoot("03-box-tour-lab", "The lab")
    lab_notebook.shoot("03-box-tour-slow", "A slow link")
    assert page.strayed == []


def test_the_tour_can_be_read_where_there_is_no_box(lab_notebook):
    lab_notebook.open("03-box-tour", where="recorded")
    lab_notebook.run_all()
