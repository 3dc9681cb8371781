"""Helpers that the readers share: strict JSON, numbers, figures one a line, whole lines."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from labkit.errors import ResultsError
from labkit.machine import records
from labkit.statistics.pooled import check_range
from labkit.workload import Sample

MOST_VALUES = 20_000_000
Patterns = Mapping[str, tuple[str, str]]
"""Pattern of a line -> metric and unit; its last group is the number, others fill the name.

A group `by` after the number is the unit that was printed, of those in `PRINTED`.
"""
PRINTED = {
    "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6,
    "B": 1e-6, "KB": 1024e-6, "MB": 1024**2 * 1e-6, "GB": 1024**3 * 1e-6,
}  # fmt: skip
"""Units of a time in ms, and of a size in MB."""


def json_of(text: str, tool: str) -> dict[str, Any]:
    """The JSON object that a tool wrote; iperf3 writes some keys twice, so the last counts."""
    return records.parse_json(text.encode(), f"output of {tool}", unique=False)


def at(tree: Any, *path: str | int) -> Any:
    """The value at a place of it; if there is none, the error names the place."""
    for n, step in enumerate(path):
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            raise ResultsError(f"the output has no {'/'.join(map(str, path[: n + 1]))}") from None
    return tree


def number(value: Any, title: str) -> float:
    """A finite number, from a number or from text that is one."""
    try:
        numeric = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        numeric = math.nan
    if not math.isfinite(numeric):
        raise ResultsError(f"{title} is {str(value)[:80]!r}, which is not a number")
    return numeric


def sample(metric: str, unit: str, values: Sequence[float] | Any, losses: int = 0) -> Sample:
    """A sample that can be judged: some values, not too many."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not 0 < array.size <= MOST_VALUES:
        raise ResultsError(f"{metric}: {array.size} values; there must be 1 to {MOST_VALUES}")
    check_range(array, metric)
    return Sample(metric, unit, array, losses)


def insist(samples: list[Sample], tool: str) -> list[Sample]:
    """The samples; none are an error. What a text says several times is one metric."""
    if not samples:
        raise ResultsError(f"the text holds no output of {tool}")
    alike: dict[str, list[Sample]] = {}
    for figure in samples:
        alike.setdefault(figure.metric, []).append(figure)
    return [_join(group) for group in alike.values()]


def _join(group: list[Sample]) -> Sample:
    first = group[0]
    if len(group) == 1:
        return first
    if len({figure.unit for figure in group}) > 1:
        units = " and in ".join(sorted({figure.unit for figure in group}))
        hint = "import each run from a file of its own"
        raise ResultsError(f"{first.metric} is in {units}", hint=hint)
    values = np.concatenate([figure.values for figure in group])
    return sample(first.metric, first.unit, values, sum(figure.lost for figure in group))


def whole_lines(text: str) -> str:
    """The lines that end: without its end, a line may have been cut off within a number."""
    return text[: text.rfind("\n") + 1]


def unended(text: str) -> str:
    """A remark on what `whole_lines` leaves out; empty if that is nothing."""
    tail = text[text.rfind("\n") + 1 :].strip()
    return f"the last line has no end, so it may not be whole: {tail[:60]!r}" if tail else ""


def unread(tool: str, line_number: int, line: str) -> ResultsError:
    """The error for a line that means nothing."""
    return ResultsError(f"{tool}: line {line_number} cannot be read", said=line[:200])


def found_in(text: str, patterns: Patterns) -> Iterator[Sample]:
    """A sample for each line that a pattern finds."""
    for pattern, (metric, unit) in patterns.items():
        for match in re.finditer(pattern, text, re.MULTILINE):
            by = match.groupdict().get("by")
            *words, value = match.groups()[: -1 if by else None]
            title = metric.format(*words)
            yield sample(title, unit, number(value, title) * (PRINTED[by] if by else 1.0))


def pieces(text: str, heads: Sequence[re.Match[str]]) -> Iterator[tuple[re.Match[str], str]]:
    """Each head with the text behind it, up to the next."""
    for n, head in enumerate(heads, 1):
        yield head, text[head.end() : heads[n].start() if n < len(heads) else len(text)]


def insist_ended(text: str, last: str, tool: str) -> None:
    """Refuse a text without the line that a whole run ends with: a figure may be cut off."""
    if not re.search(last, text, re.MULTILINE):
        raise ResultsError(f"the output of {tool} has no end", hint="was the file cut off?")
