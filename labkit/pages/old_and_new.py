"""Two results of one study, the old beside the new: a table, a chart, and a page of both."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labkit import charts
from labkit.charts.changed import Changed
from labkit.errors import BadInput, readable
from labkit.gates import around
from labkit.machine.units import figure, shown
from labkit.pages import terminal
from labkit.pages.paper import PAPER
from labkit.pages.tables import Table, safe
from labkit.results import Results, Run
from labkit.running import compared
from labkit.running.compared import Difference, Sides
from labkit.running.open_lab import note
from labkit.statistics.interval import ends, in_blocks
from labkit.verdict import CONTRADICTED, HOLDS, UNDECIDED, Verdict, one_risk

COLUMNS = ("old", "new", "delta", "interval", "verdict")
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body><h1>{title}</h1>
{section}
</body></html>
"""
STYLE = """
body { max-width: 1000px; margin: 1.5em auto; padding: 0 1em; font: 15px/1.45 sans-serif }
table.labkit { border-collapse: collapse }
table.labkit th, table.labkit td { border-bottom: 1px solid var(--line) }
td { overflow-wrap: anywhere } summary { cursor: pointer; margin: 1em 0 }
"""


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
        by, word = _delta(verdict, sides).lstrip("+-"), compared.OUTCOMES[verdict.verdict]
        change = f"{sides.condition} ({_statistic(sides)}) is {by} {word} than it was"
        return f"{len(self.changed)} of {number} figures of {self.study} have changed; {change}."

    def rows(self) -> list[tuple[str, ...]]:
        """Of each figure its condition, what it is, and the five columns."""
        return [(s.condition, _statistic(s), *_five(v, s)) for v, s in self._pairs()]

    def table(self) -> Table:
        """The rows as a table."""
        return Table(("condition", "figure", *COLUMNS), tuple(self.rows()), self._caption())

    def drawn(self) -> list[Changed]:
        """The figures that a chart can show as new over old: those above 0."""
        return [
            Changed(_figure_of(s), v.effect, v.low, v.high, compared.OUTCOMES[v.verdict], v.each)
            for v, s in self._pairs() if s.ratio and v.effect
        ]  # fmt: skip

    def told(self) -> dict[str, Any]:
        """All of it for a script."""
        return {"found": self.found(), "beside": self.beside, **asdict(self.difference)}

    def chart(self) -> str:
        """New over old as SVG; empty where no figure is above 0."""
        if not (figures := self.drawn()):
            return ""
        spec = charts.changes(figures, note=self.note).to_dict()
        return str(charts.bundle(spec)["image/svg+xml"])

    def text(self) -> str:
        """For a terminal: the conditions as headings, so that it fits 80 columns."""
        head = ("", *COLUMNS)
        lines = terminal.table([row[1:] for row in self.rows()], head).splitlines()
        parts = [self.found(), f"old  {self.difference.old}\nnew  {self.difference.new}"]
        parts += [self.beside, self.note]
        parts = [readable(terminal.paragraph(p) if p is not parts[1] else p) for p in parts if p]
        parts.append("\n".join(self._add_heads(lines)) if self.rows() else "")
        parts += [terminal.paragraph(self._caption())]
        parts += ["\n".join(map(terminal.paragraph, self._why_not()))]
        return readable("\n\n".join(part for part in parts if part))

    def markdown(self) -> str:
        """For a page of Markdown, such as a comment on a change."""
        aside = ["\n".join(f"- {reason}" for reason in self._why_not()), self._facts()]
        parts = [f"**{self.found()}**", self.beside, self.table().markdown(), *aside]
        return "\n\n".join(part for part in parts if part) + "\n"

    def page(self) -> str:
        """One HTML file without scripts, for light and dark screens and for paper."""
        new, old = map(_name, (self.difference.new, self.difference.old))
        title = safe(f"{self.study}: {new} against {old}")
        return PAGE.format(title=title, style=PAPER + STYLE, section=self.section())

    def section(self) -> str:
        """The same without a head, to stand in another page."""
        facts = [(f.what, f.old, f.new) for f in self.difference.facts]
        differences = Table(("what else differs", "old", "new"), tuple(facts)).html()
        picture = self.chart()
        parts = [
            f"<p><b>{safe(self.found())}</b></p>",
            f"<p>{safe(self.beside)}</p>" if self.beside else "",
            f'<div class="labkit-chart">{picture}</div>' if picture else "",
            self.table().html(),
            *(f"<p>{safe(reason)}</p>" for reason in self._why_not()),
            f"<details><summary>{safe(self._facts())}</summary>{differences}</details>",
        ]
        return "\n".join(filter(None, parts))

    def _pairs(self) -> Iterator[tuple[Verdict, Sides]]:
        yield from zip(self.difference.effects, self.difference.sides, strict=True)

    def _add_heads(self, lines: list[str]) -> Iterator[str]:
        yield lines[0]
        before = ""
        for (condition, *_), line in zip(self.rows(), lines[1:], strict=True):
            if condition != before:
                yield condition
            before = condition
            yield line

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


def _five(v: Verdict, s: Sides) -> tuple[str, ...]:
    unit = shown(s.unit)
    old, new = (f"{figure(value)} {unit}".strip() for value in (s.old, s.new))
    return old, new, _delta(v, s), within(v, s.ratio, s.unit), compared.OUTCOMES[v.verdict]


def _delta(v: Verdict, s: Sides) -> str:
    return delta(v.effect, s.ratio, s.unit)


def within(v: Verdict, ratio: bool, unit: str = "") -> str:
    """The 95 % interval of a change or its few blocks, in the words of `delta`."""

    def write(end: float) -> str:
        return delta(end, ratio, unit)

    return "" if v.effect is None else in_blocks(v.each, write) or ends(v.low, v.high, write)


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


def _figure_of(s: Sides) -> str:
    return f"{s.condition}, {_statistic(s)}"


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
