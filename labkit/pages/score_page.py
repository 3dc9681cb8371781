"""The scorecard as one HTML page: by document, what was judged first, its results a click away."""

import html
from collections import Counter
from pathlib import Path

from labkit.pages.score_line import WORDS, ScoreLine, found_and_printed, ran_on
from labkit.pages.scorecard import NO_FIGURE, Scorecard
from labkit.pages.tables import chip, linked, safe
from labkit.reason import NO_STUDY, What
from labkit.verdict import NOT_TESTABLE

# No script is allowed, whatever a lab is called; links lead to the folders of the results.
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Scorecard</title><style>{style}</style></head>
<body><h1>What the documents claim, and what was measured</h1>
<p>{caption}</p>
{counts}
{documents}
</body></html>
"""
STYLE = """
:root { color-scheme: light dark; --line: #8886 }
body { max-width: 1150px; margin: 1.5em auto; padding: 0 1em; font: 15px/1.45 sans-serif }
h1 { font-size: 1.5em } h2, summary { font-size: 1.15em; font-weight: bold; margin: 1.2em 0 .4em }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: 5px 9px;
         border-bottom: 1px solid var(--line) }
.counts th + th, td.number { text-align: right }
td:nth-child(1) { width: 38% } td a { overflow-wrap: anywhere }
small { opacity: .75 } code { font-size: .9em }
@media (max-width: 700px) {
  .claims thead { display: none } .claims td { display: block; border: 0; padding: 2px 4px }
  .claims td:nth-child(1) { width: auto }
  .claims tr { display: block; border-bottom: 1px solid var(--line); padding: 6px 0 }
  .counts th, .counts td { padding: 4px; font-size: 12px; overflow-wrap: anywhere }
}
"""


def page(card: Scorecard) -> str:
    """The whole page; it needs no network and holds no script."""
    by_document: dict[str, list[ScoreLine]] = {}
    for line in card.lines:
        by_document.setdefault(line.document, []).append(line)
    judged = sorted(by_document, key=lambda name: not _tested(by_document[name]))
    sections = "\n".join(_section(name, by_document[name]) for name in judged)
    return PAGE.format(
        style=STYLE, caption=safe(card.caption()), counts=_counts(card), documents=sections
    )


def _tested(lines: list[ScoreLine]) -> list[ScoreLine]:
    return [line for line in lines if line.verdict != NOT_TESTABLE]


def _counts(card: Scorecard) -> str:
    table = card.counts()
    head = "".join(f"<th>{safe(cell)}</th>" for cell in table.head)
    rows = "".join(
        f"<tr><td>{safe(name)}</td>{''.join(f'<td class=number>{safe(n)}</td>' for n in numbers)}"
        "</tr>"
        for name, *numbers in table.rows
    )
    text = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<table class="counts">{text}</table>'


# A document of which nothing could be judged is there, but folded.
def _section(document: str, lines: list[ScoreLine]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("claim", "verdict", "what was measured", "on"))
    ranked = sorted(lines, key=lambda line: WORDS.index(line.verdict) == len(WORDS) - 1)
    rows = "".join(map(_row, ranked))
    table = f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    if _tested(lines):
        answers = dict.fromkeys(line.answer for line in lines if line.answer)
        text = "".join(f"<li>{safe(answer)}</li>" for answer in answers)
        return f"<section><h2>{linked(document, lines[0].url)}</h2><ul>{text}</ul>{table}</section>"
    short = (NO_STUDY if line.what is What.NO_STUDY else line.reason for line in lines)
    (why, many), *_ = Counter(short).most_common(1)
    text = why if many == len(lines) else NOT_TESTABLE
    summary = f"{linked(document, lines[0].url)} <small>({len(lines)} claims: {safe(text)})</small>"
    return f"<details><summary>{summary}</summary>{table}</details>"


def _row(line: ScoreLine) -> str:
    effect, printed = found_and_printed(line)
    figures = f"<b>{safe(effect)}</b>, the document: {safe(printed)}<br>" if printed else ""
    if effect and not printed:
        figures = f"<b>{safe(effect)}</b><br>"
    prints = f"<br><small>Printed: {safe(line.prints or NO_FIGURE)}</small>"
    disputed = f"<br><small>Disputed: {safe(line.dispute)}</small>" if line.dispute else ""
    claim = f"{safe(line.statement)}<br><small><code>{safe(line.claim)}</code>, {safe(line.source)}"
    return (
        f"<tr><td>{claim}</small></td><td>{chip(line.verdict)}</td>"
        f"<td>{figures}{safe(line.reason)}{prints}{disputed}</td><td>{_evidence(line)}</td></tr>"
    )


def _evidence(line: ScoreLine) -> str:
    if not line.evidence:
        return ""
    where = html.escape(Path(line.evidence).resolve().as_uri())
    return (
        f"{safe(f'{line.lab} ({ran_on(line)})')}<br>"
        f'<a href="{where}">{line.runs} runs</a>, <small>{safe(line.when[:10])}</small>'
        f"<br><small>{safe(line.controls)}</small>"
    )
