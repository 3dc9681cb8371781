"""The dial panel in a real JupyterLab: turned while it measures on the box, stopped, put back."""

import secrets
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from labkit.lab import opened
from tests.browser.conftest import READY, READY_MS

pytestmark = [pytest.mark.browser, pytest.mark.box, pytest.mark.slow]
CELL = """\
from labkit import open_lab
from labkit.pages.dial_panel import DialPanel

DialPanel(open_lab({where!r}))"""


def show(notebook, where):
    """Open a notebook that has nothing but the panel."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    whole = new_notebook(cells=[new_code_cell(CELL.format(where=where))], metadata=kernel)
    nbformat.write(whole, notebook.server.folder / "dials.ipynb")
    notebook.page.goto(
        notebook.server.url(f"lab/workspaces/{secrets.token_hex(4)}/tree/dials.ipynb")
    )
    notebook.page.wait_for_function(READY, timeout=READY_MS)
    notebook.run_all()


def test_a_dial_is_turned_the_picture_follows_and_stop_puts_everything_back(lab_notebook, own_box):
    page = lab_notebook.page
    show(lab_notebook, own_box)
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
