"""The scorecard: each claim of each document, on each lab that has measured it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from labkit import controls, imports, kernels, studies
from labkit.claim import Claim, NotHere
from labkit.claims import published as claims
from labkit.errors import BadInput, LabkitError, Unknown, readable
from labkit.machine.units import shown
from labkit.pages import terminal
from labkit.pages.tables import Table
from labkit.reason import Reason, What, why
from labkit.results import Results
from labkit.running import measured
from labkit.runs import bundle, looks
from labkit.runs.index import chosen, found
from labkit.statistics.interval import ends
from labkit.verdict import (
    CONTRADICTED,
    HOLDS,
    NOT_TESTABLE,
    SAME,
    UNDECIDED,
    LocalFigure,
    Verdict,
    check_margin,
)

WORDS = (HOLDS, CONTRADICTED, SAME, UNDECIDED, NOT_TESTABLE)
NO_STUDY_YET = "no study yet"
UNMEASURED = "not measured yet"
COUNTED = (*WORDS, UNMEASURED, NO_STUDY_YET)
"""Categories of claims: one that could be tested but was not has no verdict."""
ON_EMULATED, ON_REAL = "on emulated labs", "on real hosts or kernels"
HEAD = ("claim", "the claim", "verdict", "measured here", "printed", "runs", "lab", "why",
        "the document", "evidence")  # fmt: skip
NO_FIGURE = "no figure"
EMULATED = (
    "Emulated labs judge the order of things, not figures of hardware. "
    "Their substitutes for conditions: labkit results show STUDY."
)
REAL = f"Runs marked `{kernels.REAL}` used the kernel and CPUs of that machine itself."
IMPORTED = (
    "Measurements of other tools are marked as imported, and judged as if on real hosts: "
    "labkit cannot know the host."
)


@dataclass(frozen=True)
class ScoreLine:
    """One claim on one lab; `evidence` is the folder of results that the verdict rests on."""

    document: str
    study: str
    claim: str
    statement: str
    form: str
    verdict: str
    effect: float | None
    low: float | None
    high: float | None
    published: float | None
    runs: int
    reasons: tuple[Reason, ...]
    lab: str
    tier: str
    kernel: str
    source: str
    dispute: str
    prints: str
    evidence: str
    when: str
    controls: str = ""
    """The results of the lab's controls."""
    p: float | None = None
    """A field of a verdict, as are those below."""
    counted: float | None = None
    looks: tuple[int, ...] = ()
    spent: float | None = None
    given_up: str = ""
    local: LocalFigure | None = None
    """The measured figure, whether or not it tests the claim."""

    @property
    def reason(self) -> str:
        """Its reasons in words."""
        return why(self.reasons)

    @property
    def what(self) -> What:
        """The first of its reasons."""
        return self.reasons[0].what

    def told(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {**asdict(self), "reason": self.reason, "measured": str(self.local or "")}


@dataclass(frozen=True)
class Scorecard:
    """All lines, by document and claim; shows itself in a notebook, a terminal and a report."""

    lines: tuple[ScoreLine, ...]
    unread: tuple[str, ...] = ()
    narrowed: bool = False
    """Whether lines were chosen; then a terminal shows those too that nothing was measured of."""

    def only(self, document: str = "", verdict: str = "", disputed: bool = False) -> Scorecard:
        """The lines of documents with this in their titles, of this verdict, and in dispute."""
        if not (document or verdict or disputed):
            return self
        titles = {line.document for line in self.lines}
        if not any(document.lower() in title.lower() for title in titles):
            raise Unknown("document", document, titles)
        kept = [
            line for line in self.lines
            if document.lower() in line.document.lower()
            and verdict in ("", line.verdict) and (line.dispute or not disputed)
        ]  # fmt: skip
        return replace(self, lines=tuple(kept), narrowed=True)

    def counts(self) -> Table:
        """Per document: how many of its claims hold, by the newest verdict on each.

        Below, what was measured is counted by where: on emulated labs, on real hosts or kernels.
        """
        counted: dict[str, Counter[str]] = {}
        for line in self._newest():
            counted.setdefault(line.document, Counter())[counts_as(line)] += 1
        newest = [line for line in self._newest() if line.evidence]
        for where, real in ((ON_EMULATED, False), (ON_REAL, True)):
            counted[where] = Counter(counts_as(one) for one in newest if is_real(one) is real)
        counted["all"] = Counter(map(counts_as, self._newest()))
        rows = [(name, str(c.total()), *(str(c[word] or "") for word in COUNTED))
                for name, c in counted.items()]  # fmt: skip
        return Table(("document", "claims", *COUNTED), tuple(rows))

    def table(self) -> Table:
        """One row for each claim and lab."""
        return Table(HEAD, tuple(map(_row, self.lines)), self.caption())

    def markdown(self) -> str:
        """Both tables, for a page."""
        return f"{self.counts().markdown()}\n\n{self.table().markdown()}\n"

    def text(self) -> str:
        """For a terminal; what cannot be tested is counted only, unless it was asked for."""
        those = [x for x in self.lines if self.narrowed or x.verdict != NOT_TESTABLE]
        parts = [terminal.paragraph(self.caption())]
        for document, lines in groupby(those, key=lambda line: line.document):
            parts.append(f"{document}\n{'-' * len(document)}")
            groups = groupby(lines, key=lambda line: (line.study, line.evidence))
            parts += [_group(list(group)) for _, group in groups]
        if rest := len(self.lines) - len(those):
            parts.append(f"{rest} more are {NOT_TESTABLE}: --verdict not-testable lists them.")
        parts.append(self._counted() if self.lines else "No claim matches.")
        return "\n\n".join(part for part in parts if part)

    # As sentences, which fit any terminal and can be read aloud.
    def _counted(self) -> str:
        table = self.counts()
        lines = []
        for name, whole, *numbers in table.rows:
            each = zip(numbers, table.head[2:], strict=True)
            told = ", ".join(f"{number} {word}" for number, word in each if number)
            lines += [name, f"    {whole} claims: {told}" if told else "    no claims"]
        return "\n".join(map(terminal.paragraph, lines))

    def html(self) -> str:
        """Both tables as HTML, every word escaped."""
        return self.counts().html() + self.table().html()

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        whole = self.table()._repr_mimebundle_()
        return {**whole, "text/html": self.html(), "text/plain": self.text()}

    def _newest(self) -> Sequence[ScoreLine]:
        in_order = sorted(self.lines, key=lambda line: line.when)
        newest = {line.claim: line for line in in_order}
        return [line for line in self.lines if newest[line.claim] is line]

    def caption(self) -> str:
        """Notes on all lines: emulated labs, the shared risk, results that are unread."""
        tiers = {line.tier for line in self.lines}
        said = [EMULATED] if tiers - {"", "hosts", imports.TIER} else []
        said += [REAL] if any(line.kernel == kernels.REAL for line in self.lines) else []
        said += [IMPORTED] if imports.TIER in tiers else []
        if any(line.runs for line in self.lines):
            said += ["The claims of one study share one risk of 5 % of a wrong verdict (Holm)."]
        return " ".join([*said, *(f"Not read: {what}." for what in self.unread)])


def scorecard(*folders: Path, study: str = "", margin: float | None = None) -> Scorecard:
    """Judge all claims on all results below these folders, on those of this machine if none.

    With a `study`, only its claims; what differs by less than a `margin` is the same.
    """
    check_margin(margin)
    if study and study not in claims.names():
        raise Unknown("study with claims", study, claims.names())
    lines, unread = _list_studies(study)
    for path in found(chosen(folders)):
        try:
            results = Results.open(path if path.is_dir() else bundle.open_bundle(path))
            name = results.judged_as
            known = results.study in (*studies.names(), imports.STUDY)
            if known and name in lines:
                lines[name] += _judged(results, name, margin)
        except LabkitError as refused:
            unread.append(refused.what)
    whole = [line for name, known in lines.items() for line in known or _untested(name)]
    return Scorecard(
        tuple(sorted(whole, key=lambda line: line.document)), tuple(dict.fromkeys(unread)),
        narrowed=bool(study),
    )  # fmt: skip


# A study or a file of claims that cannot be read takes no other down.
def _list_studies(study: str) -> tuple[dict[str, list[ScoreLine]], list[str]]:
    lines: dict[str, list[ScoreLine]] = {}
    unread = []
    for name in [study] if study else claims.names():
        try:
            claims.of(name)
            lines[name] = []
            if name in studies.names():
                studies.find(name)
        except BadInput as odd:
            unread.append(odd.what)
    return lines, unread


def _judged(results: Results, study: str, margin: float | None) -> list[ScoreLine]:
    own = {claim.id: claim for claim in claims.of(study)}
    lab = results.asked.get("lab", {})
    scale = f", scale {results.asked['scale']}" if "scale" in results.asked else ""
    about = {"lab": f"{lab.get('name', '')}{scale}", "tier": str(lab.get("tier", "")),
             "evidence": str(results.path),
             "checked": " ".join(controls.said_of(results))}  # fmt: skip
    when = max((run.started for run in results.runs()), default="")
    when = when or str(results.asked.get("imported", ""))
    runs = len(results.finished())
    if looks.unfinished(results):  # a look at them would take of the risk, and tell little
        partly = Reason(What.UNFINISHED)
        verdicts = [replace(c.not_testable(partly), verdict=UNDECIDED) for c in own.values()]
    else:
        verdicts = [v for v in measured.judged(results, margin) if v.claim in own]
    if results.study == imports.STUDY:
        verdicts = [v.also(*_more(v)) for v in verdicts]
    on = results.asked.get("kernels", {})
    labels = {name: ", ".join(kernels.labels(claim.names(), on)) for name, claim in own.items()}
    return [
        _line(study, own[v.claim], v, runs, when, kernel=labels[v.claim], **about)
        for v in verdicts
    ]  # fmt: skip


def _more(verdict: Verdict) -> list[Reason]:
    lacks = any(reason.what is What.NOT_MEASURED for reason in verdict.reasons)
    return [Reason(What.IMPORT_TOGETHER)] if lacks else []


def _untested(study: str) -> list[ScoreLine]:
    known = study in studies.names()
    return [_line(study, c, c.not_testable(_not_yet(c, study, known))) for c in claims.of(study)]


def _not_yet(claim: Claim, study: str, known: bool) -> Reason:
    if isinstance(claim, NotHere):
        return Reason(What.DECLARED, said=claim.why)
    if known:
        return Reason(What.UNMEASURED, said=study)
    published = claims.published(study)
    metric = claim.metric or published.metric
    of = ", in ".join(filter(None, (metric, shown(published.units.get(metric, "")))))
    return Reason(What.NO_STUDY, (study, *claim.names()), of)


def _line(
    study: str, claim: Claim, v: Verdict, runs: int = 0, when: str = "", lab: str = "",
    tier: str = "", kernel: str = "", evidence: str = "", checked: str = "",
) -> ScoreLine:  # fmt: skip
    return ScoreLine(
        claims.published(study).document, study, v.claim, v.statement, v.form, v.verdict, v.effect,
        v.low, v.high, v.published, runs, v.reasons, lab, tier, kernel, v.source, claim.dispute,
        claim.prints, evidence, when, checked, v.p, v.counted, v.looks, v.spent, v.given_up,
        v.local,
    )  # fmt: skip


def counts_as(line: ScoreLine) -> str:
    """The verdict, or why there is none: nobody measured it, or no study could."""
    if line.evidence or line.verdict != NOT_TESTABLE:
        return line.verdict
    yet = {What.NO_STUDY: NO_STUDY_YET, What.UNMEASURED: UNMEASURED}
    return yet.get(line.what, NOT_TESTABLE)


def is_real(line: ScoreLine) -> bool:
    """Whether it was measured on real hosts, or on this machine's own kernel."""
    return line.tier in ("hosts", imports.TIER) or line.kernel == kernels.REAL


def found_and_printed(line: ScoreLine) -> tuple[str, str]:
    """The measured figure with its interval, and the one that the document prints, as text."""
    if line.local is None:
        return "", "" if line.published is None else _short(line.published)
    seen = line.local.effect
    around = ", ".join(map(_short, seen.each)) or ends(seen.low, seen.high, _short)
    effect = f"{_short(seen.value)} ({around}): {line.local.says}, {line.local.reach}"
    return effect, "" if seen.printed is None else _short(seen.printed)


def _row(line: ScoreLine) -> tuple[str, ...]:
    effect, printed = found_and_printed(line)
    lab = f"{line.lab} ({ran_on(line)})" if line.lab else ""
    reason = f"{line.reason} [disputed: {line.dispute}]" if line.dispute else line.reason
    runs = str(line.runs) if line.runs else ""
    return (
        line.claim,
        line.statement,
        line.verdict,
        effect,
        printed,
        runs,
        lab,
        reason,
        f"{line.source}: {line.prints or NO_FIGURE}",
        line.evidence,
    )


# One study of a document on one lab: where the evidence is, then claim by claim.
def _group(lines: Sequence[ScoreLine]) -> str:
    first = lines[0]
    parts = [f"{first.lab} ({first.tier})", f"{first.runs} runs", first.when[:10]]
    on = f" on {', '.join(filter(None, parts))}: {first.evidence}"
    head = readable(first.study + (on if first.evidence else ""))
    checked = [terminal.paragraph(readable(first.controls))] if first.controls else []
    return "\n\n".join([head, *checked, *map(_paragraph, lines)])


def _paragraph(line: ScoreLine) -> str:
    reason = line.reason if line.verdict == NOT_TESTABLE else f"Judged: {line.reason}"
    measured = [f"Measured here: {line.local}"] if line.local else []
    printed = f"Printed ({line.source}): {line.prints or NO_FIGURE}"
    disputed = [f"Disputed: {line.dispute}"] if line.dispute else []
    said = [f"    {text}." for text in (line.statement, *measured, reason, printed, *disputed)]
    whole = [f"{line.claim}: {line.verdict}", *said]
    return "\n".join(terminal.paragraph(readable(text)) for text in whole)


def ran_on(line: ScoreLine) -> str:
    """The tier of its lab, and whether on a real kernel, where conditions differ in that."""
    return ", ".join(filter(None, (line.tier, line.kernel)))


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def plain(card: Scorecard) -> list[dict[str, object]]:
    """The output of `labkit scorecard --json`."""
    return [line.told() for line in card.lines]
