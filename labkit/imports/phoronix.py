"""Phoronix Test Suite, its `composite.xml`: every trial of every result.

A test that failed has an entry without a value: it is left out, which is said, and a file of
nothing else is refused. Notes of the suite about itself, such as the time to install a test, are no
measurements. Neither are results without a number, such as a picture. Sensors are read sample by
sample.

XML can name other files, and grow without end by its own entities. Both need a document type, which
Phoronix never writes. A text that declares one is refused unread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from labkit.errors import ResultsError
from labkit.imports._reading import insist, number, sample
from labkit.workload import Sample

DEEPEST = 40
NO_NUMBERS = {"PASS_FAIL", "MULTI_PASS_FAIL", "IMAGE_COMPARISON", "NO_RESULT", "PIE_CHART"}
NOTES = {"Test Install Time", "Test Install Size"}


@dataclass
class _Node:
    name: str
    text: str = ""
    below: list[_Node] = field(default_factory=list)

    def children(self, name: str) -> list[_Node]:
        return [node for node in self.below if node.name == name]

    def text_of(self, name: str) -> str:
        return next((node.text.strip() for node in self.children(name)), "")


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
    results = _results(text)
    has_several = (
        len(
            {
                entry.text_of("Identifier")
                for result_read in results
                for entry in _entries(result_read)
            }
        )
        > 1
    )
    for name, result in zip(_names(results), results, strict=True):
        for system, trials in (_by_system(result, name) or {"": []}).items():
            metric = f"{name} ({system})" if has_several and system else name
            yield metric, result.text_of("Scale"), trials


def _results(text: str) -> list[_Node]:
    return [
        element
        for element in _tree(text).children("Result")
        if element.text_of("DisplayFormat") not in NO_NUMBERS
        and element.text_of("Description") not in NOTES
    ]


# Of one title there may be two units (signed and verified a second), and several tests that differ
# in their arguments, which are commands: these keep their order, which one that failed counts in.
def _names(results: list[_Node]) -> list[str]:
    titles = [
        ": ".join(filter(None, map(result.text_of, ("Title", "Description")))) for result in results
    ]
    units: dict[str, set[str]] = {}
    for title, result_read in zip(titles, results, strict=True):
        units.setdefault(title, set()).add(result_read.text_of("Scale"))
    names, counts = [], Counter[str]()
    for title, result_read in zip(titles, results, strict=True):
        name = f"{title} ({result_read.text_of('Scale')})" if len(units[title]) > 1 else title
        counts[name] += 1
        names.append(f"{name} #{counts[name]}" if counts[name] > 1 else name)
    return names


def _entries(result: _Node) -> list[_Node]:
    return [entry for part in result.children("Data") for entry in part.children("Entry")]


def _by_system(result: _Node, title: str) -> dict[str, list[float]]:
    by_system: dict[str, list[float]] = {}
    for entry in _entries(result):
        text = entry.text_of("RawString") or entry.text_of("Value")
        trials = [number(v, title) for v in re.split("[:,]", text)] if text else []
        by_system.setdefault(entry.text_of("Identifier"), []).extend(trials)
    return by_system


def _tree(text: str) -> _Node:
    parser, path = expat.ParserCreate(), [_Node("")]

    def begin(name: str, _: object) -> None:
        if len(path) > DEEPEST:
            raise ResultsError(f"the XML is nested more than {DEEPEST} deep")
        path[-1].below.append(_Node(name))
        path.append(path[-1].below[-1])

    def words(text: str) -> None:
        path[-1].text += text

    parser.StartElementHandler, parser.CharacterDataHandler = begin, words
    parser.EndElementHandler = lambda _: path.pop() and None
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise ResultsError("the XML cannot be read", said=str(error)) from None
    return path[0].below[0]


def _refuse(*_: object) -> None:
    raise ResultsError("the XML declares a document type; Phoronix writes none")
