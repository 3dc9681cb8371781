"""The scorecard on one screen: a line for each document and study, and what stands out."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from labkit.errors import WIDE, readable
from labkit.pages.score_line import ScoreLine, counts_as
from labkit.pages.terminal import paragraph
from labkit.verdict import (
    AGREES,
    CONTRADICTED,
    DIFFERS,
    HOLDS,
    NOT_TESTABLE,
    SAME,
    UNCLEAR,
    UNDECIDED,
)

FIGURE_WORDS = {AGREES: " agree", DIFFERS: " differ", UNCLEAR: " unclear"}
VERDICT_WORDS = {HOLDS: " hold", CONTRADICTED: " contr.", SAME: " same", UNDECIDED: " open"}
HEADS = (*FIGURE_WORDS.values(), *VERDICT_WORDS.values(), " n/t")
NAME = WIDE - sum(map(len, HEADS))
LEGEND = (
    "Left: figures measured here, beside the document's. Right: verdicts on claims; contr.: "
    "contradicted, open: undecided, n/t: not testable here, or not measured yet."
)
HINT = "labkit scorecard --study NAME shows a study's answer and claims; --all shows all."


def screen(lines: Sequence[ScoreLine]) -> str:
    """All of it in 80 columns; there is one of these lines for each claim."""
    rows = [_row("", HEADS)]
    for document, claims in groupby(lines, key=lambda line: line.document):
        rows += _document(document, [*claims])
    rows.append(_counts(f"all {len(lines)} claims", lines))
    out = [_strongest("agreement", AGREES, lines), _strongest("disagreement", DIFFERS, lines)]
    return "\n".join([*rows, *map(paragraph, filter(None, [*out, LEGEND, HINT]))])


# A document of one study is one line; studies of which nothing was measured share one.
def _document(document: str, lines: Sequence[ScoreLine]) -> list[str]:
    studies: dict[str, list[ScoreLine]] = {}
    for line in lines:
        studies.setdefault(line.study, []).append(line)
    trials = {
        name: study for name, study in studies.items() if any(line.evidence for line in study)
    }
    bare = {name: study for name, study in studies.items() if name not in trials}
    if len(studies) == 1 or not trials:
        return [_counts(f"{', '.join(studies)}: {document}", lines)]
    others = [line for score_lines in bare.values() for line in score_lines]
    return [
        _counts(document, lines),
        *(_counts(f"  {name}", score_lines) for name, score_lines in trials.items()),
        *([_counts(f"  not measured: {', '.join(bare)}", others)] if bare else []),
    ]


def _counts(name: str, lines: Sequence[ScoreLine]) -> str:
    figures = Counter(line.local.says for line in lines if line.local)
    verdicts = Counter(map(counts_as, lines))
    numbers = [figures[word] for word in FIGURE_WORDS] + [verdicts[word] for word in VERDICT_WORDS]
    others = len(lines) - sum(verdicts[word] for word in VERDICT_WORDS)
    return _row(name, [str(number or "-") for number in (*numbers, others)])


def _row(name: str, cells: Sequence[str]) -> str:
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
