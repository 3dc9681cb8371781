"""A new study: module, notebook, published files and rows that pass the tests as they are.

A notebook begins as `skeleton/notebook.md`, filled from the study.
"""

import importlib
import json
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from labkit import __version__, studies
from labkit.claims import printed, published
from labkit.claims.published import Published
from labkit.errors import BadInput
from labkit.machine import records, workspace
from labkit.machine.places import HOME, out
from labkit.machine.units import capital
from labkit.study import Study
from labkit.workload import Workload
from labkit.workloads.command import SECONDS, TIME, Command
from labkit.workloads.ping import Ping

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
LONGEST = 30
PLAIN = re.compile(r"[^\"\\\n|$]{3,120}")
"""A title, a question or a document fits on a line, in quotes and in a table."""
SITE = HOME / "notebooks/docs/site"
SKELETON = Path(__file__).with_name("skeleton")
FENCE = re.compile(r"^```python ?(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KNOB_KINDS = (bool, int, float, str)
"""Kinds of knob that papermill can set."""
OWN_NAMES = {"where", "repeats", "seed", "label", "quick"}


@dataclass(frozen=True)
class NewStudy:
    """The name and texts of a new study; a text that is left empty gets one of the skeleton."""

    name: str
    title: str = ""
    question: str = ""
    document: str = ""
    folder: Path | None = None
    """The workspace that it is written into; None for this checkout."""

    def __post_init__(self) -> None:
        name = self.name
        if not NAME.fullmatch(name) or len(name) > LONGEST or keyword.iskeyword(name):
            hint = f"small letters, digits and single underscores, at most {LONGEST}: disk_cache"
            raise BadInput(f"a study cannot be called {name!r}", hint=hint)
        if name in studies.names():
            hint = f"known: {', '.join(studies.names())}"
            raise BadInput(f"there is a study {name} already", hint=hint)
        texts = {"title": self.title, "question": self.question, "document": self.document}
        for title, text in texts.items():
            if text and not PLAIN.fullmatch(text):
                hint = "write 3 to 120 characters without quotes, backslashes, bars and dollars"
                raise BadInput(f"the {title} of a study cannot be {text!r}", hint=hint)
        if self.question and not self.question.endswith("?"):
            raise BadInput("the question of a study ends with a question mark")

    @property
    def claimed(self) -> bool:
        """Whether the claims of its document are there already."""
        return self.name in published.names()

    @property
    def words(self) -> dict[str, str]:
        """The words that fill the skeleton's places."""
        title = self.name.replace("_", " ")
        paper = published.published(self.name) if self.claimed else None
        document = paper.document.split(" (")[0] if paper else ""
        change = f"What does {title} change in a round trip?"
        question = self.question or (f"Do the claims of {title} hold here?" if paper else change)
        load, words = _commands(paper) if paper else (Ping(), {})
        return {
            "name": self.name, "stem": self.name.replace("_", "-"), "question": question,
            "title": self.title or capital(title),
            "asked": f"{question[0].lower()}{question[1:]}",
            "document": document or self.document or "A document that is not named yet",
            **words, **words_of(load, self.module),
        }  # fmt: skip

    @property
    def module(self) -> str:
        """The file that declares the study, as its notebook names it."""
        return f"{'studies' if self.folder else 'labkit/studies'}/{self.name}.py"

    def files(self) -> dict[Path, str]:
        """Each new file, and what is in it."""
        stem = self.words["stem"]
        number = len(list((HOME / "notebooks").glob("[0-9][0-9]-*.ipynb")))
        book = HOME / f"notebooks/{number:02d}-{stem}.ipynb"
        if self.folder:
            number, book = 0, self.folder / f"notebooks/{stem}.ipynb"
        module = "study_of_claims.txt" if self.claimed else "study.txt"
        contents = {
            (self.folder or HOME) / self.module: filled(module, self.words),
            book: notebook_text(number, self.words),
        }
        published_in = self.folder / printed.KIND if self.folder else printed.FOLDER
        for name, ending in () if self.claimed else (("claims", "toml"), ("figures", "csv")):
            contents[published_in / f"{self.name}.{ending}"] = filled(f"{name}.txt", self.words)
        return contents


# A line of shell for each condition that the claims name, for their first metric.
def _commands(paper: Published) -> tuple[Command, dict[str, str]]:
    metrics_of = paper.wanted()
    name = next((metric for metrics in metrics_of.values() for metric in metrics), "")
    metric, unit = name.replace("_", " ") or "figure", paper.units.get(name, "1")
    line, load, meaning = f"echo '{metric}: 1'", Command(), f"that prints `{metric}: NUMBER`"
    if metric == TIME:
        line, unit, meaning = "true", SECONDS, "whose time is taken"
    else:
        load = Command(pattern=rf"^{metric}: ([\d.]+)", metric=metric, unit=unit)
    fields = [f"{f}={json.dumps(getattr(load, f))}" for f in ("pattern", "metric", "unit")]
    return load, {
        "names": "\n".join(f"    {json.dumps(name)}: DRAFT," for name in metrics_of),
        "load": ", ".join(fields) if load.pattern else "", "shown": meaning,
        "line": json.dumps(line),
        "metric": json.dumps(metric), "unit": json.dumps(unit),
    }  # fmt: skip


def write(study: NewStudy) -> list[Path]:
    """Write all files and rows of a study; where one of the files is there, nothing is written."""
    files, rows = study.files(), not (study.folder or study.claimed)
    if present := [path for path in files if path.exists()]:
        raise BadInput(f"{present[0]} is there already", hint="choose another name")
    if study.folder:
        mark = study.folder / workspace.MARK
        files |= {} if mark.exists() else {mark: f'needs = ">={__version__}"\n'}
    elif not (HOME / "README.md").is_file():
        hint = "name a folder of your own: labkit new study NAME --in DIR"
        raise BadInput("an installed labkit takes no new study", hint=hint)
    for path, content in files.items():
        with records.keeping(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
    importlib.invalidate_caches()
    sources = printed.FOLDER / "SOURCES.md"
    if rows:
        sources.write_text(_list_sources(sources.read_text("utf-8"), study.words), "utf-8")
    return [*files, *([sources] if rows else []), *([] if study.folder else write_tables())]


def write_tables() -> list[Path]:
    """Write the tables of studies and claims in README and docs again, and links of notebooks."""
    if not (HOME / "README.md").is_file():
        raise BadInput("an installed labkit has no tables to write", hint="clone it and try again")
    files: list[Path] = docs_tool("checkout_tables").write()
    return files


def docs_tool(name: str) -> Any:
    """A tool of the docs, which come with a checkout alone."""
    if not (SITE / f"{name}.py").is_file():
        raise BadInput("an installed labkit has no docs", hint="clone it and try again")
    if str(SITE) not in sys.path:
        sys.path.append(str(SITE))
    return importlib.import_module(name)


# A document that is known gets one more study in its row, and any other a row below the last.
def _list_sources(sources: str, words: Mapping[str, str]) -> str:
    lines = sources.split("\n")
    head = next(n for n, line in enumerate(lines) if line.startswith("| document |"))
    end = lines.index("", head)
    begin = re.compile(rf"\| {re.escape(words['document'])} [(|]")
    for n in range(head, end):
        if begin.match(lines[n]):
            lines[n] = f"{lines[n].removesuffix(' |')}, {words['name']} |"
            break
    else:
        lines.insert(end, f"| {words['document']} | not named | {words['name']} |")
    return "\n".join(lines)


def words_of(workload: Workload, module: str) -> dict[str, str]:
    """Words for the skeleton, from a workload and the file of its study."""
    knobs_of = {name: value for name, value in vars(workload).items()
                if type(value) in KNOB_KINDS and name not in OWN_NAMES}  # fmt: skip
    remark = f"  # a knob of {type(workload).__name__}"
    literals = {name: json.dumps(value) if isinstance(value, str) else repr(value)
                for name, value in knobs_of.items()}  # fmt: skip
    lines = [f"{name}: {type(value).__name__} = {literals[name]}{remark}"
             for name, value in knobs_of.items()]  # fmt: skip
    arguments = ", ".join(f"{name}={name}" for name in knobs_of)
    return {
        "module": module, "parameters": "".join(f"{line}\n" for line in lines),
        "knobs": textwrap.fill(arguments, 90, initial_indent="    ", subsequent_indent="    "),
    }  # fmt: skip


def draft(study: Study) -> Path:
    """Write the notebook of a study that has none of its own, among the results."""
    stem = study.name.replace("_", "-")
    words = {
        "name": study.name, "stem": stem, "title": study.title, "document": study.source,
        "asked": f"{study.question[0].lower()}{study.question[1:]}",
        **words_of(study.workload, str(studies.file_of(study.name))),
    }  # fmt: skip
    file = out() / "drafts" / f"{stem}.ipynb"
    with records.keeping(f"the notebook of {study.name} in {out()}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(notebook_text(0, words), "utf-8")
    return file


def notebook_text(number: int, words: Mapping[str, str]) -> str:
    """The file of a notebook, made of these words."""
    cells_made = []
    for n, (kind, content, mark) in enumerate(cells(filled("notebook.md", words)), 1):
        tags = {"tags": ["parameters"]} if mark == "parameters" else {}
        ran: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
        lines = content.splitlines(keepends=True)
        cells_made.append({"cell_type": kind, "id": f"{number:02d}-{n:02d}", "metadata": tags,
                           "source": lines, **ran})  # fmt: skip
    notebook = {"cells": cells_made, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return f"{json.dumps(notebook, indent=1, ensure_ascii=False)}\n"


def filled(file: str, words: Mapping[str, str]) -> str:
    """A file of the skeleton with its places filled."""
    return Template((SKELETON / file).read_text("utf-8")).substitute(words)


def cells(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, text and mark of each cell of a notebook that is written as a page."""
    parts = FENCE.split(text)
    for before, mark, code in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        yield "markdown", before.strip(), ""
        yield "code", code.rstrip("\n"), mark
    if tail := parts[-1].strip():
        yield "markdown", tail, ""
