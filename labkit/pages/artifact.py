"""The page for the evaluation of an artifact: each claim, how it was tested, tolerance, result."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from labkit.claim import Claim
from labkit.claims import published
from labkit.judging.by_hosts import is_emulated
from labkit.machine.units import spoken
from labkit.pages.filled import filled, keep
from labkit.pages.score_line import ScoreLine, found_and_printed, ran_on
from labkit.pages.scorecard import scorecard
from labkit.pages.tables import Table
from labkit.results import Results, Run
from labkit.statistics.comparison import MARGIN, Comparison


def write(results: Results) -> Path:
    """Write the page among the reports; it needs no network and holds no script."""
    card = scorecard(results.path, study=results.judged_as)
    paper = published.published(results.judged_as)
    meanings = results.asked.get("here", {})
    ran = Table(("condition", "what ran"), tuple((n, str(x)) for n, x in meanings.items()))
    page = filled(
        "artifact.html", title=f"Claims of {paper.document}", document=paper.document,
        url=paper.url, rows=[_row(results, line) for line in card.lines], caption=card.caption(),
        facts=Markup(_facts(results, card.lines[0]).html()), conditions=Markup(ran.html()),
        spoken=spoken,
    )  # fmt: skip
    return keep(f"artifact-{results.study}-{results.path.name}.html", page)


def told(results: Results) -> list[dict[str, Any]]:
    """The rows of the page for JSON."""
    card = scorecard(results.path, study=results.judged_as)
    return [_row(results, line) for line in card.lines]


def _facts(results: Results, line: ScoreLine) -> Table:
    repeat = ""
    if line.blocks and results.judged_as == results.study:
        lab = "" if is_emulated(results) else str(results.asked.get("where", ""))
        place = f"--where {shlex.quote(lab)} " if lab else ""  # a box is made again
        repeat = f"labkit run {results.study} {place}-p repeats={line.blocks}"
    facts = {
        "study": results.judged_as, "on": f"{line.lab} ({ran_on(line)})",
        "runs": f"{line.runs} in {line.blocks} blocks, {spoken(_seconds(results.finished()))}",
        "when": line.when[:10], "again": repeat,
        "results": shlex.join(["labkit", "results", "export", str(results.path)]),
    }  # fmt: skip
    return Table(("measured", ""), tuple((name, fact) for name, fact in facts.items() if fact))


def _seconds(runs: Sequence[Run]) -> float:
    return sum(run.seconds for run in runs)


def _row(results: Results, line: ScoreLine) -> dict[str, Any]:
    claim = next(claim for claim in published.of(line.study) if claim.id == line.claim)
    comparisons, runs = claim.comparisons(), results.finished()
    names = claim.conditions_among({run.condition for run in runs})
    runs = [run for run in runs if run.condition in names]
    figure, document_figure = found_and_printed(line)
    return {
        "claim": line.claim, "statement": line.statement, "source": line.source,
        "form": line.form, "tested": [_describe_test(comparison) for comparison in comparisons],
        "tolerance": list(dict.fromkeys(_tolerance(c, claim) for c in comparisons)),
        "verdict": line.verdict, "measured": figure, "printed": document_figure, "why": line.why,
        "dispute": line.dispute, "runs": len(runs), "seconds": round(_seconds(runs), 1),
    }  # fmt: skip


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
