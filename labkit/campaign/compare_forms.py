"""The forms of a comparison of campaigns: text, Markdown, JUnit XML, and JSON for a gate."""

from collections import Counter
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from labkit.campaign.compare import ALIKE, BETTER, CHANGE, UNCLEAR, WORSE, Compared, Comparisons
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
    plural = {word: "s" for word in (WORSE, BETTER) if counts[word] > 1}
    outcomes = ", ".join(
        f"{counts[word]} {word}{plural.get(word, '')}" for word in ORDER if counts[word]
    )
    gap = f"; points or conditions of {result.a} missing: {len(result.lost)}" if result.lost else ""
    return f"{result.b} against {result.a}: {len(result.each)} comparisons: {outcomes}{gap}."


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
    content = asdict(result)
    comparisons = content.pop("each")
    head = {"found": found(result), "passed": result.passed}
    return {**head, **content, "comparisons": comparisons}


def junit(result: Comparisons) -> str:
    """Test reports for continuous integration: a suite for each point, a case for each figure."""
    root = ElementTree.Element("testsuites", name=f"{result.b} against {result.a}")
    by_point: dict[str, list[Compared]] = {}
    for comparison in result.each:
        by_point.setdefault(comparison.point, []).append(comparison)
    for name, figures in by_point.items():
        _suite(root, readable(name), figures)
    for name in result.lost:
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests="1", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname=name, name="finished")
        ElementTree.SubElement(case, "error", message=f"{result.b} did not measure it")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode")


def _suite(root: ElementTree.Element, name: str, figures: list[Compared]) -> None:
    failures = sum(figure.outcome == WORSE for figure in figures)
    counts = {"name": name, "tests": str(len(figures)), "failures": str(failures)}
    suite = ElementTree.SubElement(root, "testsuite", counts)
    for figure in figures:
        what = readable(figure.what)
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=what)
        text = readable(" ".join([f"{figure.outcome}:", *_changes(figure), figure.verdict.why]))
        if figure.outcome == WORSE:
            ElementTree.SubElement(case, "failure", message=text)
        else:
            ElementTree.SubElement(case, "system-out").text = text


# What changed, the worst first.
def _rows(result: Comparisons) -> tuple[tuple[str, ...], ...]:
    changes = [c for c in result.each if c.outcome in (WORSE, BETTER, CHANGE)]
    changes.sort(key=lambda comparison: ORDER.index(comparison.outcome))
    return tuple(
        (
            c.point,
            c.what,
            *_changes(c),
            c.outcome + (f" ({c.was}, now {c.is_now})" if c.was else ""),
        )
        for c in changes
    )


def _changes(comparison: Compared) -> tuple[str, str]:
    verdict, ratio = comparison.verdict, comparison.ratio
    return delta(verdict.effect, ratio), within(verdict, ratio)


def _risk(result: Comparisons) -> str:
    together = max((comparison.verdict.among for comparison in result.each), default=0)
    without = len(result.each) - together
    risk, number = one_risk([together], "others" if without else "comparisons"), ""
    if without and risk:
        lack = "lacks" if without == 1 else "lack"
        number = f"{without} of {len(result.each)} comparisons {lack} values for a test"
    parts = (result.units, number, risk)
    return " ".join(f"{capital(part.rstrip('.'))}." for part in parts if part)
