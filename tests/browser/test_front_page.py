"""The front page in a real JupyterLab: `labkit lab` opens it, and a keyboard is all it takes."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest
import synthetic

from labkit import find_study, studies
from labkit.changes.journal import hello
from labkit.lab import opened
from labkit.running.open_lab import named_results
from tests.browser.conftest import (
    BOX,
    CONTRAST,
    CUT_OFF,
    DARK,
    KEPT,
    _environment,
    awaited,
    script,
)

PROGRAMS = ("ethtool",)

pytestmark = [pytest.mark.browser, pytest.mark.box, pytest.mark.slow]

# One that changes a host, says so, and is killed before it puts that back.
CRASHES = """
import sys, time
from pathlib import Path
from labkit.changes.in_force import in_force
from labkit.lab import opened
from labkit.settings.offloads import Offloads
with opened(Path(sys.argv[1])) as lab, in_force(lab.hosts, "a study that crashed") as changes:
    changes.move_to([Offloads(gro=None, tso=False, role="server")])
    print("in force", flush=True)
    time.sleep(600)
"""
FRONT = ".labkit-front"
PARTS = f"{FRONT} :is(a, button, input, summary)"
FOCUSED = script("focused")
WORDS = f"{FRONT} :is(p, h2, h3, td, th, a, b, span, code)"
SHOWN = "() => window.jupyterapp.shell.currentWidget.context.path"
CELLS = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder of results: two executions of a study beside the recorded ones."""
    home = tmp_path_factory.mktemp("front")
    for name in ("old", "new"):
        folder = home / "out" / "results" / "lat_ping" / name
        synthetic.write_results(folder, find_study("lat_ping"), 3, 300)
    return home


@pytest.fixture(scope="module")
def unfinished(own_box):
    """A lab whose server has a change that nobody put back, as its process was killed."""
    words = [sys.executable, "-c", CRASHES, own_box]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "in force\n"
        process.send_signal(signal.SIGKILL)
    return own_box


@pytest.fixture(scope="module")
def address(home):
    """Where `labkit lab` says that the page is."""
    words = [sys.executable, "-m", "labkit", "lab", "--no-browser", "--",
             "--ServerApp.port=0", "--ServerApp.ip=127.0.0.1",
             "--LabApp.expose_app_in_browser=True",
             "--LabApp.extension_manager=readonly"]  # fmt: skip
    env = {**_environment(home), "LABKIT_OUT": str(home / "out")}
    with (
        (home / "said").open("wb") as log,
        subprocess.Popen(words, cwd=home, env=env, stdout=log, stderr=log) as process,
    ):
        try:
            address, file = re.compile(r"^the front page: (\S+)", re.MULTILINE), home / "said"
            yield awaited(lambda: address.search(file.read_text()), process, file)[1]
        finally:
            process.send_signal(signal.SIGTERM)


class Keyboard:
    """A reader without a mouse."""

    def __init__(self, page, screenshots):
        self.page, self.screenshots = page, screenshots

    def press(self, key):
        self.page.keyboard.press(key)
        return self.page.evaluate(FOCUSED, PARTS)

    # A list that pops up late takes the first Tab, and the focus stays in its field.
    def walk_to(self, name, most=250, kind=""):
        """Press Tab until the part of this name, and this kind if any, has the focus."""
        for _ in range(most):
            at = self.press("Tab")
            if at["place"] >= 0 and at["named"].startswith(name) and kind in ("", at["kind"]):
                assert at["seen"], f"nobody sees that {name} has the focus"
                return
        pytest.fail(f"no Tab leads to {name}; the last was {at}")

    def enter(self, words):
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")

    def shoot(self, name):
        if KEPT:
            self.page.screenshot(path=self.screenshots / f"front-page-{name}.png")


