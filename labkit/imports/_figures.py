"""Figures that a tool prints one a line: a pattern for each says which metric it is."""

import re
from collections.abc import Iterator, Mapping, Sequence

from labkit.errors import ResultsError
from labkit.imports._reading import number, sample
from labkit.workload import Sample

Patterns = Mapping[str, tuple[str, str]]
"""Pattern of a line -> metric and unit; its last group is the number, others fill the name."""
MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}


def found_in(text: str, patterns: Patterns) -> Iterator[Sample]:
    """A sample for each line that a pattern finds."""
    for pattern, (metric, unit) in patterns.items():
        for match in re.finditer(pattern, text, re.MULTILINE):
            *words, value = match.groups()
            yield sample(metric.format(*words), unit, number(value, metric.format(*words)))


def pieces(text: str, heads: Sequence[re.Match[str]]) -> Iterator[tuple[re.Match[str], str]]:
    """Each head with the text behind it, up to the next."""
    for n, head in enumerate(heads, 1):
        yield head, text[head.end() : heads[n].start() if n < len(heads) else len(text)]


def insist_ended(text: str, last: str, tool: str) -> None:
    """Refuse a text without the line that a whole run ends with: a figure may be cut off."""
    if not re.search(last, text, re.MULTILINE):
        raise ResultsError(f"the output of {tool} has no end", hint="was the file cut off?")


def milliseconds(text: str, title: str) -> float:
    """A time with its unit, such as 1.39ms."""
    match = re.fullmatch(r"([\d.]+)(us|ms|s|m|h)", text)
    if match is None:
        raise ResultsError(f"{title} is {text[:40]!r}, which is no time")
    return number(match[1], title) * MILLISECONDS[match[2]]
