"""New results beside each of several older ones: one table, one chart, one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from labkit import charts
from labkit.errors import readable
from labkit.pages import terminal
from labkit.pages.old_and_new import PAGE, STYLE, OldAndNew
from labkit.pages.paper import PAPER
from labkit.pages.tables import Table, safe

COLUMNS = ("measured", "delta", "interval", "verdict")
CAPTION = (
    "Delta: the new results against those of the row, with its 95 % interval. "
    "All figures against one older result share one risk of 5 %."
)


@dataclass(frozen=True)
class Several:
    """New results against several older ones of the same study, one comparison for each."""

    comparisons: tuple[OldAndNew, ...]

    @property
    def changed(self) -> bool:
        """Whether a figure has clearly changed against any of them."""
        return any(comparison.changed for comparison in self.comparisons)

    def found(self) -> str:
        """The finding against each, a line each."""
        pairs = zip(self.names()[1:], self.comparisons, strict=True)
        return "\n".join(f"Against {name}: {comparison.found()}" for name, comparison in pairs)

    def names(self) -> list[str]:
        """The new results and each older one, by the last part of its path if that is its own."""
        old = [comparison.difference.old for comparison in self.comparisons]
        paths = [self.comparisons[0].difference.new, *old]
        last = [path.rstrip("/").rpartition("/")[2] for path in paths]
        often = Counter(last)
        return [name if often[name] == 1 else path for name, path in zip(last, paths, strict=True)]

    def rows(self) -> list[tuple[str, ...]]:
        """Of each figure a row for the new results and one for each older one that has it."""
        new, *old = self.names()
        rows: dict[tuple[str, str], list[tuple[str, ...]]] = {}
        for name, comparison in zip(old, self.comparisons, strict=True):
            for condition, figure_name, old_text, new_text, *cells in comparison.rows():
                of_figure = rows.setdefault((condition, figure_name), [(new, new_text, "", "", "")])
                of_figure.append((name, old_text, *cells))
        return [(*key, *row) for key, rows_of in rows.items() for row in rows_of]

    def table(self) -> Table:
        """The rows as a table."""
        return Table(("condition", "figure", "results", *COLUMNS), tuple(self.rows()), CAPTION)

    def text(self) -> str:
        """For a terminal: each figure is a heading, so that the table fits 80 columns."""
        lines = terminal.table([row[2:] for row in self.rows()], ("", *COLUMNS)).splitlines()
        parts = [*map(terminal.paragraph, self.found().splitlines()), *self._busy(),
                 "\n".join(self._add_heads(lines)), terminal.paragraph(CAPTION)]  # fmt: skip
        return readable("\n\n".join(parts))

    def markdown(self) -> str:
        """For a page of Markdown."""
        lines = [f"- {line}" for line in (*self.found().splitlines(), *self._busy())]
        return "\n".join([*lines, "", self.table().markdown(), ""])

    def chart(self) -> str:
        """The new results over each older one as SVG, figure by figure; empty if there is none."""
        pairs = zip(self.names()[1:], self.comparisons, strict=True)
        ranks = [
            (rank, replace(figure, figure=f"{figure.figure}, over {name}"))
            for name, comparison in pairs for rank, figure in enumerate(comparison.drawn())
        ]  # fmt: skip
        if not ranks:
            return ""
        figures = [figure for _, figure in sorted(ranks, key=lambda pair: pair[0])]
        spec = charts.changes(figures, note=self.comparisons[0].note).to_dict()
        return str(charts.bundle(spec)["image/svg+xml"])

    def page(self) -> str:
        """One HTML file without scripts."""
        new, *old = self.names()
        title = safe(f"{self.comparisons[0].study}: {new} against {', '.join(old)}")
        lines = [f"<p>{safe(line)}</p>" for line in (*self.found().splitlines(), *self._busy())]
        picture = f'<div class="labkit-chart">{self.chart()}</div>'
        section = "\n".join([*lines, picture, self.table().html()])
        return PAGE.format(title=title, style=PAPER + STYLE, section=section)

    def told(self) -> dict[str, Any]:
        """All comparisons for a script."""
        return {"against": [comparison.told() for comparison in self.comparisons]}

    def _busy(self) -> list[str]:
        return [
            *dict.fromkeys(filter(None, (comparison.beside for comparison in self.comparisons)))
        ]

    def _add_heads(self, lines: list[str]) -> Iterator[str]:
        yield lines[0]
        before: tuple[str, ...] = ()
        cells = iter(lines[1:])
        for row in self.rows():
            if row[:2] != before:
                yield ", ".join(row[:2])
            before = row[:2]
            yield next(cells)
