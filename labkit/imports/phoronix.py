"""Phoronix Test Suite, its `composite.xml`: every trial of every result.

A test that failed has an entry without a value: it is left out, and a file of nothing else is
refused. What the suite notes about itself - how long a test took to install, how large it is - and
what is no number (passed or not, a picture) is no measurement. Sensors are read sample by sample.

XML can name other files and grow without end by its own entities; a text that declares a document
type, which both need and Phoronix never writes, is refused before anything of it is read.
"""

from __future__ import annotations

import re
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

    def all(self, name: str) -> list[_Node]:
        return [node for node in self.below if node.name == name]

    def one(self, name: str) -> str:
        return next((node.text.strip() for node in self.all(name)), "")


def read(text: str) -> list[Sample]:
    """One metric for each result, or for each system where a result compares several."""
    found: dict[str, Sample] = {}
    failed: list[str] = []
    for result in _tree(text).all("Result"):
        if result.one("DisplayFormat") in NO_NUMBERS or result.one("Description") in NOTES:
            continue
        title = ": ".join(filter(None, (result.one("Title"), result.one("Description"))))
        values = _by_system(result, title)
        failed += [] if values else [title]
        for system, trials in values.items():
            named = _unused(f"{title} ({system})" if len(values) > 1 else title, found)
            found[named] = sample(named, result.one("Scale"), trials)
    if failed and not found:
        raise ResultsError("no test of this file gave a result", said=failed[0])
    return insist([*found.values()], "the Phoronix Test Suite")


def _by_system(result: _Node, title: str) -> dict[str, list[float]]:
    by_system: dict[str, list[float]] = {}
    for entry in (entry for part in result.all("Data") for entry in part.all("Entry")):
        told = entry.one("RawString") or entry.one("Value")
        trials = [number(v, title) for v in re.split("[:,]", told)] if told else []
        if trials:
            by_system.setdefault(entry.one("Identifier"), []).extend(trials)
    return by_system


# Tests of one name differ in their arguments, which are commands; they keep their order.
def _unused(name: str, found: dict[str, Sample]) -> str:
    alike = (f"{name} #{n}" for n in range(2, len(found) + 2))
    return name if name not in found else next(one for one in alike if one not in found)


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
    parser.StartDoctypeDeclHandler = _refused
    parser.EntityDeclHandler = _refused
    try:
        parser.Parse(text, True)
    except expat.ExpatError as odd:
        raise ResultsError("the XML cannot be read", said=str(odd)) from None
    return path[0].below[0]


def _refused(*_: object) -> None:
    raise ResultsError("the XML declares a document type; Phoronix writes none")
