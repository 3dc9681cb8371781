"""Cards of studies: what each asks, whether it can run here, when it ran last, its verdicts."""

import base64
import hashlib
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from labkit import studies
from labkit.box.this_machine import Report
from labkit.check import OK, Subject
from labkit.checks.conditions import Outlook, outlooks
from labkit.errors import LabkitError
from labkit.front.area import href
from labkit.front.results import Shelved, newest
from labkit.lab import Lab
from labkit.machine.places import HOME, out
from labkit.pages.filled import CHIPS, filled
from labkit.pages.score_line import NO_RUN, NO_STUDY_YET, counts_as
from labkit.pages.scorecard import Scorecard
from labkit.pages.tables import Table
from labkit.programs.packages import absent, installable, package_of
from labkit.running import notebook
from labkit.running.preparing import THIS_MACHINE, needed
from labkit.study import Study
from labkit.verdict import REAL_KERNEL

YES, PARTLY, NO, NOT_CLEAR = "yes", "in part", "no", "not known"
IN_A_BOX = ("root", "rootless")
"""Tiers that have a box."""
QUIET = 0.3
"""Runnable tasks for each CPU, up to which a machine is quiet."""
SIGN = {True: "✔", False: "✘"}
NEEDS_HOSTS = "needs hosts of your own; recorded runs open here"
SHORT = {PARTLY: "some conditions run", NO: "does not run", NOT_CLEAR: "not known"}
SVG, HEADING = "image/svg+xml", "## What we see"
SIGNS = {YES: "✔", PARTLY: "◐", NO: "✘", NOT_CLEAR: "?"}
SECTION = re.compile(r"\b[Ss]ections? (?:on )?([^,(]+)")
MOST_SECTIONS = 2
NEVER = "never run on this machine"
LOOKING, JUDGING = "looking", "judging"


@dataclass(frozen=True)
class Readiness:
    """Whether a study can run, in words, and what to do where it cannot."""

    state: str
    words: str
    fix: str = ""


def quiet_now() -> tuple[bool, str]:
    """Whether this machine is quiet enough to measure, and that in words."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    quiet = load <= QUIET * cpus
    words = "is quiet" if quiet else "is busy: figures measured now are noisy"
    return quiet, f"{SIGN[quiet]} This machine {words} (load {load:.1f} on {cpus} CPUs)."


def on_this_machine(study: Study, machine: Report) -> Readiness:
    """The readiness if no lab is open: whether this machine can make the lab in a box needed."""
    if machine.tier in IN_A_BOX:
        if packages := _lacks(study):
            words = f"runs here in the lab in a box, in part: it lacks {', '.join(packages)}"
            return Readiness(PARTLY, words, shlex.join(["labkit", "prepare", study.name]))
        up = shlex.join(["labkit", "box", "up", *([study.topology] if study.topology else [])])
        return Readiness(YES, "can run here in the lab in a box", up)
    return Readiness(NO, NEEDS_HOSTS, machine.next)


# Where a tool is not free, a free one takes its place.
def _lacks(study: Study) -> list[str]:
    programs = filter(installable, absent(needed([study], None)[THIS_MACHINE]))
    packages = (package_of(program) for program in programs)
    return list(dict.fromkeys(package.name for package in packages if not package.source))


def on_lab(lab: Lab, answering: Iterable[str]) -> tuple[dict[str, Readiness], str]:
    """Ask a lab which conditions it can measure, or why it could not be asked.

    Only hosts that answer are asked.
    """
    roles = tuple(answering)
    if not roles:
        return {}, f"no host of {lab.name} answers"
    try:
        groups = groupby(outlooks(Subject(lab, roles)), key=lambda outlook: outlook.study)
        return {name: _of([*group], lab.name) for name, group in groups}, ""
    except LabkitError as error:
        return {}, error.what


def _of(conditions: Sequence[Outlook], lab: str) -> Readiness:
    obstacles = [condition for condition in conditions if condition.state != OK]
    if not obstacles:
        return Readiness(YES, f"runs on {lab}: all {len(conditions)} conditions")
    first, able = obstacles[0], len(conditions) - len(obstacles)
    number = sum(obstacle.reason != first.reason for obstacle in obstacles)
    text = f"{first.reason}; {number} more for other reasons" if number else first.reason
    if able:
        words = f"{able} of {len(conditions)} conditions run on {lab}; the others not: {text}"
        return Readiness(PARTLY, words, first.fix)
    return Readiness(NO, f"does not run on {lab}: {text}", first.fix)


def of_all(
    studies_shown: Iterable[Study], machine: Report, lab: Lab | None, answering: Iterable[str]
) -> Mapping[str, Readiness]:
    """Say of every study whether it can run here now."""
    if lab is None:
        return {study.name: on_this_machine(study, machine) for study in studies_shown}
    readiness_of, odd = on_lab(lab, answering)
    silent = Readiness(NOT_CLEAR, odd, shlex.join(["labkit", "doctor", "--lab", str(lab.path)]))
    return {study.name: readiness_of.get(study.name, silent) for study in studies_shown}


@dataclass(frozen=True)
class Verdicts:
    """The number of a study's claims with each verdict; `real` if some ran on a real kernel."""

    counts: Counter[str]
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
    def title(self) -> str:
        """The question that it asks."""
        return studies.asks(self.study)

    @property
    def picture(self) -> str:
        """The address of its picture: of the last report, else the recorded run; or none."""
        if self.last and self.last.report and (drawn := first_picture(self.last.report)):
            return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"
        file = self.notebook.parent / "pictures/studies" / f"{self.notebook.stem}.png"
        return href(file) if file.is_file() else ""

    @property
    def source(self) -> str:
        """The document, and the sections that the claims come from."""
        found = filter(None, (SECTION.search(claim.source) for claim in self.study.claims))
        parts = (part.strip() for match in found for part in match[1].split(" and "))
        sections = list(dict.fromkeys(parts))
        others = len(sections) - MOST_SECTIONS
        text = ", ".join(sections[:MOST_SECTIONS]) + f" and {others} more" * (others > 0)
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