@pytest.mark.torture
def test_the_front_page_by_keyboard_alone(unfinished, address, page, screenshots, home):
    keyboard = Keyboard(page, screenshots)
    page.goto(address, timeout=120_000)
    page.wait_for_selector(f"{FRONT} .lk-card >> nth={len(studies.names()) - 1}", timeout=120_000)
    page.wait_for_selector("text=/\\d+ claims, by the best evidence/", timeout=60_000)
    keyboard.shoot("1400")
    every_part_is_reached_in_order_named_and_seen(keyboard)
    an_unfinished_change_set_is_put_back(keyboard, unfinished)
    results_are_chosen_and_compared(keyboard)
    a_card_opens_its_notebook(keyboard)
    it_looks_right_in_both_themes_and_widths(keyboard)
    reopened_without_its_kernel_it_shows_what_it_showed(keyboard, address, home)
    assert page.strayed == []


@pytest.mark.torture
def test_a_study_is_stopped_and_run_from_its_card(own_box, address, page, screenshots, home):
    """On hosts, not on recorded results: its runs and its report are new."""
    keyboard, shown = Keyboard(page, screenshots), page.locator(FRONT)
    page.goto(address, timeout=120_000)
    page.wait_for_selector(f"{FRONT} .lk-card >> nth={len(studies.names()) - 1}", timeout=300_000)
    shown.get_by_label("Lab", exact=True).first.fill(own_box)
    page.keyboard.press("Enter")
    page.wait_for_selector(f"text=/runs on {BOX}:/", timeout=120_000)
    card = shown.locator(".lk-card", has_text="Round trips by ping").first
    a_run_is_stopped_and_leaves_nothing(keyboard, card, own_box)
    before = {*(home / "out/results/lat_ping").iterdir()}
    card.get_by_role("button", name="Run").click()
    page.wait_for_selector("text=finished; its answer is on its card.", timeout=400_000)
    (made,) = {*(home / "out/results/lat_ping").iterdir()} - before
    assert len(named_results(str(made)).finished()) >= 6
    assert [*(home / "out/reports").glob(f"lat_ping-{made.name}*.html")]
    keyboard.shoot("run")
    assert page.strayed == []


def a_run_is_stopped_and_leaves_nothing(keyboard, card, lab):
    """Pressed while it measures, the button ends the run, and the hosts are as they were."""
    page = keyboard.page
    card.get_by_role("button", name="Run").click()
    page.wait_for_selector("text=/lat_ping on .* [1-9] of \\d+ runs/", timeout=200_000)
    keyboard.shoot("running")
    card.get_by_role("button", name="Stop").click()
    ended = f"{FRONT} .lk-said:text-matches('^lat_ping on [^:]*: (stopped|finished;|failed)')"
    page.wait_for_selector(ended, timeout=200_000)
    assert page.locator(ended).inner_text().endswith(": stopped.")
    card.get_by_role("button", name="Run").wait_for()
    with opened(Path(lab)) as there:
        assert [hello(host).open for host in there.hosts.values()] == [()] * len(there.hosts)


def every_part_is_reached_in_order_named_and_seen(keyboard):
    keyboard.page.locator(f"{FRONT} button").first.focus()
    seen = [keyboard.page.evaluate(FOCUSED, PARTS)]
    while (at := keyboard.press("Tab"))["place"] > seen[-1]["place"]:
        seen.append(at)
    assert [one["place"] for one in seen] == list(range(seen[0]["of"]))
    assert [one for one in seen[1:] if not one["named"] or not one["seen"]] == []


def an_unfinished_change_set_is_put_back(keyboard, lab):
    page = keyboard.page
    keyboard.page.locator(f"{FRONT} button").first.focus()
    keyboard.walk_to("Lab")
    keyboard.enter(lab)
    page.wait_for_selector("text=a study that crashed", timeout=60_000)
    keyboard.walk_to("Refresh lab")
    keyboard.walk_to("Restore server")
    keyboard.shoot("unfinished")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=server: put back", timeout=60_000)
    said = page.locator(f"{FRONT} .lk-said", has_text="server: put back").inner_text()
    assert "tso is 'tso=on' again" in said, said
    with opened(Path(lab)) as there:
        assert hello(there.host("server")).open == ()
        shown = there.host("server").check("ethtool", "-k", there.host("server").interface)
    assert "tcp-segmentation-offload: on" in shown
    assert page.locator("button:has-text('Restore')").count() == 0


