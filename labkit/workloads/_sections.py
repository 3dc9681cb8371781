"""Several outputs in one text, each under a line with its name, as a run keeps them; and JSON."""

import json
import re
from collections.abc import Mapping
from typing import Any

from labkit.errors import ResultsError
from labkit.machine.records import finite

# What it begins with comes first: that is found by far faster than the beginnings of lines.
HEAD = re.compile(r"=== (?<=^=== )(\S.*?) ===$", re.MULTILINE)
MOST_NUMBER = 1e40


def joined(parts: Mapping[str, str]) -> str:
    """The text that `parted` takes apart."""
    return "".join(f"=== {name} ===\n{text.rstrip()}\n" for name, text in parts.items())


def parted(text: str, *names: str) -> dict[str, str]:
    """The outputs by name; one that is lacking or there twice is refused."""
    before, *sections = HEAD.split(text)
    parts = dict(zip(sections[::2], sections[1::2], strict=True))
    if before.strip() or len(parts) != len(sections) // 2:
        raise ResultsError("the outputs of a run cannot be separated", said=before[:200])
    if missing := [name for name in names if name not in parts]:
        raise ResultsError(f"the run did not finish: no {', '.join(missing)}")
    return {name: part.strip("\n") for name, part in parts.items()}


def read_object(text: str, problem: str) -> dict[str, Any]:
    """The object of JSON that a text is; any other text is refused."""
    try:
        return {**json.loads(text, parse_float=finite, parse_constant=finite)}
    except (ValueError, TypeError) as error:
        raise ResultsError(problem, said=f"{text[-300:]}: {error}") from None


def read_number(row: Mapping[str, Any], key: str, tool: str) -> float:
    """A field of it that is a number, and not below 0."""
    value: Any = row.get(key)
    if type(value) not in (int, float) or not 0 <= value < MOST_NUMBER:
        raise ResultsError(f"{tool}: {key} is no number", said=json.dumps(row))
    return float(value)
