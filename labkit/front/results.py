"""The results on the front page: listed, chosen by a word, reported, and two of them compared."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ipywidgets as widgets  # type: ignore[import-untyped]

from labkit import studies
from labkit.errors import BadInput, Unknown
from labkit.front.area import Area, Speaker, Worker, button, heading, link
from labkit.machine.places import HOME
from labkit.pages.answer import answer, given, report_of
from labkit.pages.filled import filled, safe
from labkit.pages.lab_panel import wrapped
from labkit.pages.old_and_new import old_and_new
from labkit.pages.score_line import ScoreLine, counts_as
from labkit.results import IMPORTS
from labkit.running.open_lab import named_results
from labkit.runs.index import open_store

MOST_ROWS = 40
LISTING = """
select results.path, coalesce(nullif(study, ''), '?') as study, coalesce(label, '') as label,
  coalesce(nullif(lab, ''), '?') as lab, coalesce(tier, '') as tier,
  coalesce(damaged, '') as damaged, count(runs.id) as runs,
  count(*) filter (where state = 'finished') as finished,
  coalesce(max(nullif(started, '')), '') as "when"
from results left join runs on runs.results = results.id
group by results.id order by "when" desc, results.path
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
    def called(self) -> str:
        """Its label, or the name of its folder."""
        return "recorded" if self.recorded else self.label or self.path.name

    @property
    def made(self) -> str:
        """The source of its figures: real hosts, an emulated lab, another tool."""
        kinds = {"hosts": "real hosts", IMPORTS: "imported", "": "unknown lab"}
        return kinds.get(self.tier, "emulated")

    @property
    def name(self) -> str:
        """Its name in a choice."""
        return f"{self.study}, {self.called}, {self.when[:16].replace('T', ' ')}".rstrip(", ")

    @property
    def report_file(self) -> Path:
        """The file that its report is written to."""
        return report_of(self.study, self.called, self.path)

    @property
    def report(self) -> Path | None:
        """Its report, if one was written."""
        return self.report_file if self.report_file.is_file() else None

    def has(self, words: Sequence[str]) -> bool:
        """Whether each of these words is in its study, label or lab."""
        text = " ".join((self.study, self.label, self.lab, self.made, self.path.name)).lower()
        return all(word.lower().replace("-", "_") in text.replace("-", "_") for word in words)


def shelf() -> list[Shelved]:
    """List all results of this machine and those that come with labkit, newest first."""
    return [Shelved(**{**row, "path": Path(row["path"])}) for row in open_store().query(LISTING)]


def newest(items: Sequence[Shelved]) -> dict[str, Shelved]:
    """Return the newest results of each study: those of this machine, else the recorded ones."""
    oldest_first = [item for item in reversed(items) if item.finished]
    in_turn = sorted(oldest_first, key=lambda item_of: (not item_of.recorded, item_of.when))
    return {item.study: item for item in in_turn}


def write_report(item: Shelved) -> Path:
    """Write the report of results that have none; seconds, as their notebook runs."""
    if item.study not in studies.names():
        hint = f"as a page: labkit scorecard {item.path} --html"
        raise BadInput(f"{item.path} has no notebook", hint=hint)
    results, file = named_results(str(item.path)), item.report_file
    values = given(item.study, str(results.path), results.asked, file.stem)
    target = file.with_suffix(".ipynb")
    answer(studies.find(item.study), values, lambda _: None, lambda _: None, target=target)
    return file


