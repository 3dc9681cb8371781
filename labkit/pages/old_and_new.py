"""Results of one study beside older ones: a table, a chart, and a page of both."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from markupsafe import Markup

from labkit import charts
from labkit.charts.compared import Changed
from labkit.errors import BadInput, readable
from labkit.gates import around
from labkit.machine.units import figure, shown
from labkit.pages import terminal
from labkit.pages.filled import filled
from labkit.pages.tables import Table
from labkit.results import Results, Run
from labkit.running import compared
from labkit.running.compared import Difference, Sides
from labkit.running.open_lab import note
from labkit.statistics import interval
from labkit.verdict import CONTRADICTED, HOLDS, UNDECIDED, Verdict, one_risk

COLUMNS = ("old", "new", "delta", "interval", "verdict")
OF_SEVERAL = ("measured", "delta", "interval", "verdict")
CAPTION = (
    "Delta: the new results against those of the row, with its 95 % interval. "
    "All figures against one older result share one risk of 5 %."
)


@dataclass(frozen=True)
class OldAndNew:
    """The changes from old results to new ones, and where both came from."""

    study: str
    difference: Difference
    note: str = ""
    beside: str = ""
    """The other work that the machine did while either was measured, in words."""

    @property
    def changed(self) -> list[tuple[Verdict, Sides]]:
        """The figures that are clearly lower or higher than they were."""
        return [(v, s) for v, s in self._pairs() if v.verdict in (HOLDS, CONTRADICTED)]

    def found(self) -> str:
        """The finding, in a sentence."""
        number = len(self.difference.effects)
        if not number:
            return f"No figure of {self.study} is in both."
        if not self.changed:
            return f"None of {number} figures of {self.study} has clearly changed."
        verdict, sides = max(self.changed, key=lambda pair: abs((pair[0].effect or 1.0) - 1))
        by = delta(verdict.effect, sides.ratio, sides.unit).lstrip("+-")
        word = compared.OUTCOMES[verdict.verdict]
        change = f"{sides.condition} ({_statistic(sides)}) is {by} {word} than it was"
        return f"{len(self.changed)} of {number} figures of {self.study} have changed; {change}."

    def rows(self) -> list[tuple[str, ...]]:
        """Of each figure its condition, what it is, and the five columns."""
        return [
            (s.condition, _statistic(s),
             *(f"{figure(value)} {shown(s.unit)}".strip() for value in (s.old, s.new)),
             delta(v.effect, s.ratio, s.unit), within(v, s.ratio, s.unit),
             compared.OUTCOMES[v.verdict])
            for v, s in self._pairs()
        ]  # fmt: skip

    def table(self) -> Table:
        """The rows as a table."""
        return Table(("condition", "figure", *COLUMNS), tuple(self.rows()), self._caption())

    def drawn(self) -> list[Changed]:
        """The figures that a chart can show as new over old: those above 0."""
        return [
            Changed(f"{s.condition}, {_statistic(s)}", v.effect, v.low, v.high,
                    compared.OUTCOMES[v.verdict], v.each)
            for v, s in self._pairs() if s.ratio and v.effect
        ]  # fmt: skip

    def told(self) -> dict[str, Any]:
        """All of it for a script."""
        return {"found": self.found(), "beside": self.beside, **asdict(self.difference)}

    def text(self) -> str:
        """For a terminal: the conditions as headings, so that it fits 80 columns."""
        rows = self.rows()
        return _join(
            terminal.paragraph(self.found()),
            f"old  {self.difference.old}\nnew  {self.difference.new}",
            *map(terminal.paragraph, filter(None, (self.beside, self.note))),
            _under([row[0] for row in rows], [row[1:] for row in rows], COLUMNS) if rows else "",
            terminal.paragraph(self._caption()),
            "\n".join(map(terminal.paragraph, self._why_not())),
        )

    def markdown(self) -> str:
        """For a page of Markdown, such as a comment on a change."""
        aside = ["\n".join(f"- {reason}" for reason in self._why_not()), self._facts()]
        parts = [f"**{self.found()}**", self.beside, self.table().markdown(), *aside]
        return "\n\n".join(filter(None, parts)) + "\n"

    def page(self) -> str:
        """One HTML file without scripts, for light and dark screens and for paper."""
        new, old = (_last(path) for path in (self.difference.new, self.difference.old))
        title = f"{self.study}: {new} against {old}"
        return filled("changed.html", title=title, section=Markup(self.section()))

    def section(self) -> str:
        """The same without a head, to stand in another page."""
        facts = tuple((f.what, f.old, f.new) for f in self.difference.facts)
        differences = Table(("what else differs", "old", "new"), facts)
        return _section(
            [self.found()], [self.beside], _draw(self.drawn(), self.note), self.table(),
            why_not=self._why_not(), facts=self._facts(), differences=Markup(differences.html()),
        )  # fmt: skip

    def _pairs(self) -> Iterator[tuple[Verdict, Sides]]:
        yield from zip(self.difference.effects, self.difference.sides, strict=True)

    # What is not clear yet, and what was not compared at all.
    def _why_not(self) -> list[str]:
        without = [f"{s.condition}, {_statistic(s)}: {v.why}" for v, s in self._pairs()
                   if v.verdict == UNDECIDED]  # fmt: skip
        return [*without, *self.difference.why_not]

    def _caption(self) -> str:
        caption = "Old and new are pooled over all runs. The interval is of the delta, 95 %."
        alone = "Each comparison by itself has a risk of 5 % of a wrong answer."
        return f"{caption} {one_risk(v.among for v in self.difference.effects) or alone}"

    def _facts(self) -> str:
        number = len(self.difference.facts)
        return f"What else differs, such as settings and versions: {number}."


@dataclass(frozen=True)
class Several:
    """New results against several older ones of the same study, one comparison for each."""

    comparisons: tuple[OldAndNew, ...]

    @property
    def changed(self) -> bool:
        """Whether a figure has clearly changed against any of them."""
        return any(comparison.changed for comparison in self.comparisons)

    def found(self) -> list[str]:
        """The finding against each."""
        return [f"Against {name}: {comparison.found()}" for name, comparison in self._by_name()]

    def names(self) -> list[str]:
        """The new results and each older one, by the last part of its path if that is its own."""
        old = [comparison.difference.old for comparison in self.comparisons]
        paths = [self.comparisons[0].difference.new, *old]
        often = Counter(map(_last, paths))
        return [_last(path) if often[_last(path)] == 1 else path for path in paths]

    def rows(self) -> list[tuple[str, ...]]:
        """Of each figure a row for the new results and one for each older one that has it."""
        rows: dict[tuple[str, str], list[tuple[str, ...]]] = {}
        for name, comparison in self._by_name():
            for condition, figure_name, old_text, new_text, *cells in comparison.rows():
                new = (self.names()[0], new_text, "", "", "")
                rows.setdefault((condition, figure_name), [new]).append((name, old_text, *cells))
        return [(*key, *row) for key, rows_of in rows.items() for row in rows_of]

    def table(self) -> Table:
        """The rows as a table."""
        return Table(("condition", "figure", "results", *OF_SEVERAL), tuple(self.rows()), CAPTION)

    def text(self) -> str:
        """For a terminal: each figure is a heading, so that the table fits 80 columns."""
        rows = self.rows()
        return _join(
            *map(terminal.paragraph, self.found()), *self._busy(),
            _under([", ".join(row[:2]) for row in rows], [row[2:] for row in rows], OF_SEVERAL),
            terminal.paragraph(CAPTION),
        )  # fmt: skip

    def markdown(self) -> str:
        """For a page of Markdown."""
        lines = [f"- {line}" for line in (*self.found(), *self._busy())]
        return "\n".join([*lines, "", self.table().markdown(), ""])

    def page(self) -> str:
        """One HTML file without scripts."""
        new, *old = self.names()
        ranks = [
            (rank, replace(figure, figure=f"{figure.figure}, over {name}"))
            for name, comparison in self._by_name()
            for rank, figure in enumerate(comparison.drawn())
        ]  # fmt: skip
        figures = [figure for _, figure in sorted(ranks, key=lambda pair: pair[0])]
        chart = _draw(figures, self.comparisons[0].note)
        section = Markup(_section(self.found(), self._busy(), chart, self.table()))
        title = f"{self.comparisons[0].study}: {new} against {', '.join(old)}"
        return filled("changed.html", title=title, section=section)

    def told(self) -> dict[str, Any]:
        """All comparisons for a script."""
        return {"against": [comparison.told() for comparison in self.comparisons]}

    def _by_name(self) -> Iterator[tuple[str, OldAndNew]]:
        yield from zip(self.names()[1:], self.comparisons, strict=True)

    def _busy(self) -> list[str]:
        return [*dict.fromkeys(item.beside for item in self.comparisons if item.beside)]


def old_and_new(old: Results, new: Results, runs: tuple[Run, Run] | None = None) -> OldAndNew:
    """Compare old results with new ones of the same metric, or one run of each."""
    sides = runs or (old, new)
    if sides[0].path == sides[1].path:
        raise BadInput(f"{sides[0].path} is both old and new: they are the same")
    if runs:
        difference = compared.of_runs((old, runs[0]), (new, runs[1]))
    else:
        difference = compared.of_results(old, new)
    return OldAndNew(new.judged_as, difference, note(new), _beside({"old": old, "new": new}))


def _beside(sides: Mapping[str, Results]) -> str:
    notes = [f"{name}: {text}" for name, side in sides.items() if (text := around.told(side))]
    if not notes:
        return ""
    return f"The machine was busy with other work ({'; '.join(notes)}). That alone changes figures."


def within(v: Verdict, ratio: bool, unit: str = "") -> str:
    """The 95 % interval of a change or its few blocks, in the words of `delta`."""

    def write(end: float) -> str:
        return delta(end, ratio, unit)

    return "" if v.effect is None else interval.within(v.each, v.low, v.high, write)


def delta(effect: float | None, ratio: bool, unit: str = "") -> str:
    """A change in words: a share of the old where both are above 0, else in the figures' unit."""
    if effect is None:
        return ""
    if not ratio:
        return f"{effect:+.3g} {shown(unit)}".strip()
    share = 100 * (effect - 1)
    return f"{share:+.1f} %" if abs(share) < 10 else f"{share:+,.0f} %"


def _statistic(s: Sides) -> str:
    return s.statistic if isinstance(s.statistic, str) else charts.named(s.statistic)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


# New over old as SVG; none where no figure is above 0.
def _draw(figures: Sequence[Changed], note: str) -> str:
    if not figures:
        return ""
    return str(charts.bundle(charts.changes(figures, note=note).to_dict())["image/svg+xml"])


def _section(
    found: Iterable[str], busy: Iterable[str], chart: str, table: Table, **more: Any
) -> str:  # fmt: skip
    return filled(
        "difference.html", found=found, busy=[*filter(None, busy)], chart=Markup(chart),
        table=Markup(table.html()), **{"why_not": (), "facts": "", **more},
    )  # fmt: skip


# A table in which what rows have in common stands above them.
def _under(heads: Sequence[str], rows: Sequence[tuple[str, ...]], columns: Sequence[str]) -> str:
    first, *others = terminal.table(rows, ("", *columns)).splitlines()
    lines = [first]
    for head, group in groupby(zip(heads, others, strict=True), key=lambda pair: pair[0]):
        lines += [head, *(line for _, line in group)]
    return "\n".join(lines)


def _join(*parts: str) -> str:
    return readable("\n\n".join(filter(None, parts)))
