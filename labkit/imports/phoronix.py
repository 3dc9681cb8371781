"""Phoronix Test Suite, its `composite.xml`: every trial of every result.

A test that failed has an entry without a value: it is left out, which is said, and a file of
nothing else is refused. Notes of the suite about itself, such as the time to install a test, are no
measurements. Neither are results without a number, such as a picture. Sensors are read sample by
sample.

XML can name other files, and grow without end by its own entities. Both need a document type, which
Phoronix never writes. A text that declares one is refused unread.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from labkit.errors import ResultsError
from labkit.imports._reading import insist, number, sample
from labkit.telemetry.counters import numbered
from labkit.workload import Sample

NO_NUMBERS = {"PASS_FAIL", "MULTI_PASS_FAIL", "IMAGE_COMPARISON", "NO_RESULT", "PIE_CHART"}
NOTES = {"Test Install Time", "Test Install Size"}
ENTRIES = "Data/Entry"


def read(text: str) -> list[Sample]:
    """One metric for each result, or for each system where the file compares several."""
    rows = list(_read(text))
    samples = [sample(metric, unit, trials) for metric, unit, trials in rows if trials]
    if rows and not samples:
        raise ResultsError("no test of this file gave a result", said=rows[0][0])
    return insist(samples, "the Phoronix Test Suite")


def left_out(text: str) -> str:
    """The words about tests that failed: they have no value."""
    failures = [metric for metric, _, trials in _read(text) if not trials]
    return f"{len(failures)} without a result: {', '.join(failures)[:200]}" if failures else ""


def _read(text: str) -> Iterator[tuple[str, str, list[float]]]:
    if "<!DOCTYPE" in text:
        raise ResultsError("the XML declares a document type; Phoronix writes none")
    try:
        tree = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ResultsError("the XML cannot be read", said=str(error)) from None
    results = [
        result for result in tree.findall("Result")
        if _text(result, "DisplayFormat") not in NO_NUMBERS
        and _text(result, "Description") not in NOTES
    ]  # fmt: skip
    systems = {_text(entry, "Identifier") for of in results for entry in of.findall(ENTRIES)}
    for name, result in zip(_names(results), results, strict=True):
        for system, trials in (_by_system(result, name) or {"": []}).items():
            metric = f"{name} ({system})" if len(systems) > 1 and system else name
            yield metric, _text(result, "Scale"), trials


def _text(element: Element, name: str) -> str:
    return element.findtext(name, "").strip()


# Of one title there may be two units (signed and verified a second), and several tests that differ
# in their arguments, which are commands: these keep their order, which one that failed counts in.
def _names(results: list[Element]) -> list[str]:
    titles = [
        ": ".join(filter(None, (_text(result, "Title"), _text(result, "Description"))))
        for result in results
    ]
    units = [_text(result, "Scale") for result in results]
    has_several = {
        title: len({u for t, u in zip(titles, units, strict=True) if t == title}) > 1
        for title in titles
    }
    return numbered([
        f"{title} ({unit})" if has_several[title] else title
        for title, unit in zip(titles, units, strict=True)
    ])  # fmt: skip


def _by_system(result: Element, title: str) -> dict[str, list[float]]:
    by_system: dict[str, list[float]] = {}
    for entry in result.findall(ENTRIES):
        text = _text(entry, "RawString") or _text(entry, "Value")
        trials = [number(v, title) for v in re.split("[:,]", text)] if text else []
        by_system.setdefault(_text(entry, "Identifier"), []).extend(trials)
    return by_system
