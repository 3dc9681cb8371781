"""Every notebook keeps the form: the same headings, small cells, prose before code, no outputs."""

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
from pathlib import Path

import book_links
import nbformat
import pytest
from each import each

from labkit import studies

CHECKOUT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
HEADINGS = [
    "The question", "Parameters", "The lab", "One run by hand", "The study", "What we see",
    "What the document says", "What it means", "Try it",
]  # fmt: skip
# A lesson is about labkit itself, and about no study: it has headings and parameters of its own.
LESSONS = {
    "box_tour": [
        "The question", "Parameters", "The lab", "Who is there", "A round trip", "A slow link",
        "A cut link", "The way back", "What it means", "Try it",
    ],
    "what_changed": [
        "The question", "Parameters", "The lab", "The plan", "The journal", "A crash",
        "The way back", "What it means", "Try it",
    ],
}  # fmt: skip
PARAMETERS = {"where", "repeats", "seed", "label", "quick"}

every_notebook = each(NOTEBOOKS, lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def stem(path):
    return path.stem[3:].replace("-", "_")


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


BROUGHT = (ast.Import, ast.ImportFrom)


# Top-level await is the notebook's, not Python's.
def tree(cell):
    return compile(cell.source, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_there_are_notebooks_and_they_are_numbered_in_reading_order():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{n:02d}" for n in range(len(NOTEBOOKS))]
    assert NOTEBOOKS[0].stem == "00-start-here"


def test_every_study_has_a_notebook_of_the_same_stem():
    assert {stem(path) for path in NOTEBOOKS[1:]} - set(LESSONS) == set(studies.names())


def test_each_links_to_its_neighbours_the_contents_and_its_document():
    assert not [book.name for book, _ in book_links.stale()], "labkit studies --write"
    _, *others = (read(path).cells[0].source.split("\n")[2] for path in NOTEBOOKS)
    for before, path, line in zip(NOTEBOOKS, NOTEBOOKS[1:], others, strict=False):
        assert f"]({before.name}) | [Contents]({NOTEBOOKS[0].name})" in line
        assert "document: " in line or stem(path) in LESSONS


@every_notebook
def test_no_cell_of_a_study_is_silent_where_there_is_no_lab(path):
    """Its text says what to expect; a lesson shows what each cell showed elsewhere."""
    for cell in read(path).cells if stem(path) not in LESSONS else ():
        if cell.cell_type == "code":
            parts = [part for part in tree(cell).body if not isinstance(part, BROUGHT)]
            alone = len(parts) == 1 and isinstance(parts[0], ast.If)
            assert not alone or parts[0].orelse, cell.source
        assert "Above the table: what" not in cell.source, "there may be nothing above it"


@every_notebook
def test_the_headings_are_the_fixed_ones_under_one_title(path):
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == LESSONS.get(stem(path), HEADINGS)
    assert len(re.findall(r"^# .+$", text, re.MULTILINE)) == 1


@every_notebook
def test_the_first_code_cell_and_no_other_is_the_parameters_plain_literals_each_explained(path):
    first, *others = code_cells(path)
    assert first.metadata.tags == ["parameters"]
    assert not any(cell.metadata.get("tags") for cell in others)
    for line, part in zip(first.source.splitlines(), tree(first).body, strict=True):
        assert isinstance(part, ast.AnnAssign), line
        assert type(ast.literal_eval(part.value)).__name__ == part.annotation.id, line
        assert re.search(r"  # \w", line) or "where" in line
    asked = {part.target.id for part in tree(first).body}
    if stem(path) in LESSONS:
        assert asked == {"where"}
    else:
        study = studies.find("lat_ping" if path == NOTEBOOKS[0] else stem(path))
        module = importlib.import_module(f"labkit.studies.{study.name}")
        lines = {*inspect.signature(module.over).parameters} if hasattr(module, "over") else set()
        knobs = {field.name for field in dataclasses.fields(study.workload)}
        knobs |= {*study.sizes, "scale"} | lines
        own = PARAMETERS | ({"every"} if study.extra else set())
        assert asked >= own and asked - own <= knobs and asked & knobs


@every_notebook
def test_it_is_valid_has_prose_before_each_small_cell_that_defines_nothing_and_no_output(path):
    notebook, cells = read(path), code_cells(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert notebook.cells[0].cell_type == "markdown"
    for before, cell in itertools.pairwise(notebook.cells):
        assert not before.cell_type == cell.cell_type == "code", cell.source
    assert (8 if stem(path) in LESSONS else 12) <= len(cells) <= 25
    for cell in cells:
        assert cell.source.strip() and not cell.outputs and cell.execution_count is None
        # Each parameter has a line of its own.
        assert len(cell.source.splitlines()) <= (14 if cell.metadata.get("tags") else 12)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ExceptHandler)
        assert not any(isinstance(node, kinds) for node in ast.walk(tree(cell))), cell.source
        assert not re.search(r"^\s*[%!]", cell.source, re.MULTILINE), "no magic, no shell"


@pytest.mark.slow
@every_notebook
def test_imports_come_first_in_their_cell_once_and_where_they_are_needed(path):
    seen = set()
    for cell in code_cells(path):
        body = tree(cell).body
        imports = [part for part in body if isinstance(part, ast.Import | ast.ImportFrom)]
        assert body[: len(imports)] == imports, "imports come first in a cell"
        names = {alias.asname or alias.name for part in imports for alias in part.names}
        assert not names & seen, f"{names & seen} imported twice"
        used = {node.id for node in ast.walk(tree(cell)) if isinstance(node, ast.Name)}
        assert names <= used, f"{names - used} imported before needed"
        seen |= names


@pytest.mark.slow
@every_notebook
def test_every_name_a_cell_reads_was_made_by_a_cell_before(path):
    known = set(dir(__builtins__)) | set(__builtins__ if isinstance(__builtins__, dict) else ())
    for cell in code_cells(path):
        nodes = [n for n in ast.walk(tree(cell)) if isinstance(n, ast.Name)]
        known |= {n.id for n in nodes if isinstance(n.ctx, ast.Store)}
        known |= {
            alias.asname or alias.name
            for part in ast.walk(tree(cell))
            if isinstance(part, ast.Import | ast.ImportFrom)
            for alias in part.names
        }
        assert {n.id for n in nodes if isinstance(n.ctx, ast.Load)} <= known


@every_notebook
def test_a_chart_of_ratios_is_called_after_what_its_study_measures(path):
    """It is called throughput if nothing is said: where times are compared, slow looked fast."""
    calls = [
        part for cell in code_cells(path) for part in ast.walk(tree(cell))
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "ratios"
    ]  # fmt: skip
    unnamed = [call for call in calls if not {"metric", None} & {k.arg for k in call.keywords}]
    assert not unnamed or studies.find(stem(path)).metric == "throughput"
