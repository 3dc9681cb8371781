"""Tables for notebooks and reports: every word is escaped, so that a host's text stays text."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.changes.plan import Plan
from labkit.errors import readable
from labkit.machine.units import shown
from labkit.pages import terminal
from labkit.results import Results
from labkit.study import Study
from labkit.verdict import LocalFigure, Verdict, looked, one_risk

MIME = "application/vnd.labkit.table+json"
VERDICTS = ("claim", "the claim", "measured here", "verdict", "why")
SHORT = 21
"""Letters of a text that stays on one line: as many as the longest name of a claim has."""
COLUMN, NARROW = 45, 55
"""The most letters that a column asks for, and those that fit side by side in a narrow cell."""
INLINE = ".labkit-table { container-type: inline-size; width: 100% }"
STACK = (
    f"{INLINE}"
    """
@container (max-width: 620px) {
  .labkit-table table.stacked thead { display: none }
  .labkit-table table.stacked :is(tbody, tr, td) { display: block }
  .labkit-table table.stacked tr { border-bottom: 1px solid #8888; padding: 6px 0 }
  .labkit-table table.stacked td { white-space: normal !important; border: 0;
    overflow-wrap: anywhere; padding: 1px 4px !important }
  .labkit-table table.stacked td::before { content: attr(data-label) ": "; opacity: .75 }
}
"""
)
# Of each claim: the verdict and its name beside what it says, what was measured below, then why.
CARDS = (
    f"{INLINE}"
    """
@container (max-width: 900px) {
  .labkit-table table.verdicts { display: block; width: 100% }
  .labkit-table table.verdicts thead { display: none }
  .labkit-table table.verdicts tbody { display: block }
  .labkit-table table.verdicts tr { display: grid; gap: 2px 12px; padding: 8px 4px;
    border-bottom: 1px solid #8888; justify-content: start; line-height: 1.4;
    grid-template: "verdict says" "claim here" ". why" / 13em 1fr }
  .labkit-table table.verdicts td { display: block; border: 0; padding: 0 !important;
    max-width: none; white-space: normal !important; overflow-wrap: anywhere }
  .labkit-table table.verdicts td::before { content: none }
  .labkit-table table.verdicts td[data-label="verdict"] { grid-area: verdict }
  .labkit-table table.verdicts td[data-label="claim"] { grid-area: claim; opacity: .75 }
  .labkit-table table.verdicts td[data-label="the claim"] { grid-area: says; font-weight: bold }
  .labkit-table table.verdicts td[data-label="measured here"] { grid-area: here }
  .labkit-table table.verdicts td[data-label="why"] { grid-area: why }
  .labkit-table table.verdicts td[data-label="measured here"]::before { content: "measured: " }
  .labkit-table table.verdicts td[data-label="why"]::before { content: "why: " }
}
@container (max-width: 520px) {
  .labkit-table table.verdicts tr { grid-template: "verdict claim" "says says" "here here"
    "why why" / max-content 1fr }
}
"""
)
WEB = ("https://", "http://")
LEFT_STYLE = "text-align:left;vertical-align:top;padding:4px 10px"
# White on each of these is readable (contrast 4.5 and more), on a light page and on a dark one.
CHIPS = {
    "holds": ("#00704F", "✔"),
    "contradicted": ("#B03A00", "✘"),
    "same within the margin": ("#1F5A8C", "="),
    "undecided": ("#5B5B5B", "?"),
    "not testable here": ("#5B5B5B", "-"),
}

FOLD = "<details><summary>How these were judged</summary><p>{}</p></details>"


@dataclass(frozen=True)
class Table:
    """Rows under a head; shows itself in a notebook, a terminal and a report."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    judged: str = ""
    """Words about the statistics of verdicts, which a page folds."""

    def html(self) -> str:
        """The table as HTML; only this function makes HTML of what hosts say."""
        head = "".join(f'<th style="{LEFT_STYLE}">{safe(cell)}</th>' for cell in self.head)
        cells_of = ("".join(map(_cell, row, self.head)) for row in self.rows)
        rows = "".join(f"<tr>{cells}</tr>" for cells in cells_of)
        above = f'<p class="labkit-caption"><b>{safe(self.caption)}</b></p>' if self.caption else ""
        above += FOLD.format(safe(self.judged)) if self.judged else ""
        body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
        if not self.wide:
            return f'{above}<table class="labkit">{body}</table>'
        kind, style = ("verdicts", CARDS) if self.head == VERDICTS else ("stacked", STACK)
        body_of = f'<table class="labkit {kind}">{body}</table>'
        return f'<style>{style}</style>{above}<div class="labkit-table">{body_of}</div>'

    @property
    def _above(self) -> str:
        return " ".join(filter(None, (self.caption, self.judged)))

    @property
    def wide(self) -> bool:
        """Whether a narrow cell shows its columns below each other."""
        columns = zip(self.head, *self.rows, strict=True)
        return sum(min(COLUMN, max(map(len, column))) for column in columns) > NARROW

    def text(self) -> str:
        """The table as aligned columns."""
        above = f"{readable(self._above)}\n\n" if self._above else ""
        return above + terminal.table(self.rows, self.head)

    def markdown(self) -> str:
        """The table for a page of Markdown."""
        rows = [self.head, tuple("---" for _ in self.head), *self.rows]
        above = f"{_marked_down(self._above)}\n\n" if self._above else ""
        return above + "\n".join(f"| {' | '.join(map(_marked_down, row))} |" for row in rows)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        rows = [list(row) for row in self.rows]
        plain = {"head": list(self.head), "rows": rows, "caption": self.caption,
                 "judged": self.judged}  # fmt: skip
        return {"text/html": self.html(), "text/plain": self.text(), MIME: plain}


def conditions(study: Study, results: Results) -> list[dict[str, str]]:
    """Of each condition what the document means by it, and what stands for it in these results.

    One that the study has since they were begun is not among them.
    """
    meanings, on = results.asked.get("here", {}), results.asked.get("kernels", {})
    return [
        {"condition": c.name, "in the document": c.means, "here": meanings.get(c.name, c.here),
         **({"ran on": on[c.name]} if c.name in on else {})}
        for c in study.conditions if c.name in results.asked.get("conditions", (c.name,))
    ]  # fmt: skip


def plan_table(plan: Plan) -> Table:
    """The changes of a plan, host by host; above them what stands in the way."""
    head = ("host", "setting", "now", "wanted", "needs", "state")
    rows = tuple(_plan_row(step) for step in plan.told()["steps"])
    return Table(head, rows, "; ".join(plan.warnings))


def _plan_row(step: Mapping[str, Any]) -> tuple[str, ...]:
    state = str(step["why"] or step["state"])
    if step["stands_for"]:
        state += f", {step['stands_for']} in its place"
    needs = [*step["needs"], *(["may cut the way to the host"] if step["cuts_management"] else [])]
    return (
        step["host"], step["thing"], step["current"], step["wanted"], ", ".join(needs), state,
    )  # fmt: skip


def table(rows: Iterable[Mapping[str, object]], head: Sequence[str] = ()) -> Table:
    """A table of rows by column name; `head` chooses columns and their order."""
    rows_read = list(rows)
    names = tuple(head or (rows_read[0] if rows_read else ()))
    return Table(names, tuple(tuple(_text(n, row.get(n, "")) for n in names) for row in rows_read))


def _text(column: str, value: object) -> str:
    return shown(str(value)) if column == "unit" else str(value)


def measured_here(local: LocalFigure | None) -> str:
    """The figure that was measured of a claim, as text."""
    return str(local) if local else "nothing"


def verdict_table(verdicts: Iterable[Verdict], note: str = "") -> Table:
    """One line for each claim: what the document says, the verdict, and why."""
    verdicts_read = list(verdicts)
    rows = tuple(
        (v.claim, v.statement, measured_here(v.local), v.verdict, v.why) for v in verdicts_read
    )
    texts = (
        one_risk(v.among for v in verdicts_read),
        looked((v.looks, v.spent) for v in verdicts_read),
    )
    return Table(VERDICTS, rows, f"{note}.".replace("..", ".") if note else "",
                 " ".join(filter(None, texts)))  # fmt: skip


def read(plain: Mapping[str, Any]) -> Table:
    """The table that a notebook kept under its MIME type."""
    rows = tuple(tuple(map(str, row)) for row in plain.get("rows", ()))
    above = (str(plain.get(part, "")) for part in ("caption", "judged"))
    return Table(tuple(map(str, plain.get("head", ()))), rows, *above)


# A page may be shown as HTML, and a lab may be called anything.
def _marked_down(text: str) -> str:
    letters = (f"&#{ord(c)};" if c in "|<>&`*_[]()\\!" else c for c in readable(text))
    return " ".join("".join(letters).split())


def _cell(text: str, column: str) -> str:
    label = f'data-label="{safe(column)}"'
    if text not in CHIPS:
        # Short words stay on one line, and lines of a text apart.
        space = "pre-wrap" if "\n" in text else "nowrap" if len(text) <= SHORT else "normal"
        return f'<td {label} style="{LEFT_STYLE};white-space:{space}">{safe(text)}</td>'
    return f'<td {label} style="{LEFT_STYLE}">{chip(text)}</td>'


def chip(verdict: str) -> str:
    """A verdict as a small coloured word, which has a sign too for who sees no colours."""
    colour, sign = CHIPS[verdict]
    style = f"background:{colour};color:#fff;padding:2px 8px;border-radius:9px;white-space:nowrap"
    return f'<span style="{style}">{sign} {safe(verdict)}</span>'


def linked(text: str, url: str) -> str:
    """`text` as HTML, a link to `url` if that is an address of the web."""
    text_shown = safe(text)
    return f'<a href="{safe(url)}">{text_shown}</a>' if url.startswith(WEB) else text_shown


def safe(text: str) -> str:
    """`text` as HTML that shows it and does nothing else."""
    return html.escape(readable(text))
