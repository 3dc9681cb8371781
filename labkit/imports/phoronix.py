"""Phoronix Test Suite, its `composite.xml`: every trial of every result.

XML can name other files and grow without end by its own entities; a text that declares a document
type, which both need and Phoronix never writes, is refused before anything of it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from labkit.errors import ResultsError
from labkit.imports._reading import insist, number, sample
from labkit.workload import Sample

DEEPEST = 40


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
    found = []
    for result in _tree(text).all("Result"):
        entries = [entry for part in result.all("Data") for entry in part.all("Entry")]
        title = ": ".join(filter(None, (result.one("Title"), result.one("Description"))))
        for entry in entries:
            system = f" ({entry.one('Identifier')})" if len(entries) > 1 else ""
            trials = entry.one("RawString").split(":") if entry.one("RawString") else []
            values = [number(v, title) for v in trials or [entry.one("Value")]]
            found.append(sample(f"{title}{system}", result.one("Scale"), values))
    return insist(found, "the Phoronix Test Suite")


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
