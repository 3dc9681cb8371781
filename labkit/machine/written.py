"""The text of a file that a person wrote: what is wrong in it is named with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.errors import BadInput, Unknown
from labkit.machine import records

Keys = tuple[str | int, ...]
"""The way to a value: `("study", 1, "sweep", "count")`."""
HEADER = re.compile(r"\s*(\[\[?)\s*([\w.-]+)\s*\]")
KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")
AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")


@dataclass(frozen=True)
class Written:
    """A TOML file as text, which knows the line of each key."""

    path: Path
    text: str
    about: str = ""
    """Subject of all errors, such as `claim lat-ping-01`; empty for the whole file."""

    @classmethod
    def read(cls, path: Path, kind: str, hint: str) -> Written:
        """The file of a `kind`, if it is there and can be read; the hint says how to get one."""
        try:
            return cls(path, path.read_text("utf-8"))
        except FileNotFoundError:
            raise BadInput(f"no {kind} file {path}", hint=hint) from None
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: cannot be read", said=str(error)) from None

    def tables(self) -> dict[str, Any]:
        """Parse the text; if it is not TOML, refuse it and name the line."""
        try:
            return records.parse_toml(self.text)
        except ValueError as error:
            match = AT_LINE.search(str(error))
            line = (match[1] or len(self.text.splitlines())) if match else 1
            text = AT_LINE.sub("", str(error))
            hint = 'such as: name = "lat_ping"; text stands in quotes'
            raise BadInput(f"{self.path}:{line}: is not TOML: {text}", hint=hint) from None

    def told_of(self, about: str) -> Written:
        """The same text, where errors are about a part of it."""
        return replace(self, about=about)

    def line(self, *keys: str | int) -> int:
        """The line of a key, or of the nearest table above that stands in the text."""
        for length in range(len(keys), 0, -1):
            if number := self._lines.get(keys[:length]):
                return number
        return 1

    def at(self, *keys: str | int) -> str:
        """File and line, as editors and compilers write them."""
        return f"{self.path}:{self.line(*keys)}"

    def wrong(self, problem: str, *keys: str | int, hint: str = "") -> BadInput:
        """The error for a value that makes no sense."""
        return BadInput(self._with_place(problem, keys), hint=hint)

    @contextmanager
    def locating(self, *keys: str | int) -> Iterator[None]:
        """Add this place to whatever is refused meanwhile."""
        try:
            yield
        except BadInput as error:
            problem = self._with_place(error.what, keys)
            raise BadInput(problem, said=error.said, hint=error.hint) from None

    def _with_place(self, text: str, keys: Keys) -> str:
        return ": ".join(filter(None, [self.at(*keys), self.about, text]))

    def insist_known(self, table: Mapping[str, Any], keys: set[str], *above: str | int) -> None:
        """Refuse a key that nothing asks for."""
        for key in table:
            if key not in keys:
                with self.locating(*above, key):
                    raise Unknown("key", key, keys)

    @cached_property
    def _lines(self) -> dict[Keys, int]:
        lines: dict[Keys, int] = {}
        table: Keys = ()
        counts: dict[str, int] = {}
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := HEADER.match(line):
                table = _table(header[2], header[1] == "[[", counts)
                lines.setdefault(table, number)
            elif key := KEY.match(line):
                parts = (part.strip("\"'") for part in key[1].split("."))
                lines.setdefault((*table, *parts), number)
        return lines


# `[study.sweep]` belongs to the `[[study]]` above it.
def _table(name: str, is_list: bool, counts: dict[str, int]) -> Keys:
    first, *keys = name.split(".")
    if is_list:
        counts[first] = counts.get(first, -1) + 1
    return (first, counts[first], *keys) if first in counts else (first, *keys)