class ResultsSection:
    """All results of this machine; `changed` is called when a report was written."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.shelved: Sequence[Shelved] = ()
        self.lines: Sequence[ScoreLine] = ()
        self._changed = on_change
        self.speaker, self.listed, self.found = Speaker(), Area(), Area()
        self.worker = Worker(self.speaker)
        wide = widgets.Layout(width="min(100%, 420px)")
        self.filter = widgets.Text(
            description="Filter", placeholder="words of a study, label or lab", layout=wide,
            continuous_update=False,
        )  # fmt: skip
        self.new, self.old = (
            widgets.Combobox(description=name, placeholder="type to choose results",
                             layout=wide, continuous_update=False)
            for name in ("Results", "Compare to")
        )  # fmt: skip
        self.report = button("Write report", "Write the report of the chosen results", "file")
        self.compare = button("Compare", "Compare the chosen results with older ones", "exchange")
        self.filter.observe(lambda _: self.show(), names="value")
        self.report.on_click(lambda _: self.worker.begin("Writing the report", self.write))
        self.compare.on_click(lambda _: self.worker.begin("Comparing", self.set_beside))
        self.view = widgets.VBox(
            [heading("Results"), self.filter, self.listed.widget,
             wrapped([self.new, self.report]), wrapped([self.old, self.compare]),
             self.speaker.widget, self.found.widget]
        )  # fmt: skip

    @property
    def chosen(self) -> list[Shelved]:
        """The results that the filter leaves."""
        return [item for item in self.shelved if item.has(self.filter.value.split())]

    def take(self, items: Sequence[Shelved], lines: Sequence[ScoreLine] = ()) -> None:
        """Show these results; the verdicts on them come later, as lines of the scorecard."""
        self.shelved, self.lines = items, lines or self.lines
        self.show()

    def show(self) -> None:
        """List what the filter leaves, and offer it to be chosen."""
        self.new.options = self.old.options = tuple(names_of(self.chosen))
        self.listed.show(listed_html(self.chosen, len(self.shelved), self.lines))

    def write(self) -> str:
        """Write the report of the chosen results, and link to it."""
        item = self._pick(self.new.value)
        file = item.report or write_report(item)
        self.found.show(f"<p>The report of {safe(item.name)}: {link(file, file.name)}</p>")
        self.show()
        self._changed()
        return f"The report is there: {file}"

    def set_beside(self) -> str:
        """Compare the chosen results with the older ones."""
        new, old = self._pick(self.new.value), self._pick(self.old.value)
        both = old_and_new(named_results(str(old.path)), named_results(str(new.path)))
        self.found.show(
            f"<h3>{safe(new.name)}, compared to {safe(old.name)}</h3>"
            f'<div class="lk-scroll">{both.section()}</div>'
        )
        return "Compared; the table is below."

    def _pick(self, name: str) -> Shelved:
        items = names_of(self.shelved)
        if not name:
            hint = "type part of its name, then choose from the list"
            raise BadInput("no results are chosen", hint=hint)
        if name not in items:
            raise Unknown("results", name, items)
        return items[name]


def names_of(items: Sequence[Shelved]) -> dict[str, Shelved]:
    """Results by a name for each; two of one name are numbered."""
    by_name: dict[str, Shelved] = {}
    for item in items:
        number = sum(name.partition(" (")[0] == item.name for name in by_name)
        by_name[f"{item.name} ({number + 1})" if number else item.name] = item
    return by_name


def listed_html(items: Sequence[Shelved], among: int, lines: Sequence[ScoreLine] = ()) -> str:
    """The newest of these as a table, with their verdicts and a link to each report.

    Of the results of one lab those with the most blocks are judged.
    """
    text = f"{len(items)} of {among} results"
    text += f"; the newest {MOST_ROWS} are shown" if len(items) > MOST_ROWS else ""
    counts_of = defaultdict[tuple[str, str], Counter[str]](Counter)
    for line in lines:
        counts_of[line.study, line.when][counts_as(line)] += 1
    rows = [
        {
            "study": item.study, "name": item.called, "lab": f"{item.lab} ({item.made})",
            "measured": item.when[:16].replace("T", " "),
            "runs": f"{item.finished} of {item.runs}{'; DAMAGED' * bool(item.damaged)}",
            "verdicts": ", ".join(f"{n} {w}" for w, n in counts_of[item.study, item.when].items()),
            "report": link(item.report, "open", f"Open the report: {name}")
            if item.report else "none",
        }
        for name, item in list(names_of(items).items())[:MOST_ROWS]
    ]  # fmt: skip
    return filled("results.html", text=text, rows=rows)
