"""Results of one study beside older ones: a table, a chart, and a page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class OldAndNew:
    """The changes from old results to new ones, and where both came from."""

    study: str
    difference: Difference
    note: str = ""
    beside: str = ""
    """The other work that the machine did while either was measured, in words."""

    @property
    def pairs(self) -> list[tuple[Verdict, Sides]]:
        """The verdict on each figure, and the figure on both sides."""
        return list(zip(self.difference.effects, self.difference.sides, strict=True))

    @property
    def changed(self) -> list[tuple[Verdict, Sides]]:
        """The figures that are clearly lower or higher than they were."""
        return [(v, s) for v, s in self.pairs if v.verdict in (HOLDS, CONTRADICTED)]

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
            for v, s in self.pairs
        ]  # fmt: skip

    def table(self) -> Table:
        """The rows as a table."""
        return Table(("condition", "figure", *COLUMNS), tuple(self.rows()), self._caption())

    def told(self) -> dict[str, Any]:
        """All of it for a script."""
        return {"found": self.found(), "beside": self.beside, **asdict(self.difference)}

    def text(self) -> str:
        """For a terminal: the conditions as headings, so that it fits 80 columns."""
        parts = [
            terminal.paragraph(self.found()),
            f"old  {self.difference.old}\nnew  {self.difference.new}",
            *map(terminal.paragraph, (self.beside, self.note)),
            self._by_condition(),
            terminal.paragraph(self._caption()),
            "\n".join(map(terminal.paragraph, self._why_not())),
        ]
        return readable("\n\n".join(filter(None, parts)))

    # The condition that rows have in common stands above them.
    def _by_condition(self) -> str:
        rows = self.rows()
        head, *lines = terminal.table([row[1:] for row in rows], ("", *COLUMNS)).splitlines()
        for condition, group in groupby(zip(rows, lines, strict=True), key=lambda pair: pair[0][0]):
            head += "\n".join(["", condition, *(line for _, line in group)])
        return head if rows else ""

    def markdown(self) -> str:
        """For a page of Markdown, such as a comment on a change."""
        aside = ["\n".join(f"- {reason}" for reason in self._why_not()), self._facts()]
        parts = [f"**{self.found()}**", self.beside, self.table().markdown(), *aside]
        return "\n\n".join(filter(None, parts)) + "\n"

    def section(self) -> str:
        """HTML to stand in a page; its chart has the figures above 0, as new over old."""
        figures = [
            Changed(f"{s.condition}, {_statistic(s)}", v.effect, v.low, v.high,
                    compared.OUTCOMES[v.verdict], v.each)
            for v, s in self.pairs if s.ratio and v.effect
        ]  # fmt: skip
        chart = charts.changes(figures, note=self.note) if figures else None
        drawn = charts.bundle(chart.to_dict())["image/svg+xml"] if chart else ""
        facts = tuple((f.what, f.old, f.new) for f in self.difference.facts)
        return filled(
            "difference.html", found=self.found(), busy=self.beside, chart=Markup(drawn),
            table=Markup(self.table().html()), why_not=self._why_not(), facts=self._facts(),
            differences=Markup(Table(("what else differs", "old", "new"), facts).html()),
        )  # fmt: skip

    # What is not clear yet, and what was not compared at all.
    def _why_not(self) -> list[str]:
        without = [f"{s.condition}, {_statistic(s)}: {v.why}" for v, s in self.pairs
                   if v.verdict == UNDECIDED]  # fmt: skip
        return [*without, *self.difference.why_not]

    def _caption(self) -> str:
        caption = "Old and new are pooled over all runs. The interval is of the delta, 95 %."
        alone = "Each comparison by itself has a risk of 5 % of a wrong answer."
        return f"{caption} {one_risk(v.among for v in self.difference.effects) or alone}"

    def _facts(self) -> str:
        number = len(self.difference.facts)
        return f"What else differs, such as settings and versions: {number}."


def page(comparisons: Sequence[OldAndNew]) -> str:
    """New results against older ones as one HTML file without scripts, for screens and paper."""
    differences = [comparison.difference for comparison in comparisons]
    title = f"{comparisons[0].study}: {_last(differences[0].new)} against "
    title += ", ".join(_last(difference.old) for difference in differences)
    sections = [(each.difference.old, Markup(each.section())) for each in comparisons]
    return filled("changed.html", title=title, sections=sections)


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
