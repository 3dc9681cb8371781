"""The notebook that a study begins with: `skeleton/notebook.md`, filled from the study."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from labkit.machine import records
from labkit.machine.places import out
from labkit.study import Study
from labkit.workload import Workload

SKELETON = Path(__file__).with_name("skeleton")
FENCE = re.compile(r"^```python ?(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PLAIN = (bool, int, float, str)
"""Kinds of knob that papermill can set."""
OWN_NAMES = {"where", "repeats", "seed", "label", "quick"}


def knobs(workload: Workload) -> dict[str, Any]:
    """The knobs of a workload that can be parameters of a notebook."""
    return {name: value for name, value in vars(workload).items()
            if type(value) in PLAIN and name not in OWN_NAMES}  # fmt: skip


def words_of(workload: Workload, module: str) -> dict[str, str]:
    """Words for the skeleton, from a workload and the file of its study."""
    knobs_of = knobs(workload)
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


def write(study: Study, module: str) -> Path:
    """Write the notebook of a study that has none of its own, among the results."""
    stem = study.name.replace("_", "-")
    words = {
        "name": study.name, "stem": stem, "title": study.title, "document": study.source,
        "asked": f"{study.question[0].lower()}{study.question[1:]}",
        **words_of(study.workload, module),
    }  # fmt: skip
    file = out() / "drafts" / f"{stem}.ipynb"
    with records.keeping(f"the notebook of {study.name} in {out()}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(0, words), "utf-8")
    return file


def text(number: int, words: Mapping[str, str]) -> str:
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
