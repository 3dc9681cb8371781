"""Cards of studies: what each asks, whether it can run here, when it ran last, its verdicts."""

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from labkit import studies
from labkit.front.readiness import NO, NOT_CLEAR, PARTLY, YES, Readiness
from labkit.front.shelf import Shelved, newest
from labkit.machine.places import HOME, out
from labkit.pages.score_line import NO_RUN, NO_STUDY_YET, counts_as
from labkit.pages.scorecard import Scorecard
from labkit.pages.tables import CHIPS, Table, chip, safe
from labkit.running import notebook
from labkit.study import Study
from labkit.verdict import REAL_KERNEL

SHORT = {PARTLY: "some conditions run", NO: "does not run", NOT_CLEAR: "not known"}
SVG, HEADING = "image/svg+xml", "## What we see"
SIGNS = {YES: "✔", PARTLY: "◐", NO: "✘", NOT_CLEAR: "?"}
SECTION = re.compile(r"\b[Ss]ections? (?:on )?([^,(]+)")
MOST_SECTIONS = 2
NEVER = "never run on this machine"
LOOKING, JUDGING = "looking", "judging"


@dataclass(frozen=True)
class Verdicts:
    """The number of a study's claims with each verdict; `real` if some ran on a real kernel."""

    counts: Mapping[str, int]
    real: bool = False
    answers: tuple[str, ...] = ()
    """The answer to the study on each lab, with the evidence that it rests on."""


@dataclass(frozen=True)
class StudyCard:
    """The content of one card; None is not known yet."""

    study: Study
    notebook: Path
    ready: Readiness | None = None
    listed: bool = False
    """Whether the results have been listed; before, nothing is known of a last run."""
    last: Shelved | None = None
    verdicts: Verdicts | None = None

    @property
    def source(self) -> str:
        """The document, and the sections that the claims come from."""
        sections_all = [
            part.strip() for claim in self.study.claims for part in _sections(claim.source)
        ]
        sections = list(dict.fromkeys(sections_all))
        addition = (
            f" and {len(sections) - MOST_SECTIONS} more" if len(sections) > MOST_SECTIONS else ""
        )
        text = ", ".join(sections[:MOST_SECTIONS]) + addition
        return f"{self.study.source}: {text}" if text else self.study.source

    @property
    def last_run(self) -> str:
        """Its last run: when, on which lab, and whether that was emulated."""
        if not self.listed:
            return LOOKING
        if self.last is None:
            return NEVER
        item, day = self.last, self.last.when[:10] or "on an unknown day"
        origin = item.made
        if self.verdicts and self.verdicts.real and origin.startswith("emulated"):
            origin += "; some conditions on this machine's own kernel"
        ran = f"{day} on lab {item.lab} ({origin})"
        return f"{NEVER}; recorded {ran}" if item.recorded else ran

    @property
    def answers(self) -> tuple[str, ...]:
        """The answer on each lab that has results; none while claims are judged."""
        return self.verdicts.answers if self.verdicts else ()

    @property
    def counted(self) -> dict[str, int]:
        """Of each verdict how many claims have it; empty while they are judged."""
        return dict(self.verdicts.counts) if self.verdicts else {}


@dataclass(frozen=True)
class Lesson:
    """A notebook about labkit itself."""

    title: str
    notebook: Path


@dataclass
class Known:
    """All that the front page has found so far; a part is None until it was looked at."""

    studies: Sequence[Study] = field(default_factory=lambda: shown()[0])
    ready: Mapping[str, Readiness] | None = None
    shelved: Sequence[Shelved] | None = None
    score: Scorecard | None = None

    def cards(self) -> list[StudyCard]:
        """One card for each study, in the order of the notebooks."""
        last = newest(self.shelved or ())
        verdicts = verdicts_of(self.score) if self.score else {}
        study_cards = [
            StudyCard(
                study, notebook_of(study.name), (self.ready or {}).get(study.name),
                self.shelved is not None, last.get(study.name), verdicts.get(study.name),
            )
            for study in self.studies
        ]  # fmt: skip
        return sorted(study_cards, key=lambda card: card.notebook.name)


def shown() -> tuple[list[Study], list[str]]:
    """The studies that have a card, and why others have none."""
    read, faults = studies.readable()
    bare = [study.name for study in read if notebook.found(study.name) is None]
    reasons = [*(odd.what for odd in faults), *(f"{name} has no notebook" for name in bare)]
    return [study for study in read if study.name not in bare], reasons


def _sections(source: str) -> list[str]:
    return re.split(r" and ", match[1]) if (match := SECTION.search(source)) else []


def verdicts_of(score: Scorecard) -> dict[str, Verdicts]:
    """Count the verdict of the best evidence on each claim, study by study."""
    verdicts: dict[str, Verdicts] = {}
    lines_of_best = score.of_best()
    for name in {line.study for line in score.lines}:
        lines = [line for line in lines_of_best if line.study == name]
        real = any(line.kernel == REAL_KERNEL for line in lines)
        answers = dict.fromkeys(
            f"{line.answer} ({line.lab}, {line.blocks} blocks)"
            for line in score.lines if line.study == name and line.answer
        )  # fmt: skip
        verdicts[name] = Verdicts(Counter(map(counts_as, lines)), real, tuple(answers))
    return verdicts


def notebooks() -> Path:
    """The folder of notebooks that may be changed: a copy beside the results, if there is one."""
    copy = out() / "notebooks"
    return copy if copy.is_dir() else HOME / "notebooks"


def notebook_of(study: str) -> Path:
    """The notebook of a study that a card links to; of a workspace, by a link to that."""
    file = notebook.notebook(study)
    if file.is_relative_to(HOME / "notebooks"):
        return notebooks() / file.name
    return link_of(file.parents[1]) / "notebooks" / file.name


