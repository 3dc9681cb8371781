"""A lesson is run on a lab, and what its cells showed is kept for readers without one.

python notebooks/docs/site/record_lesson.py 03-box-tour box
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import papermill

from labkit.machine.places import HOME
from labkit.pages.transcript import FOLDER

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def record(lesson: str, where: str) -> Path:
    """Run a lesson on a lab and keep what its cells showed."""
    with tempfile.TemporaryDirectory() as folder:
        ran = Path(folder, "ran.ipynb")
        source = HOME / "notebooks" / f"{lesson}.ipynb"
        papermill.execute_notebook(source, ran, {"where": where}, progress_bar=False)
        cells = nbformat.read(ran, as_version=4).cells  # type: ignore[no-untyped-call]
    outputs = {
        cell.source.strip(): [_kept(one) for one in cell.outputs]
        for cell in cells
        if cell.cell_type == "code" and cell.outputs
    }
    file = FOLDER / f"{lesson}.json"
    told = {"recorded": f"{datetime.now(UTC):%Y-%m-%d}", "outputs": outputs}
    file.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return file


def _kept(output: Any) -> dict[str, Any]:
    if output.output_type == "stream":
        return {"text": COLOURS.sub("", output.text)}
    return {"data": dict(output.data)}


if __name__ == "__main__":
    print(record(*sys.argv[1:]))
