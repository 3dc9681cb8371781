"""A new study: module, notebook, published files and rows that pass the tests as they are."""

from __future__ import annotations

import importlib
import json
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from labkit import studies
from labkit.claims import published
from labkit.claims.printed import FOLDER
from labkit.errors import BadInput
from labkit.machine.places import HOME, PACKAGE
from labkit.machine.units import capital
from labkit.running import who_decides
from labkit.statistics.measurand import Measurand

SKELETON = Path(__file__).with_name("skeleton")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
LONGEST = 30
PLAIN = re.compile(r"[^\"\\\n|$]{3,120}")
"""A title, a question or a document fits on a line, in quotes and in a table."""
FENCE = re.compile(r"^```python ?(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
BEGUN, ENDED = "<!-- studies: written by `labkit studies --markdown` -->\n", "<!-- end of studies"
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class NewStudy:
    """The name and texts of a new study; a text that is left empty gets one of the skeleton."""

    name: str
    title: str = ""
    question: str = ""
    document: str = ""

    def __post_init__(self) -> None:
        _refuse_name(self.name)
        texts = {"title": self.title, "question": self.question, "document": self.document}
        for what, text in texts.items():
            if text and not PLAIN.fullmatch(text):
                hint = "write 3 to 120 characters without quotes, backslashes, bars and dollars"
                raise BadInput(f"the {what} of a study cannot be {text!r}", hint=hint)
        if self.question and not self.question.endswith("?"):
            raise BadInput("the question of a study ends with a question mark")

    @property
    def claimed(self) -> bool:
        """Whether the claims of its document are there already."""
        return self.name in published.names()

    @property
    def words(self) -> dict[str, str]:
        """The words that fill the skeleton's places."""
        spoken = self.name.replace("_", " ")
        document = published.published(self.name).document.split(" (")[0] if self.claimed else ""
        question = self.question or f"What does {spoken} change in a round trip?"
        wanted = published.published(self.name).wanted() if self.claimed else ()
        heads = dict.fromkeys(Measurand.of(name).condition for name in wanted)
        return {
            "name": self.name, "stem": self.name.replace("_", "-"), "question": question,
            "title": self.title or capital(spoken),
            "asked": f"{question[0].lower()}{question[1:]}",
            "document": document or self.document or "A document that is not named yet",
            "names": "\n".join(f"    {json.dumps(name)}," for name in heads),
        }  # fmt: skip

    def files(self) -> dict[Path, str]:
        """Each new file, and what is in it."""
        number = len(list((HOME / "notebooks").glob("[0-9][0-9]-*.ipynb")))
        book = HOME / f"notebooks/{number:02d}-{self.words['stem']}.ipynb"
        module = "study_of_claims.txt" if self.claimed else "study.txt"
        made = {
            PACKAGE / f"studies/{self.name}.py": filled(module, self.words),
            book: f"{json.dumps(_notebook(number, self.words), indent=1, ensure_ascii=False)}\n",
        }
        for name, ending in () if self.claimed else (("claims", "toml"), ("figures", "csv")):
            text = filled(f"{name}.txt", self.words)
            made[FOLDER / f"{self.name}.{ending}"] = text
        return made


def write(study: NewStudy) -> list[Path]:
    """Write all files and rows of a study; where one of the files is there, nothing is written."""
    readme, sources, page = HOME / "README.md", FOLDER / "SOURCES.md", who_decides.PAGE
    if not readme.is_file():
        raise BadInput("a study is added to a checkout of labkit", hint="clone it and try again")
    files, rows = study.files(), {}
    if there := [path for path in files if path.exists()]:
        raise BadInput(f"{there[0]} is there already", hint="choose another name")
    if not study.claimed:
        rows[sources] = _listed(sources.read_text("utf-8"), study.words)
    for path, text in {**files, **rows}.items():
        path.write_text(text, "utf-8")
    importlib.invalidate_caches()
    readme.write_text(_in_the_table(readme.read_text("utf-8")), "utf-8")
    found = [studies.find(name) for name in studies.names()]
    page.write_text(who_decides.page(page.read_text("utf-8"), found), "utf-8")
    return [*files, *rows, readme, page]


def _refuse_name(name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > LONGEST or keyword.iskeyword(name):
        hint = f"small letters, digits and single underscores, at most {LONGEST}: disk_cache"
        raise BadInput(f"a study cannot be called {name!r}", hint=hint)
    if name in studies.names():
        known = ", ".join(studies.names())
        raise BadInput(f"there is a study {name} already", hint=f"known: {known}")


def filled(file: str, words: Mapping[str, str]) -> str:
    """A file of the skeleton with its places filled."""
    return Template((SKELETON / file).read_text("utf-8")).substitute(words)


def cells(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, text and mark of each cell of a notebook that is written as a page."""
    parts = FENCE.split(text)
    for before, mark, code in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        yield "markdown", before.strip(), ""
        yield "code", code.rstrip("\n"), mark
    if rest := parts[-1].strip():
        yield "markdown", rest, ""


def _notebook(number: int, words: Mapping[str, str]) -> dict[str, Any]:
    made = [
        _cell(f"{number:02d}-{n:02d}", *one)
        for n, one in enumerate(cells(filled("notebook.md", words)), 1)
    ]
    return {"cells": made, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}


def _cell(name: str, kind: str, text: str, mark: str) -> dict[str, Any]:
    tagged = {"tags": ["parameters"]} if mark == "parameters" else {}
    ran: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    lines = text.splitlines(keepends=True)
    return {"cell_type": kind, "id": name, "metadata": tagged, "source": lines, **ran}


# A document that is known gets one more study in its row, and any other a row below the last.
def _listed(sources: str, words: Mapping[str, str]) -> str:
    lines = sources.split("\n")
    rows = [n for n, line in enumerate(lines[: lines.index("", _head(lines))]) if line[:2] == "| "]
    own = [n for n in rows if re.match(rf"\| {re.escape(words['document'])} [(|]", lines[n])]
    if own:
        lines[own[0]] = f"{lines[own[0]].removesuffix(' |')}, {words['name']} |"
    else:
        lines.insert(rows[-1] + 1, f"| {words['document']} | not named | {words['name']} |")
    return "\n".join(lines)


def _head(lines: list[str]) -> int:
    return next(n for n, line in enumerate(lines) if line.startswith("| document |"))


def _in_the_table(readme: str) -> str:
    before, _, rest = readme.partition(BEGUN)
    _, end, after = rest.partition(ENDED)
    if not end:
        raise BadInput("README.md has no table of studies", hint="git checkout README.md")
    return f"{before}{BEGUN}{studies.markdown()}\n{end}{after}"
