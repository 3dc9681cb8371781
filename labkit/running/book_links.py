"""Links between notebooks: a line under each title, and the contents at the end of the first."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from labkit import studies
from labkit.claims import published
from labkit.machine import records
from labkit.machine.places import HOME

LINE = re.compile(r"^(# .+)\n(?:\n.*\[Contents\].*\n)?", re.MULTILINE)
"""A title, and the line of links that may be below it."""
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
    return " | ".join([*before, listed, *after, *_document(book)])


def _document(book: Path) -> list[str]:
    study = book.stem[3:].replace("-", "_")
    if study not in studies.built_in():
        return []
    claimed = published.published(study)
    linked = f"[{claimed.document}]({claimed.url})"
    return [f"document: {linked if claimed.url else claimed.document}"]


def contents(order: Sequence[Path]) -> str:
    """A list of all notebooks, each with a link."""
    rows = [f"- [{book.stem[:2]}]({book.name}) {title(book)}" for book in order]
    return "\n".join(["**All notebooks**, in reading order:", "", *rows])


def stale() -> list[tuple[Path, str]]:
    """The notebooks whose links are not those of today, each with the text that it should have."""
    order = books()
    both = [(book, _linked(book, order)) for book in order]
    return [(book, text) for book, text in both if text != book.read_text("utf-8")]


def write() -> list[Path]:
    """Write the links of all notebooks again, and return those that changed."""
    changed = stale()
    for book, text in changed:
        with records.keeping(str(book)):
            book.write_text(text, "utf-8")
    return [book for book, _ in changed]


def _linked(book: Path, order: Sequence[Path]) -> str:
    notebook = _read(book)
    first = notebook.cells[0]
    first.source = LINE.sub(rf"\1\n\n{_escaped(line(book, order))}\n", first.source, count=1)
    for cell in notebook.cells:
        if cell.id == LIST:
            cell.source = contents(order)
    return f"{nbformat.writes(notebook)}\n"  # type: ignore[no-untyped-call]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\")


def _read(book: Path) -> Any:
    return nbformat.read(book, as_version=4)  # type: ignore[no-untyped-call]
