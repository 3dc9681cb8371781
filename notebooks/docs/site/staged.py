"""Lays out what the site is made of, each file at its place in the repository, so links hold."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import executed
import nbformat
import pictures
import reference

from labkit.charts import V5, bundle
from labkit.charts.export import vega
from labkit.machine.places import HOME, out
from labkit.pages import tables
from labkit.pages.filled import filled
from labkit.pages.launch import link
from labkit.pages.report import INERT, chart_html

HERE = Path(__file__).parent
AS_IT_LIES = ("CONTRIBUTING.md", "data/labs/example.toml", "data/published/SOURCES.md",
              ".github/SECURITY.md", "notebooks/docs/**/*.md", "notebooks/documents/*.md",
              "notebooks/pictures/**/*")  # fmt: skip
"""Files of the repository that the site shows as they are."""
SMALL = ("index.md", "notebooks/docs/first-study.md", "notebooks/docs/proof/speed.md",
         "notebooks/documents/felter.md", "notebooks/pictures/jupyterlab.png",
         "reference/index.rst", "reference/nouns.rst")  # fmt: skip
"""A page of each kind, for a site that is made in seconds."""
LINK = re.compile(r"\[([^][]*)\]\((?!\w+:)([^)#\s]+)(?:#[^)\s]*)?\)")
HEADING = re.compile(r"\]\(#[^)\s]+\)")
PICTURE = re.compile(rf"^!\[.*/{pictures.CHART.name}\)$", re.MULTILINE)
SKIP = "  # fmt: skip"
"""A word to a formatter of code, and none to a reader."""
SVG = "image/svg+xml"


def stage(source: Path, notebooks: Mapping[str, Path], address: str, small: bool) -> None:
    """Lay everything out below `source`; a notebook that is not given is shown as it is.

    A link opens each on Binder, from the repository at `address` if one is named. A small site has
    the front page, these notebooks, and a page of each other kind.
    """
    files = dict(_files(notebooks, address))
    if small:
        kept = {*SMALL, *(f"notebooks/{stem}.ipynb" for stem in notebooks)}
        files = {name: whole for name, whole in files.items() if name in kept or "/_" in f"/{name}"}
        files = {name: _without_others(name, whole, files) for name, whole in files.items()}
    for name, whole in files.items():
        _write(source / name, whole)
    for file in filter(Path.is_file, source.rglob("*")):
        if str(file.relative_to(source)) not in files:
            file.unlink()


# A link to a page that is left out becomes its words.
def _without_others(name: str, whole: bytes, files: Mapping[str, bytes]) -> bytes:
    def link_or_words(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), found[2]))
        return found[0] if target in files else found[1]

    text = name.endswith((".md", ".ipynb"))
    return LINK.sub(link_or_words, whole.decode()).encode() if text else whole


# What has not changed keeps its time, by which Sphinx knows what to read again.
def _write(place: Path, whole: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists() or place.read_bytes() != whole:
        place.write_bytes(whole)


def _files(notebooks: Mapping[str, Path], address: str) -> Iterator[tuple[str, bytes]]:
    for file in (file for name in AS_IT_LIES for file in HOME.glob(name)):
        if HERE not in file.parents and file.is_file():
            yield str(file.relative_to(HOME)), file.read_bytes()
    for name, text in _written(notebooks, address):
        yield name, text.encode()


def _written(notebooks: Mapping[str, Path], address: str) -> Iterator[tuple[str, str]]:
    yield "index.md", front_page()
    yield "own.md", (HERE / "own.md").read_text("utf-8")
    for page, text in reference.pages().items():
        yield f"reference/{page}.rst", text
    for stem, own in executed.NOTEBOOKS.items():
        yield f"notebooks/{own.name}", shown(stem, notebooks.get(stem, own), address)
    # In a function of its own, as it has names that Sphinx has too.
    yield "_static/vega.js", f"(() => {{{vega()}\n}})();"
    yield "_static/charts.js", filled("draw.js")
    yield "_static/style.css", filled("paper.css") + (HERE / "style.css").read_text("utf-8")


def front_page() -> str:
    """The README with its chart alive, links to the notebooks, and the contents of the site."""
    drawn = chart_html(bundle(pictures.chart().to_dict())[V5])
    chart = f"```{{raw}} html\n{drawn}\n```"
    readme = PICTURE.sub(lambda _: chart, (HOME / "README.md").read_text("utf-8"))
    return f"{readme}\n{(HERE / 'contents.md').read_text('utf-8')}"


def shown(stem: str, notebook: Path, address: str = "") -> str:
    """A notebook as a page shows it: charts and tables as HTML, and no path of this machine."""
    whole = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    whole.metadata.pop("widgets", None)
    whole.cells.insert(1, nbformat.v4.new_markdown_cell(_about(stem, address), id="about"))  # type: ignore[no-untyped-call]
    for cell in whole.cells:
        cell.source = cell.source.replace(SKIP, "")
        if cell.cell_type == "markdown":  # JupyterLab keeps the capitals of a heading
            cell.source = HEADING.sub(lambda link: link[0].lower(), cell.source)
        # Sphinx knows no attachments.
        for name, kinds in cell.pop("attachments", {}).items():
            for kind, content in kinds.items():
                data = f"data:{kind};base64,{content}"
                cell.source = cell.source.replace(f"attachment:{name}", data)
    for output in (one for cell in whole.cells for one in cell.get("outputs", ())):
        if "data" in output:
            output["data"] = _as_html(output["data"])
    written: str = nbformat.writes(whole)  # type: ignore[no-untyped-call]
    return written.replace(f"{out()}/", "out/").replace(f"{HOME}/", "")


def _about(stem: str, address: str) -> str:
    name = executed.study(stem)
    if not executed.recorded(stem):
        said = "Nothing is recorded of this study yet, so the page shows its cells alone."
    elif name:
        said = "This page is a notebook that was executed on recorded runs."
    else:
        said = "This page is a notebook that was executed where no lab was."
    run = f"`labkit run {name}` executes it on a lab" if name else "`make lab` opens it"
    file = f"notebooks/{stem}.ipynb"
    binder = f" [Open it on Binder]({link(address, file)})." if address else ""
    return f"```{{note}}\n{said} {run}; the file is `{file}`.{binder}\n```"


def _as_html(shown_as: Mapping[str, Any]) -> dict[str, Any]:
    if V5 in shown_as:
        return {"text/html": chart_html(shown_as[V5])}
    if tables.MIME in shown_as:
        return {"text/html": tables.read(shown_as[tables.MIME]).html()}
    if SVG in shown_as:
        return {"text/html": f'<div class="labkit-picture">{shown_as[SVG]}</div>'}
    return {kind: shown_as[kind] for kind in INERT if kind in shown_as}
