"""Lessons show a reader without a lab what their cells showed on one."""

import json
from types import SimpleNamespace

import nbformat
import papermill
import pytest

from labkit.errors import BadInput
from labkit.machine.places import HOME
from labkit.pages import transcript
from labkit.pages.transcript import Transcript
from labkit.running.notebook import LEAN

LESSONS = ("02-what-changed", "03-box-tour")


def notebook_of(lesson):
    return HOME / "notebooks" / f"{lesson}.ipynb"


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_what_was_recorded_belongs_to_cells_as_they_are_today(lesson):
    cells = {cell.source.strip() for cell in code(nbformat.read(notebook_of(lesson), as_version=4))}
    assert set(Transcript.read(lesson).outputs) <= cells, "record the lesson again: CONTRIBUTING.md"


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_without_a_lab_each_cell_shows_what_it_showed_on_one(lesson, tmp_path):
    papermill.execute_notebook(
        notebook_of(lesson), tmp_path / "ran.ipynb", {"where": "recorded"}, progress_bar=False,
        extra_arguments=[LEAN],
    )  # fmt: skip
    told = Transcript.read(lesson)
    first = False
    for cell in code(nbformat.read(tmp_path / "ran.ipynb", as_version=4)):
        shown = json.dumps(cell.outputs)
        kept = told.outputs.get(cell.source.strip(), [])
        if first and kept:
            assert f"On {told.recorded}, in a lab in a box, this cell showed" in shown
            text = "".join(one.get("text", "") for one in kept).strip()
            assert json.dumps(text)[1:-1] in shown
        first = first or "replay(" in cell.source
    assert first


def test_a_lesson_without_a_transcript_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(transcript, "FOLDER", tmp_path)
    with pytest.raises(BadInput, match="no transcript of 00-no-lesson"):
        Transcript.read("00-no-lesson")


def test_a_lesson_that_is_run_again_with_a_lab_shows_its_own_outputs(capsys):
    told = Transcript("2026-01-01", {"1": [{"text": "then\n"}]})
    cell = SimpleNamespace(error_in_exec=None, info=SimpleNamespace(raw_cell="1"))
    for names in ({}, {"lab": None}, {"lab": "a lab"}):
        transcript.replayed(told, names)(cell)
    assert capsys.readouterr().out.count("then") == 2
