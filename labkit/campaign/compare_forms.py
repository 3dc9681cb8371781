"""The forms of a comparison of campaigns: text, Markdown, JUnit XML, and JSON for a gate."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from labkit.campaign.compare import (
    ALIKE,
    BETTER,
    CHANGE,
    UNCLEAR,
    WORSE,
    Compared,
    Comparisons,
)
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
    counts = Counter(comparison.outcome for comparison in result.each)
    outcomes = ", ".join(
        f"{counts[word]} {_plural(word, counts[word])}" for word in ORDER if counts[word]
    )
    gap = f"; points or conditions of {result.a} missing: {len(result.lost)}" if result.lost else ""
    return f"{result.b} against {result.a}: {len(result.each)} comparisons: {outcomes}{gap}."


def _plural(word: str, count: int) -> str:
    return f"{word}s" if count > 1 and word in (WORSE, BETTER) else word


def text(comparisons: Comparisons) -> str:
    """For a terminal: what changed first, and what did not in a number."""
    rows = tuple(_row(comparison) for comparison in _list_changes(comparisons))
    parts = [
        paragraph(found(comparisons)), Table(HEAD, rows).text() if rows else "",
        *(paragraph(f"missing: {name}") for name in comparisons.lost),
        *map(paragraph, comparisons.why_not), paragraph(_risk(comparisons)),
    ]  # fmt: skip
    return readable("\n\n".join(part for part in parts if part))


def markdown(result: Comparisons) -> str:
    """For a comment on a change."""
    rows = tuple(_row(comparison) for comparison in _list_changes(result))
    parts = [
        f"**{'Passed' if result.passed else 'Failed'}: {found(result)}**",
        Table(HEAD, rows).markdown() if rows else "",
        *(f"- missing: `{name}`" for name in result.lost), *result.why_not, _risk(result),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def plain(result: Comparisons) -> dict[str, Any]:
    """For a machine to read."""
    return {
        "found": found(result), "passed": result.passed, "a": result.a, "b": result.b,
        "comparisons": [asdict(c) for c in result.each], "lost": list(result.lost),
        "why_not": list(result.why_not), "units": result.units,
    }  # fmt: skip


def junit(comparisons: Comparisons) -> str:
    """Test reports for continuous integration: a suite for each point, a case for each figure."""
    root = ElementTree.Element("testsuites", name=f"{comparisons.b} against {comparisons.a}")
    by_point: dict[str, list[Compared]] = {}
    for comparison in comparisons.each:
        by_point.setdefault(comparison.point, []).append(comparison)
    for name, figures in by_point.items():
        _suite(root, name, figures)
    for name in comparisons.lost:
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests="1", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname=name, name="finished")
        message = f"{comparisons.b} did not measure it"
        ElementTree.SubElement(case, "error", message=message)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode")


def _suite(root: ElementTree.Element, name: str, figures: list[Compared]) -> None:
    failures = sum(figure.outcome == WORSE for figure in figures)
    suite = ElementTree.SubElement(
        root, "testsuite", name=readable(name), tests=str(len(figures)), failures=str(failures)
    )
    for figure in figures:
        case = ElementTree.SubElement(
            suite, "testcase", classname=readable(name), name=readable(figure.what)
        )
        change = delta(figure.verdict.effect, figure.ratio), within(figure.verdict, figure.ratio)
        text = readable(" ".join([f"{figure.outcome}:", *change, figure.verdict.why]))
        if figure.outcome == WORSE:
            ElementTree.SubElement(case, "failure", message=text)
        else:
            ElementTree.SubElement(case, "system-out").text = text


# What changed, the worst first.
def _list_changes(comparisons: Comparisons) -> list[Compared]:
    changes = [
        comparison
        for comparison in comparisons.each
        if comparison.outcome in (WORSE, BETTER, CHANGE)
    ]
    return sorted(changes, key=lambda comparison: ORDER.index(comparison.outcome))


def _row(comparison: Compared) -> tuple[str, ...]:
    change = (
        delta(comparison.verdict.effect, comparison.ratio),
        within(comparison.verdict, comparison.ratio),
    )
    return comparison.point, comparison.what, *change, _outcome(comparison)


def _outcome(comparison: Compared) -> str:
    return (
        f"{comparison.outcome} ({comparison.was}, now {comparison.is_now})"
        if comparison.was
        else comparison.outcome
    )


def _risk(comparisons: Comparisons) -> str:
    risk = one_risk(comparison.verdict.among for comparison in comparisons.each)
    return " ".join(_sentences(comparisons.units, risk))


def _sentences(*parts: str) -> Iterator[str]:
    for part in filter(None, parts):
        yield f"{capital(part.rstrip('.'))}."
