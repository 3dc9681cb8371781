"""A notebook that was saved and is opened again, or converted, shows what its panels showed."""

import nbformat.v4 as nbf
import pytest
from nbclient import NotebookClient
from nbconvert.exporters import HTMLExporter

from labkit import charts
from labkit.pages import tables
from labkit.running.notebook import LEAN

pytestmark = pytest.mark.slow

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


def test_each_panel_leaves_its_picture_and_its_numbers(monkeypatch):
    monkeypatch.delenv("LABKIT_BATCH", raising=False)
    notebook = nbf.new_notebook(cells=[nbf.new_code_cell(c.strip()) for c in CELLS.split("---")])
    client = NotebookClient(notebook, kernel_name="python3", timeout=300, extra_arguments=[LEAN])
    client.execute()
    _, study, ladder, _ = ([o["data"] for o in cell.outputs] for cell in notebook.cells)
    assert any("runs are there (recorded" in data["text/plain"] for data in study)
    assert any(tables.MIME in data for data in study)
    pictures = [data for data in ladder if charts.V5 in data]
    assert len(pictures) == 1 and pictures[0]["image/svg+xml"].lstrip().startswith("<svg")
    # The last cell has drawn it anew, in the place where it was.
    assert "median" in pictures[0]["text/plain"] and "99 %" not in pictures[0]["text/plain"]
    page, _ = HTMLExporter(template_name="lab").from_notebook_node(notebook)
    assert "runs are there (recorded" in page and 'src="data:image/svg+xml;base64,' in page
