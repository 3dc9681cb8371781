"""The results on the front page: listed, chosen by a word, their reports, two compared."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets  # type: ignore[import-untyped]

from labkit.errors import BadInput, Unknown
from labkit.front.area import Area, Speaker, Worker, button, heading
from labkit.front.cards import link
from labkit.front.shelf import Shelved, compared_page, write_report
from labkit.pages.lab_panel import wrapped
from labkit.pages.score_line import ScoreLine, counts_as
from labkit.pages.tables import safe

MOST = 40
HEAD = ("study", "name", "measured", "lab", "runs", "verdicts", "report")
Show = Callable[[], None]


class ResultsSection:
    """All results of this machine; `changed` is called when a report was written."""

    def __init__(self, changed: Show) -> None:
        self.shelved: Sequence[Shelved] = ()
        self.lines: Sequence[ScoreLine] = ()
        self._changed = changed
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
        return [shelved for shelved in self.shelved if shelved.has(self.filter.value.split())]

    def take(self, shelved: Sequence[Shelved], lines: Sequence[ScoreLine] = ()) -> None:
        """Show these results; the verdicts on them come later, as lines of the scorecard."""
        self.shelved, self.lines = shelved, lines or self.lines
        self.show()

    def show(self) -> None:
        """List what the filter leaves, and offer it to be chosen."""
        names = tuple(names_of(self.chosen))
        self.new.options = self.old.options = names
        self.listed.show(listed_html(self.chosen, len(self.shelved), self.lines))

    def write(self) -> str:
        """Write the report of the chosen results, and link to it."""
        shelved = self._picked(self.new.value)
        file = shelved.report or write_report(shelved)
        self.found.show(f"<p>The report of {safe(shelved.name)}: {link(file, file.name)}</p>")
        self.show()
        self._changed()
        return f"The report is there: {file}"

    def set_beside(self) -> str:
        """Compare the chosen results with the older ones."""
        new, old = self._picked(self.new.value), self._picked(self.old.value)
        self.found.show(
            f"<h3>{safe(new.name)}, compared to {safe(old.name)}</h3>"
            f'<div class="lk-scroll">{compared_page(new, old)}</div>'
        )
        return "Compared; the table is below."

    def _picked(self, name: str) -> Shelved:
        known = names_of(self.shelved)
        if not name:
            hint = "type part of its name, then choose from the list"
            raise BadInput("no results are chosen", hint=hint)
        if name not in known:
            raise Unknown("results", name, known)
        return known[name]


def names_of(shelved: Sequence[Shelved]) -> dict[str, Shelved]:
    """Results by a name for each; two of one name are numbered."""
    by_name: dict[str, Shelved] = {}
    for one in shelved:
        number = sum(name.partition(" (")[0] == one.name for name in by_name)
        by_name[f"{one.name} ({number + 1})" if number else one.name] = one
    return by_name


def listed_html(
    chosen: Sequence[Shelved], among: int, lines: Sequence[ScoreLine] = ()
) -> str:  # fmt: skip
    """The newest of these as a table, with their verdicts and a link to each report.

    Of the results of one lab those with the most blocks are judged.
    """
    text = f"{len(chosen)} of {among} results"
    text += f"; the newest {MOST} are shown" if len(chosen) > MOST else ""
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    names = list(names_of(chosen).items())[:MOST]
    judged = {(line.study, line.when): Counter[str]() for line in lines}
    for line in lines:
        judged[line.study, line.when][counts_as(line)] += 1
    rows = "".join(f"<tr>{_cells(name, shelved, judged)}</tr>" for name, shelved in names)
    table = f'<table class="lk-list"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<p>{text}.</p><div class="lk-scroll">{table if names else ""}</div>'


def _cells(name: str, one: Shelved, judged: Mapping[tuple[str, str], Counter[str]]) -> str:
    counts = judged.get((one.study, one.when), Counter[str]())
    runs = f"{one.finished} of {one.runs}" + ("; DAMAGED" if one.damaged else "")
    told = (one.study, "recorded" if one.recorded else one.label or one.path.name,
            one.when[:16].replace("T", " "), f"{one.lab} ({one.made})", runs,
            ", ".join(f"{n} {word}" for word, n in counts.items()))  # fmt: skip
    made = link(one.report, "open", f"Open the report: {name}") if one.report else "none"
    cells = (*map(safe, told), made)
    return "".join(
        f'<td data-label="{head}">{cell}</td>' for head, cell in zip(HEAD, cells, strict=True)
    )
