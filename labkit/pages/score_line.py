"""One line of the scorecard: a claim on one lab, as a value that JSON keeps and gives back."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.lab import describe
from labkit.machine.units import figure
from labkit.reason import Reason, What
from labkit.results import IMPORTS
from labkit.statistics.comparison import Effect
from labkit.statistics.interval import within
from labkit.verdict import (
    AGREES,
    CONTRADICTED,
    DIFFERS,
    HOLDS,
    NOT_TESTABLE,
    REAL_KERNEL,
    SAME,
    UNCLEAR,
    UNDECIDED,
    LocalFigure,
    Verdict,
)

WORDS = (HOLDS, CONTRADICTED, SAME, UNDECIDED, NOT_TESTABLE)
NO_STUDY_YET = "no study yet"
NO_RUN = "not measured yet"
ALL_WORDS = (*WORDS, NO_RUN, NO_STUDY_YET)
"""Categories of claims: one that could be tested but was not has no verdict."""
FIGURE_WORDS = {AGREES: " agree", DIFFERS: " differ", UNCLEAR: " unclear"}
VERDICT_WORDS = {HOLDS: " hold", CONTRADICTED: " contr.", SAME: " same", UNDECIDED: " open"}
"""Words above the columns of a screen."""


@dataclass(frozen=True)
class ScoreLine(Verdict):
    """A verdict on one lab; `evidence` is the folder of results that it rests on.

    Its `blocks` are the valid blocks of these results.
    """

    document: str = ""
    study: str = ""
    url: str = ""
    """The place where the document can be read."""
    dispute: str = ""
    prints: str = ""
    lab: str = ""
    tier: str = ""
    kernel: str = ""
    evidence: str = ""
    when: str = ""
    runs: int = 0
    controls: str = ""
    """The results of the lab's controls."""
    answer: str = ""
    """The answer to the study that the evidence gives, in one sentence."""

    def told(self) -> dict[str, Any]:
        """All of it for JSON."""
        told = super().told()
        reason = told.pop("why")
        return {**told, "reason": reason}


@dataclass(frozen=True)
class Evidence:
    """Results of a study on one lab, and the lines that they come to; None before a judgement."""

    path: str
    """The place that they were found in: a folder, or a bundle."""
    folder: str
    """The folder to read them from."""
    study: str = ""
    """Empty if they are of none that is judged."""
    lab: str = ""
    """The name, tier, scale and CPUs of this lab, which tell it from others."""
    blocks: int = 0
    """The number of valid blocks."""
    when: str = ""
    lines: tuple[ScoreLine, ...] | None = None


@dataclass(frozen=True)
class Judgements:
    """All that is known of claims: as they stand untested, and by the path of results."""

    untested: Mapping[str, tuple[ScoreLine, ...]] = field(default_factory=dict)
    """By study."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Of each study that is wrong itself, why."""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    """Of each path that cannot be read, why."""


def best(evidence: Iterable[Evidence], names: Collection[str]) -> list[Evidence]:
    """Of each of these studies and each lab the results with the most valid blocks, else newest.

    Results without a valid block count only where a study has no others.
    """
    of_studies = [item for item in evidence if item.study in names]
    measured = {item.study for item in of_studies if item.blocks}
    candidates = [item for item in of_studies if item.blocks or item.study not in measured]
    rising = sorted(candidates, key=lambda item: (item.blocks, item.when))
    last = {(item.study, item.lab): item for item in rising}
    return [item for item in candidates if last[item.study, item.lab] is item]


def best_lines(lines: Sequence[ScoreLine]) -> list[ScoreLine]:
    """Of each claim the line of real hosts or kernels, of the most valid blocks, else newest."""
    rising = sorted(lines, key=lambda line: (is_real(line), line.blocks, line.when))
    last = {line.claim: line for line in rising}
    return [line for line in lines if last[line.claim] is line]


def line_of(fields: Mapping[str, Any]) -> ScoreLine:
    """The line that `asdict` made these fields of, and JSON has kept."""
    local = fields["local"] and LocalFigure(**_with_effect(fields["local"]))
    blocks = {name: tuple(fields[name]) for name in ("looks", "each")}
    reasons = tuple(
        Reason(**{**_with_effect(reason), "what": What(reason["what"]),
                  "about": tuple(reason["about"])})
        for reason in fields["reasons"]
    )  # fmt: skip
    return ScoreLine(**{**fields, **blocks, "reasons": reasons, "local": local})


def _with_effect(fields: Mapping[str, Any]) -> dict[str, Any]:
    effect = fields["effect"]
    return {**fields, "effect": effect and Effect(**{**effect, "each": tuple(effect["each"])})}


def in_columns(line: ScoreLine) -> dict[str, Any]:
    """The line as a row of plain values: the claim, its verdict, and what was measured here."""
    local = line.local
    effect = local.effect if local else None
    return {
        "document": line.document, "study": line.study, "claim": line.claim,
        "statement": line.statement, "verdict": line.verdict,
        "agrees": local.says if local else "", "reach": local.reach if local else "",
        "quantity": effect.what if effect else "", "measured": effect.value if effect else None,
        "low": effect.low if effect else None, "high": effect.high if effect else None,
        "each": list(effect.each) if effect else [],
        "printed": effect.printed if effect else line.published,
        "unit": local.unit if local else "", "blocks": line.blocks,
        "lab": line.lab, "tier": line.tier, "reason": line.why, "answer": line.answer,
        "evidence": line.evidence,
    }  # fmt: skip


def counts_as(line: ScoreLine) -> str:
    """The verdict, or why there is none: nobody measured it, or no study could."""
    if line.evidence or line.verdict != NOT_TESTABLE:
        return line.verdict
    words = {What.NO_STUDY: NO_STUDY_YET, What.UNMEASURED: NO_RUN}
    return words.get(line.reasons[0].what, NOT_TESTABLE)


def is_real(line: ScoreLine) -> bool:
    """Whether it was measured on real hosts, or on this machine's own kernel."""
    return line.tier in ("hosts", IMPORTS) or line.kernel == REAL_KERNEL


def found_and_printed(line: ScoreLine) -> tuple[str, str]:
    """The measured figure with its interval, and the one that the document prints, as text."""
    if line.local is None:
        return "", "" if line.published is None else figure(line.published)
    effect = line.local.effect
    around = within(effect.each, effect.low, effect.high, figure)
    text = f"{figure(effect.value)}{line.local.of_unit} ({around})"
    document = "" if effect.printed is None else f"{figure(effect.printed)}{line.local.of_unit}"
    return f"{text}: {line.local.says}, {line.local.reach}", document


def ran_on(line: ScoreLine) -> str:
    """The kind of its lab, and whether on a real kernel, where conditions differ in that."""
    return ", ".join(filter(None, (describe(line.tier), line.kernel)))
