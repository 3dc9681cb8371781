"""Parts that all notebooks share: links, a picture of the lab, questions, the contents."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from planned_box import planned

from labkit import studies
from labkit.box import topology
from labkit.box.box import DEFAULT
from labkit.box.machine import Machine
from labkit.claims import published
from labkit.machine import records
from labkit.machine.places import HOME
from labkit.pages.exercise import EXERCISES
from labkit.running.notebook import TITLE

LAB = re.compile(r"^## The lab\n\n(?:!\[.*\n\n)?")
PICTURES = HOME / "notebooks/pictures/topologies"
MACHINE = Machine.of(4)
"""A topology that grows is drawn as on this one."""
WORDS = "[Glossary](docs/glossary.md)"
QUESTIONS = "three-questions"
TAKEN = "**Three questions to take along.**"
ANY = (
    "What was compared with what, and how large was the largest difference?",
    "Which claim could this lab not decide, and what does it lack for it?",
    "Which change of the lab or the load would you measure next, and what do you expect?",
)
"""Questions about a study that has none of its own yet."""
LIST = "00-contents"
"""The cell of the first notebook that lists all of them."""


def books() -> list[Path]:
    """The notebooks that come with labkit, in reading order."""
    return sorted((HOME / "notebooks").glob("[0-9][0-9]-*.ipynb"))


def title(book: Path) -> str:
    """The title of a notebook, up to its colon."""
    source = str(_read(book).cells[0].source)
    return source.split("\n")[0].removeprefix("# ").split(":")[0]


def line(book: Path, order: Sequence[Path]) -> str:
    """The notebook before, the contents, the notebook after, and the document."""
    at = order.index(book)
    before = [f"[← {title(other)}]({other.name})" for other in order[max(at - 1, 0) : at]]
    after = [f"[{title(other)} →]({other.name})" for other in order[at + 1 : at + 2]]
    listed = f"[Contents]({order[0].name if at else '#Try-it'})"
    return " | ".join([*before, listed, *after, WORDS, *_document(book)])


# The study that a notebook is of; empty for a lesson.
def _study(book: Path) -> str:
    study = book.stem[3:].replace("-", "_")
    return study if study in studies.built_in() else ""


def _document(book: Path) -> list[str]:
    if not (study := _study(book)):
        return []
    claimed = published.published(study)
    linked = f"[{claimed.document}]({claimed.url})"
    return [f"document: {linked if claimed.url else claimed.document}"]


def contents(order: Sequence[Path]) -> str:
    """A list of all notebooks, each with a link."""
    rows = [f"- [{book.stem[:2]}]({book.name}) {title(book)}" for book in order]
    return "\n".join(["**All notebooks**, in reading order:", "", *rows])


def stale() -> list[tuple[Path, str]]:
    """The notebooks and pictures that are not those of today, each with its text of today."""
    order = books()
    both = [*((book, _linked(book, order)) for book in order), *_pictures(order)]
    return [(path, text) for path, text in both if not path.exists() or text != _text(path)]


def _pictures(order: Sequence[Path]) -> list[tuple[Path, str]]:
    plans = sorted({_plan(study) for study in filter(None, map(_study, order))})
    drawn = ((name, planned(topology.find(name, MACHINE)).svg) for name in plans)
    return [(PICTURES / f"{name}.svg", f"{svg}\n") for name, svg in drawn]


def _plan(study: str) -> str:
    return studies.find(study).topology or DEFAULT


def _text(path: Path) -> str:
    return path.read_text("utf-8")


def write() -> list[Path]:
    """Write what all notebooks share again, and return the files that changed."""
    changed = stale()
    for book, text in changed:
        with records.keeping(str(book)):
            book.parent.mkdir(exist_ok=True)
            book.write_text(text, "utf-8")
    return [book for book, _ in changed]


def _linked(book: Path, order: Sequence[Path]) -> str:
    notebook = _read(book)
    first = notebook.cells[0]
    first.source = TITLE.sub(rf"\1\n\n{_escaped(line(book, order))}\n", first.source, count=1)
    for cell in notebook.cells:
        if cell.id == LIST:
            cell.source = contents(order)
        if (study := _study(book)) and cell.source.startswith("## The lab\n"):
            name = _plan(study)
            shown = f"![The lab {name}](pictures/topologies/{name}.svg)"
            cell.source = LAB.sub(rf"## The lab\n\n{shown}\n\n", cell.source, count=1)
    if study := _study(book):
        _ask(notebook, questions(study))
    return f"{nbformat.writes(notebook)}\n"  # type: ignore[no-untyped-call]


def questions(study: str) -> tuple[str, ...]:
    """The questions at the end of a study's notebook; its data has a worked answer to each."""
    file = EXERCISES / f"{study}.toml"
    listed = tomllib.loads(_text(file)).get("question") if file.is_file() else None
    return tuple(entry["asks"] for entry in listed) if listed else ANY


# The last cell; there is one of it.
def _ask(notebook: Any, asked: Sequence[str]) -> None:
    if notebook.cells[-1].id != QUESTIONS:
        cell = nbformat.v4.new_markdown_cell(id=QUESTIONS)  # type: ignore[no-untyped-call]
        notebook.cells.append(cell)
    numbered = [f"{number}. {text}" for number, text in enumerate(asked, 1)]
    notebook.cells[-1].source = "\n".join([TAKEN, "", *numbered])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\")


def _read(book: Path) -> Any:
    return nbformat.read(book, as_version=4)  # type: ignore[no-untyped-call]
