"""A report: one HTML file of an executed notebook, that opens anywhere and asks no network."""

import functools
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import HTMLExporter

from labkit import __version__
from labkit.charts import V5, svg
from labkit.charts.export import SCHEMA, policy, quoted, vega
from labkit.errors import ResultsError
from labkit.machine.places import HOME
from labkit.pages import tables
from labkit.pages.folding import folded, living
from labkit.pages.paper import PAPER
from labkit.pages.report_head import ReportHead
from labkit.pages.tables import safe
from labkit.running.notebook import TITLE

# What a notebook may show as it is; anything else a cell displays is shown as its plain text.
INERT = ("text/plain", "image/png", "image/jpeg", "image/svg+xml")
NO_SERVERS = ("require_js_url", "mathjax_url", "mermaid_js_url", "jquery_url")
SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)

HEADING = 'id="What-we-see"'
ABOVE = '<p><a href="#labkit-chart">The chart stands at the top of this page.</a></p>'
STYLE = (
    PAPER
    + """
.labkit-top { max-width: 1100px; margin: 0 auto 1.5em; padding: 0 1em; font-family: sans-serif }
.labkit-top h2 { font-size: 1.1em; margin: 1em 0 .4em }
.labkit-top .wrong { border-left: 4px solid #B03A00; padding: .3em .8em }
main { max-width: 1100px; margin: 0 auto }
table.labkit { border-collapse: collapse; font: 14px/1.45 sans-serif }
table.labkit th, table.labkit td { border-bottom: 1px solid var(--line) }
table.labkit td:first-child { white-space: nowrap }
.finding { font-size: 1.15em }
.chips { list-style: none; padding: 0 }
.chips li { margin: .35em 0; display: flex; gap: .5em; align-items: baseline }
.lesson > summary { font: bold 1.2em sans-serif; margin: .8em 0 .4em; cursor: pointer }
.lesson.empty { display: none }
body:has(#labkit-code:not(:checked)) .lesson.only-code { display: none }
.jp-OutputArea-output pre { word-break: normal }
body:has(#labkit-code:not(:checked)) .jp-CodeCell .jp-Cell-inputWrapper { display: none }
@media print { body:has(#labkit-lesson:not(:checked)) main { display: none }
  .labkit-top { margin: 0; padding: 0 } .chips li { margin: .15em 0 } }
@media screen and (prefers-color-scheme: dark) { :root {
  --jp-layout-color0: #121212; --jp-layout-color1: #121212; --jp-layout-color2: #333;
  --jp-content-font-color0: #fff; --jp-content-font-color1: #ffffffde;
  --jp-content-font-color2: #ffffffb3; --jp-content-font-color3: #ffffff80;
  --jp-ui-font-color0: #fff; --jp-ui-font-color1: #ffffffde; --jp-content-link-color: #7ab8f5;
  --jp-cell-editor-background: #1e1e1e; --jp-cell-editor-border-color: #444;
  --jp-rendermime-table-row-background: #1e1e1e; --jp-border-color2: #555;
  --jp-mirror-editor-keyword-color: #7fc97f; --jp-mirror-editor-string-color: #ff9d8a;
  --jp-mirror-editor-comment-color: #8fb5c9; --jp-mirror-editor-number-color: #9fd39f;
  --jp-mirror-editor-variable-color: #eee; --jp-mirror-editor-operator-color: #d5a6ff;
  --jp-rendermime-error-background: #4a1f1f }
  body.jp-Notebook { background: #121212; color: #ffffffde } }
"""
)
DRAW = """
for (const place of document.querySelectorAll(".labkit-chart")) {
  const drawn = place.querySelector(".drawn");
  const spec = JSON.parse(place.querySelector("script").textContent);
  const actions = { export: true, source: false, compiled: false, editor: false };
  const live = document.createElement("div");
  place.append(live);
  vegaEmbed(live, spec, { renderer: "svg", actions }).then(
    () => { drawn.remove(); place.dataset.live = "yes"; },
    (wrong) => { live.remove(); console.error(wrong); });
}
"""
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
    for output in _outputs(document):
        output["data"] = _made_safe(output["data"], insets)
    document.metadata.pop("widgets", None)
    document.metadata["title"] = title = _title(document, notebook.stem)
    page = SCRIPT.sub("", _exporter().from_notebook_node(document, BESIDE)[0])
    before, main, body = page.partition("<main>")
    chart = insets.first(body)
    lesson, end, after = living(body).rpartition("</main>")
    page = f"{before}{main}{folded(lesson)}{end}{after}"
    top = _top(title, wrong, head.html(chart), notebook.name)
    _write(report, _frame(insets.filled(page), top, insets))


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


def _outputs(notebook: Any) -> Iterator[Any]:
    for cell in notebook.cells:
        yield from (output for output in cell.get("outputs", ()) if "data" in output)


def _made_safe(bundle: Any, insets: _Placed) -> dict[str, Any]:
    if V5 in bundle:
        insets.charts.append(len(insets.parts))
        return insets.instead(chart_html(bundle[V5]))
    if tables.MIME in bundle:
        return insets.instead(tables.read(bundle[tables.MIME]).html())
    return {kind: bundle[kind] for kind in INERT if kind in bundle}


def chart_html(spec: dict[str, Any]) -> str:
    """A picture as HTML, which `DRAW` makes interactive; it stays where no script may run."""
    label = safe(str(spec.get("description", "chart")))
    return (
        f'<div class="labkit-chart" role="img" aria-label="{label}">'
        f'<div class="drawn">{svg(spec)}</div>'
        f'<script type="application/json">{quoted({**spec, "$schema": SCHEMA})}</script></div>'
        f"{_about(spec)}"
    )


# All that stands below the title, of which the picture itself has one line.
def _about(spec: dict[str, Any]) -> str:
    texts = filter(None, spec.get("usermeta", {}).get("about", {}).values())
    inside = "".join(f"<p>{safe(str(text))}</p>" for text in texts)
    summary = "<summary>about this picture</summary>"
    return f'<details class="about on-screen">{summary}{inside}</details>' if inside else ""


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
    page = _put(page, "</head>", f"<style>{STYLE}</style>\n</head>")
    page = _put(page, "<main>", f"{top}<main>")
    before, body, after = page.rpartition("</body>")
    return f"{before}{_scripts(nonce) if insets.charts else ''}{body}{after}"


def _scripts(nonce: str) -> str:
    head = f'<script nonce="{nonce}">'
    return f"{head}{vega()}</script>\n{head}{DRAW}</script>\n"


def _put(page: str, mark: str, instead: str) -> str:
    before, separator, after = page.partition(mark)
    if not separator:
        raise ResultsError(
            f"nbconvert made a page without {mark}", hint="it may be of another version"
        )
    return f"{before}{instead}{after}"


def _top(title: str, wrong: str, head: str, name: str) -> str:
    parts = [f'<div class="labkit-top"><h1>{safe(title)}</h1>']
    parts += [f'<p class="wrong"><b>{safe(wrong)}</b></p>'] if wrong else []
    text = f"Made by labkit {__version__} from {name}; figures and text are in this one file."
    code = '<label><input type="checkbox" id="labkit-code"> show the code</label>'
    lesson = '<label><input type="checkbox" id="labkit-lesson"> print the lesson too</label>'
    parts += [head, f'<p>{safe(text)}</p><p class="on-screen">{code} {lesson}</p></div>']
    return "".join(parts)


def _write(report: Path, page: str) -> None:
    report.parent.mkdir(parents=True, exist_ok=True)
    half = report.with_name(f".{report.name}.half")
    half.write_text(page, "utf-8")
    os.replace(half, report)
