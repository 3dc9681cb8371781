"""The forms of a comparison of campaigns: text, Markdown, and JSON for a gate."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from labkit.campaign.compare import ALIKE, BETTER, CHANGE, UNCLEAR, WORSE, Comparisons
from labkit.errors import readable
from labkit.machine.units import capital
from labkit.pages.old_and_new import delta, within
from labkit.pages.tables import Table
from labkit.pages.terminal import paragraph
from labkit.verdict import one_risk

HEAD = ("point", "figure", "delta", "interval", "verdict")
ORDER = (WORSE, BETTER, CHANGE, UNCLEAR, ALIKE)


def found(result: Comparisons) -> str:
    """The findings, in a sentence."""
    counts = Counter(comparison.outcome for comparison in result.comparisons)
    plural = {word: "s" for word in (WORSE, BETTER) if counts[word] > 1}
    outcomes = ", ".join(
        f"{counts[word]} {word}{plural.get(word, '')}" for word in ORDER if counts[word]
    )
    gap = f"; points or conditions of {result.a} missing: {len(result.lost)}" if result.lost else ""
    return f"{result.b} against {result.a}: {len(result.comparisons)} comparisons: {outcomes}{gap}."


def text(result: Comparisons) -> str:
    """For a terminal: what changed first, and what did not in a number."""
    rows = _rows(result)
    lines = [found(result), *(f"missing: {name}" for name in result.lost), *result.why_not]
    parts = [*map(paragraph, [*lines, _risk(result)])]
    parts[1:1] = [Table(HEAD, rows).text()] if rows else []
    return readable("\n\n".join(parts))


def markdown(result: Comparisons) -> str:
    """For a comment on a change."""
    rows = _rows(result)
    parts = [
        f"**{'Passed' if result.passed else 'Failed'}: {found(result)}**",
        Table(HEAD, rows).markdown() if rows else "",
        *(f"- missing: `{name}`" for name in result.lost), *result.why_not, _risk(result),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def plain(result: Comparisons) -> dict[str, Any]:
    """For a machine to read."""
    return {"found": found(result), "passed": result.passed, **asdict(result)}


# What changed, the worst first.
def _rows(result: Comparisons) -> tuple[tuple[str, ...], ...]:
    changes = [c for c in result.comparisons if c.outcome in (WORSE, BETTER, CHANGE)]
    changes.sort(key=lambda comparison: ORDER.index(comparison.outcome))
    return tuple(
        (c.point, c.what, delta(c.verdict.effect, c.ratio), within(c.verdict, c.ratio),
         c.outcome + (f" ({c.old}, now {c.new})" if c.old else ""))
        for c in changes
    )  # fmt: skip


def _risk(result: Comparisons) -> str:
    together = max((comparison.verdict.among for comparison in result.comparisons), default=0)
    without = len(result.comparisons) - together
    risk, number = one_risk([together], "others" if without else "comparisons"), ""
    if without and risk:
        lack = "lacks" if without == 1 else "lack"
        number = f"{without} of {len(result.comparisons)} comparisons {lack} values for a test"
    parts = (result.units, number, risk)
    return " ".join(f"{capital(part.rstrip('.'))}." for part in parts if part)
