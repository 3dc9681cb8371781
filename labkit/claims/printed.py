"""The figures that a document prints, row by row, from data/published/<study>.csv."""

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from labkit.errors import BadInput, Unknown
from labkit.machine import workspace
from labkit.machine.places import HOME, first_file
from labkit.machine.units import shown

NO_UNIT = "unit not printed"
LOW, HIGH = "range_low", "range_high"
"""Statistics of the two ends of a range."""
FOLDER = HOME / "data" / "published"
KIND = "published"
"""Folder of claims and figures in a workspace."""
# `VM vs Native: overhead [Copy] mean`: all but the metric may be left out.
CHOICE = re.compile(
    r"(?:(?P<condition>.+): )?(?P<metric>\w+)(?: \[(?P<x>.+)\])?(?: (?P<statistic>.+))?"
)


@dataclass(frozen=True)
class PrintedFigure:
    """One figure of a document; the fields are the columns of the file."""

    condition: str
    x_name: str
    x: str
    metric: str
    statistic: str
    value: str
    unit: str
    relation: str
    source: str

    @property
    def percentile(self) -> str:
        """`median`, `p99.9`; empty for what is none."""
        is_one = re.fullmatch(r"median|p\d+(\.\d+)?", self.statistic)
        return self.statistic if is_one else ""

    @property
    def about(self) -> str:
        """The quantity that it is a figure of, in words."""
        parts = (self.metric.replace("_", " "), self.percentile, self.at)
        return ", ".join(part for part in parts if part)

    @property
    def at(self) -> str:
        """The point that it was measured at: `vms 4`."""
        at = f"{self.x_name.replace('_', ' ')} {self.x}" if self.x_name else ""
        return at.replace(";", ", ")

    @property
    def statistic_shown(self) -> str:
        """Its statistic for people; the ends of a range are said by its value."""
        return "" if self.statistic in (LOW, HIGH) else self.statistic

    @property
    def unit_shown(self) -> str:
        """Its unit for people."""
        unit = self.unit
        return f"({unit})" if unit == NO_UNIT else shown(unit.replace("percent", "%"))


def folders() -> list[Path]:
    """The folders of claims and figures: labkit's, then those of workspaces."""
    return [FOLDER, *workspace.folders(KIND)]


def folder_of(study: str) -> Path:
    """The folder that holds the claims of a study, or its figures; labkit's where none does."""
    files = (folder / f"{study}.{end}" for end in ("toml", "csv") for folder in folders())
    return file.parent if (file := first_file(files)) else FOLDER


def figures(study: str, folder: Path | None = None) -> tuple[PrintedFigure, ...]:
    """All that is printed about a study; nothing, where its document prints none."""
    file = (folder or folder_of(study)) / f"{study}.csv"
    if not file.is_file():
        return ()
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, restkey="")
        columns = [column.name for column in fields(PrintedFigure)]
        if sorted(rows.fieldnames or ()) != sorted(columns):
            odd = ", ".join(sorted({*columns} ^ {*(rows.fieldnames or ())}))
            hint = f"its first line is: {','.join(columns)}"
            raise BadInput(f"{file}:1: these columns are missing or unknown: {odd}", hint=hint)
        return tuple(_figure(row, f"{file}:{rows.line_num}") for row in rows)


def _figure(row: dict[str, str], place: str) -> PrintedFigure:
    if "" in row or None in row.values():
        raise BadInput(f"{place}: has {'more' if '' in row else 'fewer'} cells than columns")
    try:
        float(row["value"])
    except ValueError:
        raise BadInput(f"{place}: {row['value']!r} is not a number") from None
    return PrintedFigure(**row)


def chosen(all_figures: Sequence[PrintedFigure], choices: Iterable[str]) -> list[PrintedFigure]:
    """The figures that these words choose: `metric`, `condition: metric [x] statistic`."""
    figures_chosen: list[PrintedFigure] = []
    for choice in choices:
        fits = [figure for figure in all_figures if _fits(figure, choice)]
        if not fits:
            raise Unknown("printed figure", choice, {figure.metric for figure in all_figures})
        figures_chosen += (figure for figure in fits if figure not in figures_chosen)
    return figures_chosen


def words(printed_figures: Iterable[PrintedFigure]) -> str:
    """Figures as text: `response time, median: Native = 18 µs, VM-Default = 34 µs`."""
    groups = groupby(printed_figures, key=lambda figure: figure.about)
    return "; ".join(f"{about}: {', '.join(_describe(list(group)))}" for about, group in groups)


def _fits(figure: PrintedFigure, choice: str) -> bool:
    match = CHOICE.fullmatch(choice)
    columns = match.groupdict() if match else {"metric": choice}
    return all(getattr(figure, name) == word for name, word in columns.items() if word is not None)


# The two ends of a range are two rows of the file.
def _describe(group: Sequence[PrintedFigure]) -> list[str]:
    lines = []
    for row, high in with_ends(group):
        to = f" to {high}" if high else ""
        name = row.condition.replace(";", ", ")
        lines.append(f"{name} {row.relation} {row.value}{to} {row.unit_shown}")
    return lines


def with_ends(group: Sequence[PrintedFigure]) -> list[tuple[PrintedFigure, str]]:
    """The figures, a range once, each with the upper end of its range; that is empty for others."""
    key = attrgetter("condition", "x", "metric")
    highs = {key(row): row.value for row in group if row.statistic.startswith(HIGH)}
    return [
        (row, highs[key(row)] if row.statistic.startswith(LOW) else "")
        for row in group if not row.statistic.startswith(HIGH)
    ]  # fmt: skip