def verdicts_of(score: Scorecard) -> dict[str, Verdicts]:
    """Count the verdict of the best evidence on each claim, study by study."""
    verdicts: dict[str, Verdicts] = {}
    lines_of_best = score.of_best()
    for name in {line.study for line in score.lines}:
        lines = [line for line in lines_of_best if line.study == name]
        others = [line for line in score.lines if line.study == name]  # of other labs too
        answers = (f"{line.answer} ({line.lab}, {line.blocks} blocks)"
                   for line in (*lines, *others) if line.answer)  # fmt: skip
        verdicts[name] = Verdicts(
            Counter(map(counts_as, lines)), any(line.kernel == REAL_KERNEL for line in lines),
            tuple(dict.fromkeys(answers)),
        )  # fmt: skip
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


def lessons() -> dict[str, Path]:
    """The notebooks about labkit itself, which are of no study, by their titles."""
    of_studies = {file.name for name in studies.names() if (file := notebook.found(name))}
    files = sorted(notebooks().glob("[0-9]*.ipynb"))
    titles = {}
    for file in (file for file in files if file.name not in of_studies):
        first = json.loads(file.read_text("utf-8"))["cells"][0]["source"]
        titles["".join(first).splitlines()[0].lstrip("# ")] = file
    return titles


def cards_html(cards: Iterable[StudyCard], lessons_of: Mapping[str, Path]) -> str:
    """All cards, below links to the lessons."""
    lessons = Markup(lessons_html(lessons_of))
    return filled("cards.html", lessons=lessons, cards=[Markup(card_html(x)) for x in cards])


def lessons_html(lessons_of: Mapping[str, Path]) -> str:
    """Links to the lessons, and what is not shown."""
    return filled("lessons.html", lessons=lessons_of, hidden=shown()[1], href=href)


def card_html(card: StudyCard) -> str:
    """A card: the last picture and the answer first; what blocks it is folded."""
    return filled(
        "card.html", card=card, href=href, words=(*CHIPS, NO_RUN, NO_STUDY_YET), judging=JUDGING,
        looking=LOOKING, signs=SIGNS, short=SHORT,
    )  # fmt: skip


@lru_cache
def first_picture(report: Path) -> str:
    """The first picture that a report's notebook shows of what was measured, as SVG."""
    try:
        cells = json.loads(report.with_suffix(".ipynb").read_text("utf-8"))["cells"]
    except (OSError, ValueError, LookupError):
        return ""
    numbers = [n for n, cell in enumerate(cells) if HEADING in "".join(cell["source"])]
    outputs = (out for cell in cells[min(numbers, default=0) :] for out in cell.get("outputs", ()))
    pictures = (output["data"][SVG] for output in outputs if SVG in output.get("data", {}))
    return "".join(next(pictures, ""))


def cards_table(cards: Iterable[StudyCard]) -> Table:
    """The same as a table, for a terminal and for a page without widgets."""
    rows = [
        (
            card.title, card.source, "; ".join(card.verdicts.answers) if card.verdicts else "",
            card.ready.words if card.ready else LOOKING, card.last_run,
            ", ".join(f"{n} {word}" for word, n in card.verdicts.counts.items())
            if card.verdicts else JUDGING,
        )
        for card in cards
    ]  # fmt: skip
    return Table(("study", "document", "found", "here", "last run", "claims"), tuple(rows))
