"""The page for the evaluation of an artifact: each claim, how it was tested, tolerance, result."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.claim import Claim
from labkit.claims import published
from labkit.judging.by_hosts import is_emulated
from labkit.machine import records
from labkit.machine.places import out
from labkit.machine.units import spoken
from labkit.pages.paper import PAPER
from labkit.pages.score_line import ScoreLine, found_and_printed, ran_on
from labkit.pages.scorecard import Scorecard, scorecard
from labkit.pages.tables import Table, chip, linked, safe
from labkit.results import Results, Run
from labkit.statistics.comparison import MARGIN, Comparison

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Claims of {title}</title><style>{style}</style></head>
<body><h1>Claims of {document}</h1>
{facts}
<table class="labkit"><thead><tr><th>claim</th><th>how it was tested</th><th>tolerance</th>
<th>result</th><th>time</th></tr></thead><tbody>{rows}</tbody></table>
<p>{caption}</p>
<h2>Conditions</h2>
{conditions}
</body></html>
"""
STYLE = """
body { max-width: 1150px; margin: 1.5em auto; padding: 0 1em; font: 15px/1.45 sans-serif }
h1 { font-size: 1.4em } table.labkit { border-collapse: collapse; margin: 1em 0; width: 100% }
table.labkit td, table.labkit th { border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; padding: 5px 9px; overflow-wrap: anywhere }
"""


def write(results: Results) -> Path:
    """Write the page among the reports; it needs no network and holds no script."""
    card = scorecard(results.path, study=results.judged_as)
    file = out() / "reports" / f"artifact-{results.study}-{results.path.name}.html"
    with records.keeping(f"{file}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        records.write(file, _page(results, card).encode())
    return file


def told(results: Results) -> list[dict[str, Any]]:
    """The rows of the page for JSON."""
    card = scorecard(results.path, study=results.judged_as)
    return [_row(results, line, _claim(line)) for line in card.lines]


def _page(results: Results, card: Scorecard) -> str:
    paper = published.published(results.judged_as)
    rows = (_row(results, line, _claim(line)) for line in card.lines)
    meanings = results.asked.get("here", {})
    ran = Table(("condition", "what ran"), tuple((n, str(x)) for n, x in meanings.items()))
    return PAGE.format(
        title=safe(paper.document), document=linked(paper.document, paper.url),
        style=PAPER + STYLE, rows="".join(map(_cells, rows)), caption=safe(card.caption()),
        facts=_facts(results, card.lines[0]).html(), conditions=ran.html(),
    )  # fmt: skip


def _facts(results: Results, line: ScoreLine) -> Table:
    repeat = _command(results, line.blocks) if line.blocks and not _is_imported(results) else ""
    facts = {
        "study": results.judged_as, "on": f"{line.lab} ({ran_on(line)})",
        "runs": f"{line.runs} in {line.blocks} blocks, {spoken(_seconds(results.finished()))}",
        "when": line.when[:10], "again": repeat,
        "results": f"labkit results export {results.path}",
    }  # fmt: skip
    return Table(("measured", ""), tuple((name, fact) for name, fact in facts.items() if fact))


def _command(results: Results, blocks: int) -> str:
    lab = "" if is_emulated(results) else str(results.asked.get("where", ""))
    place = f"--where {shlex.quote(lab)} " if lab else ""  # a box is made again
    return f"labkit run {results.study} {place}-p repeats={blocks}"


def _is_imported(results: Results) -> bool:
    return results.judged_as != results.study


def _claim(line: ScoreLine) -> Claim:
    return next(claim for claim in published.of(line.study) if claim.id == line.claim)


def _row(results: Results, line: ScoreLine, claim: Claim) -> dict[str, Any]:
    comparisons = claim.comparisons()
    runs = _runs_of(results, claim)
    figure, document_figure = found_and_printed(line)
    return {
        "claim": line.claim, "statement": line.statement, "source": line.source,
        "form": line.form, "tested": [_describe_test(comparison) for comparison in comparisons],
        "tolerance": list(dict.fromkeys(_tolerance(c, claim) for c in comparisons)),
        "verdict": line.verdict, "measured": figure, "printed": document_figure, "why": line.reason,
        "dispute": line.dispute, "runs": len(runs), "seconds": round(_seconds(runs), 1),
    }  # fmt: skip


def _runs_of(results: Results, claim: Claim) -> list[Run]:
    runs = results.finished()
    names = claim.conditions_among({run.condition for run in runs})
    return [run for run in runs if run.condition in names]


def _seconds(runs: Sequence[Run]) -> float:
    return sum(run.seconds for run in runs)


def _describe_test(test: Comparison) -> str:
    of = f"p{test.what.statistic:g}" if isinstance(test.what.statistic, int | float) else ""
    of = {"p50": "median", "": str(test.what.statistic)}.get(of, of)
    return f"{test.what.shown} ({', '.join(filter(None, (of, test.what.metric)))})"


def _tolerance(test: Comparison, claim: Claim) -> str:
    margin = MARGIN if claim.margin is None else claim.margin
    near = f"; closer than {100 * margin:g} % is the same"
    if math.isinf(test.low):
        return f"below {test.high:.3g}{near}"
    if math.isinf(test.high):
        return f"above {test.low:.3g}{near}"
    return f"{'outside' if test.outside else 'within'} {test.low:.3g} to {test.high:.3g}"


def _cells(row: dict[str, Any]) -> str:
    tests = "<br>".join(map(safe, row["tested"])) or "not tested"
    document = f"; the document: {row['printed']}" if row["printed"] else ""
    figure = f"<br><b>{safe(row['measured'])}</b>{safe(document)}" if row["measured"] else ""
    dispute = f"<br><small>Disputed: {safe(row['dispute'])}</small>" if row["dispute"] else ""
    took = f"{spoken(row['seconds'])}, {row['runs']} runs" if row["runs"] else "no run"
    return (
        f"<tr><td>{safe(row['statement'])}<br><small><code>{safe(row['claim'])}</code>, "
        f"{safe(row['source'])}</small></td><td>{safe(row['form'])}<br><small>{tests}</small></td>"
        f"<td>{'<br>'.join(map(safe, row['tolerance']))}</td>"
        f"<td>{chip(row['verdict'])}{figure}<br><small>{safe(row['why'])}</small>{dispute}</td>"
        f"<td>{safe(took)}</td></tr>"
    )
