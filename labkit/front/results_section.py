"""The results on the front page: listed, chosen by a word, their reports, two compared."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import ipywidgets as widgets  # type: ignore[import-untyped]

from labkit.errors import BadInput, Unknown
from labkit.front.area import Area, Speaker, Worker, button, heading
from labkit.front.cards import link
from labkit.front.shelf import Shelved, compared_page, write_report
from labkit.pages.filled import filled, safe
from labkit.pages.lab_panel import wrapped
from labkit.pages.score_line import ScoreLine, counts_as

MOST_ROWS = 40
Show = Callable[[], None]


class ResultsSection:
    """All results of this machine; `changed` is called when a report was written."""

    def __init__(self, on_change: Show) -> None:
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
        names = tuple(names_of(self.chosen))
        self.new.options = self.old.options = names
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
        self.found.show(
            f"<h3>{safe(new.name)}, compared to {safe(old.name)}</h3>"
            f'<div class="lk-scroll">{compared_page(new, old)}</div>'
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


def listed_html(
    items: Sequence[Shelved], among: int, lines: Sequence[ScoreLine] = ()
) -> str:  # fmt: skip
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
            "study": item.study,
            "name": "recorded" if item.recorded else item.label or item.path.name,
            "measured": item.when[:16].replace("T", " "),
            "lab": f"{item.lab} ({item.made})",
            "runs": f"{item.finished} of {item.runs}{'; DAMAGED' * bool(item.damaged)}",
            "verdicts": ", ".join(f"{n} {w}" for w, n in counts_of[item.study, item.when].items()),
            "report": link(item.report, "open", f"Open the report: {name}")
            if item.report else "none",
        }
        for name, item in list(names_of(items).items())[:MOST_ROWS]
    ]  # fmt: skip
    return filled("results.html", text=text, rows=rows)