def link_of(folder: Path) -> Path:
    """The place among the results through which JupyterLab reaches a workspace."""
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    return out() / "workspaces" / f"{folder.name}-{digest}"


def lessons() -> list[Lesson]:
    """The notebooks that are of no study, by their titles."""
    names_of_files = {file.name for name in studies.names() if (file := notebook.found(name))}
    files = [
        file for file in sorted(notebooks().glob("[0-9]*.ipynb")) if file.name not in names_of_files
    ]
    return [Lesson(_title(file), file) for file in files]


def _title(file: Path) -> str:
    first = json.loads(file.read_text("utf-8"))["cells"][0]["source"]
    return "".join(first).splitlines()[0].lstrip("# ")


def href(file: Path) -> str:
    """The way from the notebook that runs this to a file, as a link of a page."""
    return quote(os.path.relpath(file, Path.cwd()))


def link(file: Path, text: str, label_text: str = "") -> str:
    """A link to a file; `label_text` is what a screen reader calls it."""
    label = f' aria-label="{safe(label_text)}"' if label_text else ""
    return f'<a href="{safe(href(file))}"{label}>{safe(text)}</a>'


def cards_html(cards: Iterable[StudyCard], lessons_of: Iterable[Lesson]) -> str:
    """All cards, below links to the lessons."""
    items = "".join(f'<li class="lk-card">{card_html(card)}</li>' for card in cards)
    return f'{lessons_html(lessons_of)}<ul class="lk-cards" aria-label="Studies">{items}</ul>'


def lessons_html(lessons_of: Iterable[Lesson]) -> str:
    """Links to the lessons, and what is not shown."""
    first = " · ".join(link(lesson.notebook, lesson.title) for lesson in lessons_of)
    odd = "".join(f"<p><b>Not shown:</b> {safe(reason)}</p>" for reason in shown()[1])
    return f"<p>Lessons: {first}</p>{odd}"


def card_html(card: StudyCard) -> str:
    """A card: the last picture and the answer first; what blocks it is folded."""
    title = studies.asks(card.study)
    answers = "".join(f"<p>{safe(answer)}</p>" for answer in card.answers[1:])
    parts = [
        f"<h3>{link(card.notebook, title, f'Open the notebook: {title}')}</h3>",
        f'<img src="{picture}" alt="">' if (picture := picture_of(card)) else "",
        *(f"<p><b>Found:</b> {safe(answer)}</p>" for answer in card.answers[:1]),
        f"<details><summary>on other labs</summary>{answers}</details>" if answers else "",
        f"<p>{_verdicts(card)}</p>",
        _ready(card.ready),
        f'<p class="lk-dim">Last run: {safe(card.last_run)}{_report(card)}</p>',
        f'<p class="lk-dim">{safe(card.source)}</p>',
    ]
    return "".join(parts)


def picture_of(card: StudyCard) -> str:
    """The address of the last picture: of the last report, else of the run that came with labkit.

    Empty if there is neither.
    """
    if card.last and card.last.report and (picture := first_picture(card.last.report)):
        return f"data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}"
    file = card.notebook.parent / "pictures/studies" / f"{card.notebook.stem}.png"
    return safe(href(file)) if file.is_file() else ""


@lru_cache
def first_picture(report: Path) -> str:
    """The first picture that a report's notebook shows of what was measured, as SVG."""
    try:
        cells = json.loads(report.with_suffix(".ipynb").read_text("utf-8"))["cells"]
    except (OSError, ValueError, LookupError):
        return ""
    numbers = [n for n, cell in enumerate(cells) if HEADING in "".join(cell["source"])]
    outputs = [
        output for cell in cells[min(numbers, default=0) :] for output in cell.get("outputs", ())
    ]
    pictures = (output["data"][SVG] for output in outputs if SVG in output.get("data", {}))
    return "".join(next(pictures, ""))


def _ready(ready: Readiness | None) -> str:
    if ready is None:
        return f"<p><b>Here:</b> {LOOKING}</p>"
    sign = f"<b>Here:</b> {SIGNS[ready.state]}"
    if ready.state == YES:
        return f"<p>{sign} {safe(ready.words)}</p>"
    fix = f"<p>To do: <code>{safe(ready.fix)}</code></p>" if ready.fix else ""
    short = f"{sign} {SHORT[ready.state]}"
    return f"<details><summary>{short}</summary><p>{safe(ready.words)}</p>{fix}</details>"


def _report(card: StudyCard) -> str:
    if not card.last or not card.last.report:
        return ""
    return f" · {link(card.last.report, 'report', f'Open the last report: {card.study.title}')}"


def _verdicts(card: StudyCard) -> str:
    if card.verdicts is None:
        return f"<b>Claims:</b> {JUDGING}"
    words = [word for word in (*CHIPS, NO_RUN, NO_STUDY_YET) if card.counted.get(word)]
    chips = [
        f'<span class="lk-count">{card.counted[word]} '
        f"{chip(word) if word in CHIPS else safe(word)}</span>"
        for word in words
    ]
    return f"<b>Claims:</b> {' '.join(chips)}"


def cards_table(cards: Iterable[StudyCard]) -> Table:
    """The same as a table, for a terminal and for a page without widgets."""
    rows = [
        (
            studies.asks(card.study), card.source, "; ".join(card.answers),
            card.ready.words if card.ready else LOOKING, card.last_run,
            ", ".join(f"{n} {word}" for word, n in card.counted.items()) or JUDGING,
        )
        for card in cards
    ]  # fmt: skip
    return Table(("study", "document", "found", "here", "last run", "claims"), tuple(rows))
