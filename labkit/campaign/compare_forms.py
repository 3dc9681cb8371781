"""The forms of a comparison of campaigns: text, Markdown, JUnit XML, and JSON for a gate."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from labkit.campaign.compare import (
    ALIKE,
    BETTER,
    CHANGED,
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
ORDER = (WORSE, BETTER, CHANGED, UNCLEAR, ALIKE)


def found(those: Comparisons) -> str:
    """The findings, in a sentence."""
    counts = Counter(compared.outcome for compared in those.each)
    outcomes = ", ".join(
        f"{counts[word]} {_plural(word, counts[word])}" for word in ORDER if counts[word]
    )
    lost = f"; points or conditions of {those.a} missing: {len(those.lost)}" if those.lost else ""
    return f"{those.b} against {those.a}: {len(those.each)} comparisons: {outcomes}{lost}."


def _plural(word: str, many: int) -> str:
    return f"{word}s" if many > 1 and word in (WORSE, BETTER) else word


def text(comparisons: Comparisons) -> str:
    """For a terminal: what changed first, and what did not in a number."""
    rows = tuple(_row(compared) for compared in _shown(comparisons))
    parts = [
        paragraph(found(comparisons)), Table(HEAD, rows).text() if rows else "",
        *(paragraph(f"missing: {name}") for name in comparisons.lost),
        *map(paragraph, comparisons.why_not), paragraph(_risk(comparisons)),
    ]  # fmt: skip
    return readable("\n\n".join(part for part in parts if part))


def markdown(those: Comparisons) -> str:
    """For a comment on a change."""
    rows = tuple(_row(compared) for compared in _shown(those))
    parts = [
        f"**{'Passed' if those.passed else 'Failed'}: {found(those)}**",
        Table(HEAD, rows).markdown() if rows else "",
        *(f"- missing: `{name}`" for name in those.lost), *those.why_not, _risk(those),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def plain(those: Comparisons) -> dict[str, Any]:
    """For a machine to read."""
    return {
        "found": found(those), "passed": those.passed, "a": those.a, "b": those.b,
        "comparisons": [asdict(compared) for compared in those.each], "lost": list(those.lost),
        "why_not": list(those.why_not), "units": those.units,
    }  # fmt: skip


def junit(comparisons: Comparisons) -> str:
    """Test reports for continuous integration: a suite for each point, a case for each figure."""
    root = ElementTree.Element("testsuites", name=f"{comparisons.b} against {comparisons.a}")
    by_point: dict[str, list[Compared]] = {}
    for compared in comparisons.each:
        by_point.setdefault(compared.point, []).append(compared)
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
def _shown(comparisons: Comparisons) -> list[Compared]:
    changed = [
        compared for compared in comparisons.each if compared.outcome in (WORSE, BETTER, CHANGED)
    ]
    return sorted(changed, key=lambda compared: ORDER.index(compared.outcome))


def _row(one: Compared) -> tuple[str, ...]:
    change = delta(one.verdict.effect, one.ratio), within(one.verdict, one.ratio)
    return one.point, one.what, *change, _outcome(one)


def _outcome(one: Compared) -> str:
    return f"{one.outcome} ({one.was}, now {one.is_now})" if one.was else one.outcome


def _risk(comparisons: Comparisons) -> str:
    risk = one_risk(compared.verdict.among for compared in comparisons.each)
    return " ".join(_sentences(comparisons.units, risk))


def _sentences(*parts: str) -> Iterator[str]:
    for part in filter(None, parts):
        yield f"{capital(part.rstrip('.'))}."
