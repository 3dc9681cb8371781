"""The dial panel in a real JupyterLab: turned while it measures on the box, stopped, put back."""

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell

from labkit.lab import opened

pytestmark = [pytest.mark.browser, pytest.mark.box, pytest.mark.slow]
CELL = """\
from labkit import open_lab
from labkit.pages.dial_panel import DialPanel

DialPanel(open_lab({where!r}))"""


def test_a_dial_is_turned_the_picture_follows_and_stop_puts_everything_back(lab_notebook, own_box):
    page = lab_notebook.page
    lab_notebook.show("dials", new_code_cell(CELL.format(where=own_box)))
    lab_notebook.run_all()
    page.click("button:has-text('Start')")
    page.wait_for_selector("text=/[2-9] measurements; now: median/", timeout=120_000)
    page.wait_for_selector(".vega-embed svg.marks")
    page.click("button:has-text('owned')")
    page.wait_for_selector("text=/now: median.*before the last turn: median/", timeout=120_000)
    lab_notebook.shoot("dials", "DialPanel")
    page.click("button:has-text('Stop')")
    page.wait_for_selector("text=everything was put back", timeout=120_000)
    with opened(Path(own_box)) as lab:
        assert lab.host("server").check("guest", "placement").split()[-1] == "other"
    assert page.strayed == []