def results_are_chosen_and_compared(keyboard):
    page = keyboard.page
    page.locator(f"{FRONT} button").first.focus()
    keyboard.walk_to("Filter")
    keyboard.enter("lat-ping")
    page.wait_for_selector("text=/3 of \\d+ results/")
    names = (
        page.locator(f"{FRONT} datalist")
        .last.locator("option")
        .evaluate_all("all => all.map(one => one.value)")
    )
    assert len(names) == 3 and all(name.startswith("lat_ping") for name in names)
    keyboard.walk_to("Results")
    keyboard.enter(names[0])
    keyboard.walk_to("Compare to")
    keyboard.enter(names[2])
    keyboard.walk_to("Compare", kind="BUTTON")
    page.keyboard.press(" ")
    page.wait_for_selector("text=Compared; the table is below.", timeout=60_000)
    keyboard.shoot("compared")
    keyboard.walk_to("How these were judged")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{FRONT} details[open]")


def a_card_opens_its_notebook(keyboard):
    page = keyboard.page
    assert page.evaluate(CELLS) == 2, "a key has changed the notebook"
    page.locator(f"{FRONT} button").first.focus()
    keyboard.walk_to("Open the notebook: Round trips by ping")
    page.keyboard.press("Enter")
    page.wait_for_function(f"({SHOWN})() === 'notebooks/01-lat-ping.ipynb'")
    page.evaluate("() => { jupyterapp.commands.execute('application:activate-previous-tab') }")
    page.wait_for_function(f"({SHOWN})() === 'front-page.ipynb'")


def it_looks_right_in_both_themes_and_widths(keyboard):
    page = keyboard.page
    for theme, width in (("light", 800), ("dark", 800), ("dark", 1400)):
        if theme == "dark":
            page.evaluate(DARK)
            page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
        page.set_viewport_size({"width": width, "height": 1300})
        page.locator(FRONT).evaluate("front => front.scrollIntoView()")
        page.wait_for_timeout(300)
        keyboard.shoot(f"{theme}-{width}")
        least, words = page.evaluate(CONTRAST, WORDS)
        assert least >= 4.5, words
        front = page.locator(FRONT)
        assert front.evaluate("one => one.scrollWidth <= one.clientWidth + 1"), "it is cut off"
        assert page.locator(f"{FRONT} .lk-list td").evaluate_all(CUT_OFF) == []


def reopened_without_its_kernel_it_shows_what_it_showed(keyboard, address, home):
    page = keyboard.page
    # Waited for within the page: its requests pass through this process, which must not sleep.
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    file = home / "out" / "front-page.ipynb"
    assert "server: put back" in file.read_text(), "what was put back is not in the saved page"
    base, _, token = address.partition("/lab/")
    token = token.partition("?")[2]
    for one in json.load(urllib.request.urlopen(f"{base}/api/sessions?{token}")):
        ask = urllib.request.Request(f"{base}/api/sessions/{one['id']}?{token}", method="DELETE")
        urllib.request.urlopen(ask).close()
    page.goto(f"{base}/lab/workspaces/again/tree/front-page.ipynb?{token}")
    page.wait_for_selector("text=server: put back", timeout=60_000)
    page.wait_for_selector("text=Compared; the table is below.")
    assert page.locator(f"{FRONT} .lk-card").count() == len(studies.names())
    cell = nbformat.read(file, as_version=4).cells[1]
    assert "Round trips by ping" in cell.outputs[0].data["text/html"]
