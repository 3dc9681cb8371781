"""A report: one HTML file of an executed notebook, that opens anywhere and asks no network."""

import functools
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup
from nbconvert.exporters import HTMLExporter

from labkit import __version__
from labkit.charts import V5, svg
from labkit.charts.export import SCHEMA, policy, quoted, vega
from labkit.charts.look import without_sign
from labkit.errors import ResultsError
from labkit.machine.places import HOME
from labkit.pages import tables
from labkit.pages.filled import filled
from labkit.pages.report_head import ReportHead
from labkit.running.notebook import TITLE

# What a notebook may show as it is; anything else a cell displays is shown as its plain text.
INERT = ("text/plain", "image/png", "image/jpeg", "image/svg+xml")
NO_SERVERS = ("require_js_url", "mathjax_url", "mermaid_js_url", "jquery_url")
SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)

OPEN = ("What we see", "What the document says", "What it means")
"""The sections that a reader of results came for; the others are a click away."""
ABOUT = "About this lesson"
CELL = re.compile(r'(?=<div class="jp-Cell )')
HEADINGS = re.compile(r"<h2\b([^>]*)>(.*?)</h2>", re.DOTALL)
LINK = re.compile(r'<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
AWAY = ("https://", "http://", "mailto:")
TAG = re.compile(r"<[^>]+>")

HEADING = 'id="What-we-see"'
ABOVE = '<p><a href="#labkit-chart">The chart stands at the top of this page.</a></p>'
BESIDE = {"metadata": {"path": str(HOME / "notebooks")}}
"""The folder of pictures in the text of a notebook; they become a part of the page."""
NO_HEAD = ReportHead("")
"""The head of a notebook by itself, without results."""


@dataclass
class _Placed:
    """What stands where in the page; the marks are put in before the export, the HTML after."""

    mark: str = field(default_factory=lambda: f"labkit-{secrets.token_hex(8)}")
    parts: list[str] = field(default_factory=list)
    charts: list[int] = field(default_factory=list)
    """The indices of the parts that are charts."""

    def instead(self, html: str) -> dict[str, str]:
        """An output that holds the place of `html`."""
        self.parts.append(html)
        return {"text/html": f"<i>{self.mark}-{len(self.parts) - 1}-</i>"}

    def filled(self, page: str) -> str:
        """The page with everything in its place."""
        mark = re.compile(rf"<i>{self.mark}-(\d+)-</i>")
        return mark.sub(lambda match: self.parts[int(match[1])], page)

    def first(self, body: str) -> str:
        """The chart that shows what was found: the first below `What we see`, else the first.

        It is taken from its place, where a line says that it stands above.
        """
        after = body.partition(HEADING)[2]
        below = [n for n in self.charts if f"<i>{self.mark}-{n}-</i>" in after]
        if not self.charts:
            return ""
        number = (below or self.charts)[0]
        chart, self.parts[number] = self.parts[number], ABOVE
        return f'<div id="labkit-chart">{chart}</div>'


def get_ready() -> None:
    """Load what `write` needs: templates, parsers, Vega. Call it where one waits anyway."""
    vega()
    svg({"data": {"values": []}, "mark": "point"})
    sample = {"text/html": "<p>&lt;</p>", "text/plain": ""}
    output = nbformat.v4.new_output("display_data", sample)  # type: ignore[no-untyped-call]
    cell = nbformat.v4.new_code_cell("1", outputs=[output])  # type: ignore[no-untyped-call]
    words = nbformat.v4.new_markdown_cell("# *a* `b`")  # type: ignore[no-untyped-call]
    page = nbformat.v4.new_notebook(cells=[words, cell])  # type: ignore[no-untyped-call]
    _exporter().from_notebook_node(page)


def write(notebook: Path, report: Path, head: ReportHead = NO_HEAD) -> None:
    """Write the report of an executed notebook: all of it, or nothing; `head` stands above it."""
    document = _read(notebook)
    insets, wrong = _Placed(), _wrong(document)
    for output in (output for cell in document.cells for output in cell.get("outputs", ())):
        if "data" in output:
            output["data"] = _made_safe(output["data"], insets)
    document.metadata.pop("widgets", None)
    document.metadata["title"] = title = _title(document, notebook.stem)
    page = SCRIPT.sub("", _exporter().from_notebook_node(document, BESIDE)[0])
    before, main, body = page.partition("<main>")
    chart = insets.first(body)
    lesson, end, after = _living(body).rpartition("</main>")
    page = f"{before}{main}{_folded(lesson)}{end}{after}"
    top = filled(
        "report_top.html", title=title, wrong=wrong, head=Markup(head.html(chart)),
        version=__version__, name=notebook.name,
    )  # fmt: skip
    report.parent.mkdir(parents=True, exist_ok=True)
    half = report.with_name(f".{report.name}.half")
    half.write_text(_frame(insets.filled(page), top, insets), "utf-8")
    os.replace(half, report)


def _read(notebook: Path) -> Any:
    try:
        return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    except FileNotFoundError:
        raise ResultsError(f"no notebook {notebook}") from None
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise ResultsError(f"{notebook}: cannot be read", said=str(error)) from None


@functools.cache
def _exporter() -> HTMLExporter:
    quiet = {"exclude_input_prompt": True, "exclude_output_prompt": True}
    exporter = HTMLExporter(template_name="lab", embed_images=True, **quiet)  # type: ignore[no-untyped-call]
    for url in NO_SERVERS:
        setattr(exporter, url, "")
    return exporter


def _made_safe(bundle: Any, insets: _Placed) -> dict[str, Any]:
    if V5 in bundle:
        insets.charts.append(len(insets.parts))
        return insets.instead(chart_html(bundle[V5]))
    if tables.MIME in bundle:
        return insets.instead(tables.read(bundle[tables.MIME]).html())
    return {kind: bundle[kind] for kind in INERT if kind in bundle}


def chart_html(spec: dict[str, Any]) -> str:
    """A picture as HTML, which `draw.js` makes interactive; it stays where no script may run."""
    about = spec.get("usermeta", {}).get("about", {}).values()
    spec = without_sign(spec)  # what it tells stands below the picture
    return filled(
        "chart.html", label=spec.get("description", "chart"), drawn=Markup(svg(spec)),
        spec=Markup(quoted({**spec, "$schema": SCHEMA})), about=[*filter(None, about)],
    )  # fmt: skip


def _wrong(notebook: Any) -> str:
    code = [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]
    has_failed = any(o.output_type == "error" for c in code for o in c.outputs)
    missing = sum(1 for c in code if c.execution_count is None)
    if not has_failed and not missing:
        return ""
    return f"This notebook did not run to its end: {missing} of {len(code)} cells never finished."


# Takes the title out of the notebook.
def _title(notebook: Any, fallback: str) -> str:
    for cell in notebook.cells:
        match = TITLE.search(cell.source)
        if cell.cell_type == "markdown" and match:
            # The page has a heading of its own, above the verdicts, and no neighbours.
            cell.source = cell.source.replace(match[0], "", 1)
            return str(match[1]).removeprefix("#").strip()
    return fallback


def _frame(page: str, top: str, insets: _Placed) -> str:
    nonce = secrets.token_urlsafe(16)
    # The policy must come before anything that it forbids, our style after the notebook's.
    forbid = f'<meta http-equiv="Content-Security-Policy" content="{policy(nonce)}">'
    page = _put(page, "<head>", f'<head><meta charset="utf-8">{forbid}')
    style = filled("paper.css") + filled("report.css")
    page = _put(page, "</head>", f"<style>{style}</style>\n</head>")
    page = _put(page, "<main>", f"{top}<main>")
    before, body, after = page.rpartition("</body>")
    head = f'<script nonce="{nonce}">'
    scripts = f"{head}{vega()}</script>\n{head}{filled('draw.js')}</script>\n"
    return f"{before}{scripts if insets.charts else ''}{body}{after}"


def _put(page: str, mark: str, instead: str) -> str:
    before, separator, after = page.partition(mark)
    if not separator:
        raise ResultsError(
            f"nbconvert made a page without {mark}", hint="it may be of another version"
        )
    return f"{before}{instead}{after}"


# The cells of a page below their headings; of what has no heading nothing is changed.
def _folded(body: str) -> str:
    before, *cells = CELL.split(body)
    if not HEADINGS.search(body):
        return body
    sections: list[tuple[str, str, list[str]]] = [("", ABOUT, [])]
    for cell in cells:
        if match := HEADINGS.search(cell):
            sections.append((match[1], _words(match[2]), []))
            cell = cell.replace(match[0], "", 1)
        sections[-1][2].append(cell)
    return before + "".join(_section(tag, name, "".join(cells)) for tag, name, cells in sections)


# The page in which only links are left that lead somewhere from any folder.
def _living(page: str) -> str:
    ids = set(re.findall(r'\bid="([^"]*)"', page))

    def link(match: re.Match[str]) -> str:
        inside = match[1].startswith("#") and match[1][1:] in ids
        if inside or match[1].startswith(AWAY):
            return match[0]
        return f"<span>{match[2]}</span>"

    return LINK.sub(link, page)


# What the heading had in its tag, so that links find it.
def _section(tag: str, name: str, inside: str) -> str:
    texts = "".join(cell for cell in CELL.split(inside) if "jp-MarkdownCell" in cell)
    kind = ""
    if "jp-OutputArea-output" not in inside and not _words(texts):
        kind = " only-code" if "jp-CodeCell" in inside else " empty"
    attribute = " open" if name in OPEN else ""
    summary = f"<summary{tag}>{name}</summary>"
    return f'<details class="lesson{kind}"{attribute}>{summary}{inside}</details>'


def _words(html: str) -> str:
    return TAG.sub("", html).replace("¶", "").strip()
