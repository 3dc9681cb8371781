"""A new study: module, notebook, published files and rows that pass the tests as they are."""

import importlib
import json
import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import __version__, studies
from labkit.claims import printed, published
from labkit.claims.published import Published
from labkit.errors import BadInput
from labkit.machine import records, workspace
from labkit.machine.places import HOME
from labkit.machine.units import capital
from labkit.running import draft_notebook
from labkit.running.draft_notebook import filled
from labkit.workloads.command import SECONDS, TIME, Command
from labkit.workloads.ping import Ping

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
LONGEST = 30
PLAIN = re.compile(r"[^\"\\\n|$]{3,120}")
"""A title, a question or a document fits on a line, in quotes and in a table."""
SITE = HOME / "notebooks/docs/site"


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
            **words, **draft_notebook.words_of(load, self.module),
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
            book: draft_notebook.text(number, self.words),
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
