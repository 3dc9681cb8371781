"""Tables for notebooks and reports: every word is escaped, so that a host's text stays text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.changes.plan import Plan
from labkit.claims.printed import figures, with_ends
from labkit.errors import readable
from labkit.machine.units import shown
from labkit.pages import terminal
from labkit.pages.filled import CHIPS, filled
from labkit.results import Results
from labkit.study import Study
from labkit.verdict import Verdict, looked, one_risk

MIME = "application/vnd.labkit.table+json"
VERDICTS = ("claim", "the claim", "measured here", "verdict", "why")
SHORT = 21
"""Letters of a text that stays on one line: as many as the longest name of a claim has."""
COLUMN, NARROW = 45, 55
"""The most letters that a column asks for, and those that fit side by side in a narrow cell."""
RELATIONS = {"=": "", "~": "about", "<": "below", ">": "above", "<=": "at most", ">=": "at least"}
"""Words for the relation of a printed figure to the true one."""
FIGURE = 32
"""Letters that a figure with its interval has at most."""


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
        return filled("table.html", table=self, kind=self._kind, chips=CHIPS, short=SHORT)

    # Figures are to be compared down a column; words of a narrow cell are to be read.
    @property
    def _kind(self) -> str:
        if not self.wide:
            return ""
        cells = (cell for row in self.rows for cell in row[1:])
        figures = len(self.head) > 2 and all(len(cell) <= FIGURE for cell in cells)
        return "verdicts" if self.head == VERDICTS else "figures" if figures else "stacked"

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
    needs = [*step["needs"], *["may cut the way to the host"] * step["cuts_management"]]
    return (step["host"], step["thing"], step["current"], step["wanted"], ", ".join(needs), state)


def table(rows: Iterable[Mapping[str, object]], head: Sequence[str] = ()) -> Table:
    """A table of rows by column name; `head` chooses columns and their order."""
    rows_read = list(rows)
    names = tuple(head or (rows_read[0] if rows_read else ()))
    return Table(names, tuple(tuple(_text(n, row.get(n, "")) for n in names) for row in rows_read))


# The unit 1 says nothing beside a number.
def _text(column: str, value: object) -> str:
    if column == "unit":
        return "" if value == "1" else shown(str(value))
    return str(value)


def document_table(study: Study, metric: str = "") -> Table:
    """The figures that the study's document prints, one a line; `metric` chooses those of one."""
    rows = [row for row in figures(study.name) if metric in ("", row.metric)]
    lines = [
        {"condition": row.condition.replace(";", ", "), "at": row.at,
         "figure": ", ".join(filter(None, (row.metric.replace("_", " "), row.statistic_shown))),
         "value": " ".join(filter(None, (
             RELATIONS[row.relation], row.value, f"to {high}" if high else "", row.unit_shown))),
         "source": row.source.split("; ", 1)[-1]}
        for row, high in with_ends(rows)
    ]  # fmt: skip
    return table(lines, [name for name in lines[0] if any(line[name] for line in lines)])


def verdict_table(verdicts: Iterable[Verdict], note: str = "") -> Table:
    """One line for each claim: what the document says, the verdict, and why."""
    verdicts_read = list(verdicts)
    rows = tuple((v.claim, v.statement, str(v.local or "nothing"), v.verdict, v.why)
                 for v in verdicts_read)  # fmt: skip
    risk = one_risk(v.among for v in verdicts_read)
    looks = looked((v.looks, v.spent) for v in verdicts_read)
    caption = f"{note}.".replace("..", ".") if note else ""
    return Table(VERDICTS, rows, caption, " ".join(filter(None, (risk, looks))))


def read(plain: Mapping[str, Any]) -> Table:
    """The table that a notebook kept under its MIME type."""
    rows = tuple(tuple(map(str, row)) for row in plain.get("rows", ()))
    above = (str(plain.get(part, "")) for part in ("caption", "judged"))
    return Table(tuple(map(str, plain.get("head", ()))), rows, *above)


# A page may be shown as HTML, and a lab may be called anything.
def _marked_down(text: str) -> str:
    letters = (f"&#{ord(c)};" if c in "|<>&`*_[]()\\!" else c for c in readable(text))
    return " ".join("".join(letters).split())
