"""The scorecard: each claim of each document, on each lab that has measured it.

It shows itself in a notebook, in a terminal, and as a page with each claim a click away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import WIDE, Unknown, readable
from labkit.lab import describe
from labkit.machine.units import capital
from labkit.pages import terminal
from labkit.pages.filled import filled
from labkit.pages.score_line import (
    ALL_WORDS,
    FIGURE_WORDS,
    VERDICT_WORDS,
    Judgements,
    ScoreLine,
    best,
    best_lines,
    counts_as,
    found_and_printed,
    in_columns,
    is_real,
    ran_on,
)
from labkit.pages.tables import Table
from labkit.results import IMPORTS
from labkit.runs.index import chosen, found
from labkit.verdict import AGREES, DIFFERS, NOT_TESTABLE, REAL_KERNEL, check_margin

if TYPE_CHECKING:
    import polars as pl

ON_EMULATED, ON_REAL = "on emulated labs", "on real hosts or kernels"
HEAD = ("claim", "the claim", "verdict", "measured here", "printed", "runs", "lab", "why",
        "the document", "evidence")  # fmt: skip
NO_FIGURE = "no figure"
EMULATION_NOTE = (
    "Emulated labs judge the order of things, not figures of hardware. "
    "Their substitutes for conditions: labkit results show STUDY."
)
REAL = f"Runs marked `{REAL_KERNEL}` used the kernel and CPUs of that machine itself."
OF_TOOLS = (
    "Measurements of other tools are marked as imported, and judged as if on real hosts: "
    "labkit cannot know the host."
)
SPARES_NOTE = "Not counted, as others of the same lab have more valid blocks or are newer"

HEADS = (*FIGURE_WORDS.values(), *VERDICT_WORDS.values(), " n/t")
NAME = WIDE - sum(map(len, HEADS))
LEGEND = (
    "Left: figures measured here, beside the document's. Right: verdicts on claims; contr.: "
    "contradicted, open: undecided, n/t: not testable here, or not measured yet."
)
HINT = "labkit scorecard --study NAME shows a study's answer and claims; --all shows all."


@dataclass(frozen=True)
class Scorecard:
    """All lines, by document and claim; shows itself in a notebook, a terminal and a report."""

    lines: tuple[ScoreLine, ...]
    unread: tuple[str, ...] = ()
    narrowed: bool = False
    """Whether lines were chosen; then a terminal shows each of them, else one screen."""
    others: tuple[str, ...] = ()
    """The results that count for nothing, as others of their lab have more valid blocks."""

    def only(self, document: str = "", verdict: str = "", in_dispute: bool = False) -> Scorecard:
        """The lines of documents with this in their titles, of this verdict, and in dispute."""
        if not (document or verdict or in_dispute):
            return self
        titles = {line.document for line in self.lines}
        if not any(document.lower() in title.lower() for title in titles):
            raise Unknown("document", document, titles)
        lines = [
            line for line in self.lines
            if document.lower() in line.document.lower()
            and verdict in ("", line.verdict) and (line.dispute or not in_dispute)
        ]  # fmt: skip
        return replace(self, lines=tuple(lines), narrowed=True)

    def counts(self) -> Table:
        """Per document: how many of its claims hold, by the best evidence on each.

        Below, what was measured is counted by where: on emulated labs, on real hosts or kernels.
        """
        lines, counters = self.of_best(), defaultdict[str, Counter[str]](Counter)
        for line in lines:
            counters[line.document][counts_as(line)] += 1
        for place, real in ((ON_EMULATED, False), (ON_REAL, True)):
            lines_there = (line for line in lines if line.evidence and is_real(line) is real)
            counters[place] = Counter(map(counts_as, lines_there))
        counters["all"] = Counter(map(counts_as, lines))
        rows = [(name, str(c.total()), *(str(c[word] or "") for word in ALL_WORDS))
                for name, c in counters.items()]  # fmt: skip
        return Table(("document", "claims", *ALL_WORDS), tuple(rows))

    def table(self) -> Table:
        """One row for each claim and lab."""
        return Table(HEAD, tuple(map(_row, self.lines)), self.caption())

    def frame(self) -> pl.DataFrame:
        """A polars data frame: of each claim the verdict, and beside it what was measured here."""
        import polars as pl

        return pl.DataFrame([*map(in_columns, self.lines)], infer_schema_length=None)

    def markdown(self) -> str:
        """Both tables, for a page."""
        return f"{self.counts().markdown()}\n\n{self.table().markdown()}\n"

    def text(self) -> str:
        """For a terminal: each line where some were chosen, else one screen."""
        if not self.narrowed:
            unread = [terminal.paragraph(f"Not read: {fault}.") for fault in self.unread]
            return "\n".join([_screen(self.of_best()), *unread])
        parts = [terminal.paragraph(self.caption())]
        for (document, url), lines in groupby(self.lines, key=lambda x: (x.document, x.url)):
            title = terminal.paragraph(readable(document))
            rule = "-" * max(map(len, title.splitlines()))
            parts.append("\n".join(filter(None, (title, rule, url))))
            groups = groupby(lines, key=lambda line: (line.study, line.evidence))
            parts += [_group(list(group)) for _, group in groups]
        parts.append(self._count() if self.lines else "No claim matches.")
        return "\n\n".join(part for part in parts if part)

    # As sentences, which fit any terminal and can be read aloud.
    def _count(self) -> str:
        table = self.counts()
        lines = []
        for name, total, *numbers in table.rows:
            pairs = zip(numbers, table.head[2:], strict=True)
            counts = ", ".join(f"{number} {word}" for number, word in pairs if number)
            claims = f"{total} claim{'s' * (total != '1')}"
            lines += [name, f"    {claims}: {counts}" if counts else "    no claims"]
        return "\n".join(map(terminal.paragraph, lines))

    def html(self) -> str:
        """Both tables as HTML, every word escaped."""
        return self.counts().html() + self.table().html()

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        bundle = self.table()._repr_mimebundle_()
        return {**bundle, "text/html": self.html(), "text/plain": self.text()}

    def of_best(self) -> list[ScoreLine]:
        """One line for each claim: of real hosts or kernels, of the most valid blocks, newest."""
        return best_lines(self.lines)

    def caption(self) -> str:
        """Notes on all lines: emulated labs, the shared risk, results that are unread."""
        tiers = {line.tier for line in self.lines}
        notes = [EMULATION_NOTE] if tiers - {"", "hosts", IMPORTS} else []
        notes += [REAL] if any(line.kernel == REAL_KERNEL for line in self.lines) else []
        notes += [OF_TOOLS] if IMPORTS in tiers else []
        if any(line.runs for line in self.lines):
            notes += ["The claims of one study share one risk of 5 % of a wrong verdict (Holm)."]
        notes += [f"{SPARES_NOTE}: {'; '.join(self.others)}."] if self.others else []
        return " ".join([*notes, *(f"Not read: {fault}." for fault in self.unread)])


def scorecard(*folders: Path, study: str = "", margin: float | None = None) -> Scorecard:
    """Judge all claims on all results below these folders, on those of this machine if none.

    With a `study`, only its claims; what differs by less than a `margin` is the same.
    """
    check_margin(margin)
    return card_of(gathered(Judgements(), found(chosen(folders)), study, margin), study)


def gathered(
    judgements: Judgements, paths: Iterable[Path], study: str = "", margin: float | None = None
) -> Judgements:  # fmt: skip
    """The same as `gather`: what judges takes long to load, and often nothing is to be judged."""
    from labkit.pages.evidence import gather

    return gather(judgements, paths, study, margin)


def card_of(judgements: Judgements, study: str = "") -> Scorecard:
    """The scorecard of what is known: of each lab its best evidence, and all that has none."""
    names = [study] if study else [*judgements.untested]
    evidence_best = best(judgements.evidence.values(), names)
    lines: dict[str, list[ScoreLine]] = {name: [] for name in names}
    for evidence in evidence_best:
        lines[evidence.study] += evidence.lines or ()
    lines_of_all = [x for name in names for x in lines[name] or judgements.untested.get(name, ())]
    spares = [evidence for evidence in judgements.evidence.values()
              if evidence.study in names and evidence not in evidence_best]  # fmt: skip
    refusals = (reason for name, reason in judgements.refused.items() if study in ("", name))
    return Scorecard(
        tuple(sorted(lines_of_all, key=lambda line: line.document)),
        tuple(dict.fromkeys([*refusals, *judgements.unread.values()])), bool(study),
        tuple(f"{evidence.path} ({evidence.blocks} valid blocks)" for evidence in spares),
    )  # fmt: skip


def _row(line: ScoreLine) -> tuple[str, ...]:
    effect, document = found_and_printed(line)
    lab = f"{line.lab} ({ran_on(line)})" if line.lab else ""
    reason = f"{line.why} [disputed: {line.dispute}]" if line.dispute else line.why
    runs = str(line.runs) if line.runs else ""
    return (
        line.claim, line.statement, line.verdict, effect, document, runs, lab, reason,
        f"{line.source}: {line.prints or NO_FIGURE}", line.evidence,
    )  # fmt: skip


# One study of a document on one lab: where the evidence is, then claim by claim.
def _group(lines: Sequence[ScoreLine]) -> str:
    first = lines[0]
    runs = f"{first.runs} runs in {first.blocks} block{'s' * (first.blocks != 1)}"
    parts = [f"{first.lab} ({describe(first.tier)})", runs, first.when[:10]]
    on = f" on {', '.join(filter(None, parts))}" if first.evidence else ""
    head = "\n".join(filter(None, (f"{first.study}{on}", first.evidence)))
    notes = [terminal.paragraph(readable(x)) for x in (first.answer, first.controls) if x]
    return "\n\n".join([readable(head), *notes, *map(_paragraph, lines)])


def _paragraph(line: ScoreLine) -> str:
    reasons = [f"Judged: {line.why}"] if line.why else []
    reason = [capital(line.why)] if line.verdict == NOT_TESTABLE else reasons
    figures = [f"Measured here: {line.local}"] if line.local else []
    document = f"Printed ({line.source}): {line.prints or NO_FIGURE}"
    disputes = [f"Disputed: {line.dispute}"] if line.dispute else []
    texts = [f"    {text}." for text in (line.statement, *figures, *reason, document, *disputes)]
    parts = [f"{line.claim}: {line.verdict}", *texts]
    return "\n".join(terminal.paragraph(readable(text)) for text in parts)


# All of it in 80 columns; there is one of these lines for each claim.
def _screen(lines: Sequence[ScoreLine]) -> str:
    rows = [_columns("", HEADS)]
    for document, claims in groupby(lines, key=lambda line: line.document):
        rows += _document(document, [*claims])
    rows.append(_counts(f"all {len(lines)} claims", lines))
    strongest = [_strongest("agreement", AGREES, lines), _strongest("disagreement", DIFFERS, lines)]
    return "\n".join([*rows, *map(terminal.paragraph, filter(None, [*strongest, LEGEND, HINT]))])


# A document of one study is one line; studies of which nothing was measured share one.
def _document(document: str, lines: Sequence[ScoreLine]) -> list[str]:
    studies = defaultdict[str, list[ScoreLine]](list)
    for line in lines:
        studies[line.study].append(line)
    trials = [name for name, study in studies.items() if any(line.evidence for line in study)]
    if len(studies) == 1 or not trials:
        return [_counts(f"{', '.join(studies)}: {document}", lines)]
    rows = [_counts(document, lines), *(_counts(f"  {name}", studies[name]) for name in trials)]
    if bare := [name for name in studies if name not in trials]:
        others = [line for line in lines if line.study in bare]
        rows.append(_counts(f"  not measured: {', '.join(bare)}", others))
    return rows


def _counts(name: str, lines: Sequence[ScoreLine]) -> str:
    figures = Counter(line.local.says for line in lines if line.local)
    verdicts = Counter(map(counts_as, lines))
    numbers = [figures[word] for word in FIGURE_WORDS] + [verdicts[word] for word in VERDICT_WORDS]
    others = len(lines) - sum(verdicts[word] for word in VERDICT_WORDS)
    return _columns(name, [str(number or "-") for number in (*numbers, others)])


def _columns(name: str, cells: Sequence[str]) -> str:
    name = readable(name)
    cut = name if len(name) <= NAME else f"{name[: NAME - 3].rstrip()}..."
    cells_named = zip(cells, HEADS, strict=True)
    return f"{cut:<{NAME}}{''.join(cell.rjust(len(head)) for cell, head in cells_named)}"


# What tests a claim is stronger than a local figure, however clear that is.
def _strongest(title: str, says: str, lines: Sequence[ScoreLine]) -> str:
    pairs = [(line, line.local) for line in lines if line.local and line.local.says == says]
    if not pairs:
        return ""
    line, local = min(pairs, key=lambda pair: (pair[0].verdict == NOT_TESTABLE, pair[1].p))
    return readable(f"Strongest {title}, {line.claim}: {line.statement}. Measured here: {local}.")


def page(card: Scorecard) -> str:
    """The whole page; it needs no network and holds no script."""
    return filled("scorecard.html", title="Scorecard", **_parts(card))


def body(card: Scorecard) -> str:
    """The same without its head, to stand in another page."""
    return filled("score_parts.html", **_parts(card))


def _parts(card: Scorecard) -> dict[str, Any]:
    best = card.of_best()
    documents = [
        _part(name, [*lines], [line for line in best if line.document == name])
        for name, lines in groupby(card.lines, key=lambda line: line.document)
    ]
    labs = Counter(_machine(line) for line in card.lines if line.evidence)
    return {
        "total": len(best), "beside": dict(Counter(x.local.says for x in best if x.local)),
        "totals": _counted(best), "documents": documents,
        "labs": [lab for lab, _ in labs.most_common()], "caption": card.caption(),
        "controls": dict(sorted({x.lab: x.controls for x in card.lines if x.controls}.items())),
        "figures": found_and_printed, "ran_on": ran_on, "no_figure": NO_FIGURE,
        "address": lambda line: Path(line.evidence).resolve().as_uri(),
    }  # fmt: skip


# Boxes of one tier are one machine, whatever their topology.
def _machine(line: ScoreLine) -> str:
    return line.lab if line.tier in ("hosts", IMPORTS) else describe(line.tier)


def _part(name: str, lines: Sequence[ScoreLine], best: Sequence[ScoreLine]) -> dict[str, Any]:
    labs = defaultdict[str, list[ScoreLine]](list)
    for line in filter(lambda line: line.evidence, lines):
        labs[_machine(line)].append(line)
    return {
        "title": name, "url": lines[0].url, "total": len(best), "best": _counted(best),
        "labs": {lab: _counted(best_lines(lines_of_lab)) for lab, lines_of_lab in labs.items()},
        "answers": [*dict.fromkeys(line.answer for line in lines if line.answer)],
        "lines": sorted(lines, key=lambda line: ALL_WORDS.index(line.verdict)),
    }  # fmt: skip


def _counted(lines: Sequence[ScoreLine]) -> dict[str, int]:
    counts = Counter(map(counts_as, lines))
    return {word: counts[word] for word in ALL_WORDS if counts[word]}
