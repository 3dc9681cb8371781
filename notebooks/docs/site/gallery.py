"""Makes the gallery: of each recorded study the first chart of its notebook, and its answer.

As a program it runs the notebooks of new recorded runs, and writes their pictures and the page
again; with `--all` it runs all notebooks, which takes minutes. `stale` says whose recorded run is
not the one that its picture shows.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import executed
import nbformat
import vl_convert
from book_links import title

from labkit import studies
from labkit.charts import V5
from labkit.charts.look import without_sign
from labkit.judging import judged
from labkit.judging.finding import sentence
from labkit.machine.places import HOME, out
from labkit.running.open_lab import stored_results
from labkit.study import Reading

PAGE = HOME / "notebooks/docs/gallery.md"
PICTURES = HOME / "notebooks/pictures/studies"
HEAD = """# Gallery

What each study showed in its recorded run, in a lab in a box. Each picture opens the notebook.
Guests are emulated there: their figures are not those of hardware.
"""
HINT = ".venv/bin/python notebooks/docs/site/gallery.py"
BUNDLE = re.compile(r"<!-- (\w+): (\w+) -->")


def stems() -> dict[str, str]:
    """The notebook of each study that has a recorded run."""
    recorded = {file.stem for file in (HOME / "data/recorded").glob("*.labkit")}
    return {name: stem for stem in executed.NOTEBOOKS
            if (name := executed.study(stem)) in recorded}  # fmt: skip


def key(study: str) -> str:
    """A short text that changes with the recorded run."""
    bundle = HOME / "data/recorded" / f"{study}.labkit"
    return hashlib.sha256(bundle.read_bytes()).hexdigest()[:16]


def stale() -> list[str]:
    """Studies whose picture is missing, or of another recorded run; each with what to do."""
    return [f"{study} has another recorded run than the gallery; hint: {HINT}" for study in anew()]


def anew() -> dict[str, str]:
    """The notebooks whose pictures are to be made again."""
    shown = dict(BUNDLE.findall(PAGE.read_text("utf-8"))) if PAGE.is_file() else {}
    return {study: stem for study, stem in stems().items() if shown.get(study) != key(study)}


def card(study: str, stem: str) -> str:
    """A study of the page: its picture, which opens the notebook, title and answer."""
    results = stored_results(study, "recorded")
    reading = Reading.of(studies.find(study), results)
    answer = sentence(reading, judged(reading))
    book = executed.NOTEBOOKS[stem]
    picture = f"[![{title(book)}](../pictures/studies/{stem}.png)](../{book.name})"
    return f"{picture}<br>**{stem[:2]} {title(book)}.** {answer}".replace("|", r"\|")


def page(cards: Mapping[str, str]) -> str:
    """The page of these cards by study, two in a row; it names the recorded run of each."""
    texts = [*cards.values(), ""]
    rows = [f"| {left} | {right} |" for left, right in zip(texts[::2], texts[1::2], strict=False)]
    runs = [f"<!-- {study}: {key(study)} -->" for study in cards]
    return "\n".join([HEAD, "| | |", "|---|---|", *rows, "", *runs, ""])


def chart(notebook: Path) -> dict[str, Any]:
    """The first chart below *What we see*."""
    cells = nbformat.read(notebook, as_version=4).cells  # type: ignore[no-untyped-call]
    at = next(n for n, cell in enumerate(cells) if "## What we see" in cell.source)
    outputs = (output for cell in cells[at:] for output in cell.get("outputs", ()))
    found: dict[str, Any] = next(o["data"][V5] for o in outputs if V5 in o.get("data", {}))
    return found


def main(words: list[str]) -> int:
    """Make page and pictures again."""
    of = stems() if "--all" in words else anew()
    notebooks = executed.executed([*of.values()], out() / "site.parts" / "executed")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for stem in of.values():
        spec = {"background": "white", **without_sign(chart(notebooks[stem]))}
        picture = vl_convert.vegalite_to_png(spec, vl_version="5.8", scale=0.8)
        (PICTURES / f"{stem}.png").write_bytes(picture)
    PAGE.write_text(page({study: card(study, stem) for study, stem in stems().items()}), "utf-8")
    print(f"wrote {PAGE} and {len(of)} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
