"""The results that lie on this machine: listed, chosen by a word, reported, compared."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit import studies
from labkit.errors import BadInput
from labkit.machine.places import HOME
from labkit.pages.answer import answer, given, report_of
from labkit.pages.old_and_new import old_and_new
from labkit.pages.terminal import ProgressLine
from labkit.results import IMPORTS
from labkit.running.open_lab import named_results
from labkit.runs.index import open_store

LISTING = """
select results.path, study, label, lab, tier, damaged, count(runs.id) as runs,
  count(*) filter (where state = 'finished') as finished, max(nullif(started, '')) as last
from results left join runs on runs.results = results.id
group by results.id order by last desc, results.path
"""


@dataclass(frozen=True)
class Shelved:
    """One execution of a study, as the list of results shows it."""

    path: Path
    study: str
    label: str
    lab: str
    tier: str
    runs: int
    finished: int
    when: str
    damaged: str = ""

    @property
    def recorded(self) -> bool:
        """Whether it came with labkit."""
        return self.path.is_relative_to(HOME / "data")

    @property
    def made(self) -> str:
        """The source of its figures: real hosts, an emulated lab, another tool."""
        kinds = {"hosts": "real hosts", IMPORTS: "imported", "": "unknown lab"}
        return kinds.get(self.tier, "emulated")

    @property
    def name(self) -> str:
        """Its name in a choice."""
        label = "recorded" if self.recorded else self.label or self.path.name
        return f"{self.study}, {label}, {self.when[:16].replace('T', ' ')}".rstrip(", ")

    @property
    def report(self) -> Path | None:
        """Its report, if one was written."""
        file = report_file(self)
        return file if file.is_file() else None

    def has(self, words: Sequence[str]) -> bool:
        """Whether each of these words is in its study, label or lab."""
        text = " ".join((self.study, self.label, self.lab, self.made, self.path.name)).lower()
        return all(word.lower().replace("-", "_") in text.replace("-", "_") for word in words)


def shelf() -> list[Shelved]:
    """List all results of this machine and those that come with labkit, newest first."""
    rows = open_store().query(LISTING)
    return [
        Shelved(
            Path(row["path"]), row["study"] or "?", row["label"] or "", row["lab"] or "?",
            row["tier"] or "", row["runs"], row["finished"], row["last"] or "",
            row["damaged"] or "",
        )
        for row in rows
    ]  # fmt: skip


def newest(items: Sequence[Shelved]) -> dict[str, Shelved]:
    """Return the newest results of each study: those of this machine, else the recorded ones."""
    oldest_first = [item for item in reversed(items) if item.finished]
    in_turn = sorted(oldest_first, key=lambda item_of: (not item_of.recorded, item_of.when))
    return {item.study: item for item in in_turn}


def report_file(item: Shelved) -> Path:
    """The file that the report of these results is written to."""
    name = "recorded" if item.recorded else item.label or item.path.name
    return report_of(item.study, name, item.path)


def write_report(item: Shelved) -> Path:
    """Write the report of results that have none; seconds, as their notebook runs."""
    if item.study not in studies.names():
        raise BadInput(
            f"{item.path} has no notebook",
            hint=f"as a page: labkit scorecard {item.path} --html",
        )
    results, file = named_results(str(item.path)), report_file(item)
    values = given(item.study, str(results.path), results.asked, file.stem)
    silent = ProgressLine(io.StringIO())
    answer(studies.find(item.study), values, silent, target=file.with_suffix(".ipynb"))
    return file


def compared_page(new: Shelved, old: Shelved) -> str:
    """Compare two results of one study: what was found, a chart and a table, as HTML."""
    return old_and_new(named_results(str(old.path)), named_results(str(new.path))).section()
