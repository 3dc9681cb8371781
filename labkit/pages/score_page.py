"""The scorecard as one HTML page: totals, documents by labs, and each claim a click away."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from labkit.lab import describe
from labkit.pages.filled import filled
from labkit.pages.score_line import ALL_WORDS, ScoreLine, counts_as, found_and_printed, ran_on
from labkit.pages.scorecard import NO_FIGURE, Scorecard
from labkit.results import IMPORTS


def page(card: Scorecard) -> str:
    """The whole page; it needs no network and holds no script."""
    return filled("scorecard.html", title="Scorecard", **_parts(card))


def body(card: Scorecard) -> str:
    """The same without its head, to stand in another page."""
    return filled("score_parts.html", **_parts(card))


def _parts(card: Scorecard) -> dict[str, Any]:
    best = card.of_best()
    documents = [
        _document(name, [*lines], [line for line in best if line.document == name])
        for name, lines in groupby(card.lines, key=lambda line: line.document)
    ]
    labs = Counter(_machine(line) for line in card.lines if line.evidence)
    return {
        "total": len(best), "beside": dict(Counter(x.local.says for x in best if x.local)),
        "totals": _counts(best), "documents": documents,
        "labs": [lab for lab, _ in labs.most_common()], "caption": card.caption(),
        "controls": dict(sorted({x.lab: x.controls for x in card.lines if x.controls}.items())),
    }  # fmt: skip


# Boxes of one tier are one machine, whatever their topology.
def _machine(line: ScoreLine) -> str:
    return line.lab if line.tier in ("hosts", IMPORTS) else describe(line.tier)


def _document(name: str, lines: Sequence[ScoreLine], best: Sequence[ScoreLine]) -> dict[str, Any]:
    labs = defaultdict[str, list[ScoreLine]](list)
    for line in filter(lambda line: line.evidence, lines):
        labs[_machine(line)].append(line)
    return {
        "title": name, "url": lines[0].url, "best": _counts(best),
        "labs": {lab: _counts(lines_of_lab) for lab, lines_of_lab in labs.items()},
        "answers": [*dict.fromkeys(line.answer for line in lines if line.answer)],
        "lines": [_row(x) for x in sorted(lines, key=lambda x: ALL_WORDS.index(x.verdict))],
    }  # fmt: skip


def _counts(lines: Sequence[ScoreLine]) -> dict[str, int]:
    counts = Counter(map(counts_as, lines))
    return {word: counts[word] for word in ALL_WORDS if counts[word]}


def _row(line: ScoreLine) -> dict[str, Any]:
    figure, document = found_and_printed(line)
    address = Path(line.evidence).resolve().as_uri() if line.evidence else ""
    return {
        "statement": line.statement, "claim": line.claim, "source": line.source,
        "verdict": line.verdict, "figure": figure, "printed": document, "reason": line.reason,
        "prints": line.prints or NO_FIGURE, "dispute": line.dispute, "where": address,
        "lab": f"{line.lab} ({ran_on(line)})", "runs": line.runs, "when": line.when[:10],
    }  # fmt: skip
