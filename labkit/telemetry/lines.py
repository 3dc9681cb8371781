"""The lines of a counter file one by one: what is a row, what is left out, what is refused."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError

Times = npt.NDArray[np.datetime64]
Numbers = npt.NDArray[np.float64]

LONGEST_LINE = 1 << 26
MARK = b"\xef\xbb\xbf"
PROOF = re.compile(rb'".*"\r?')
LOOSE_TIME = re.compile(rb"(\d\d?)/(\d\d?)/(\d{4}) (\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
NUMBER = re.compile(rb" *([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?) *")
NO_VALUE = re.compile(rb" *(?:nan)? *", re.IGNORECASE)
# With no comma between, esxtop -a prints A/MPERF before the next value in quotes.
JOINT = re.compile(rb' +[-\d.]+("[^"]*")')


@dataclass(frozen=True)
class Row:
    """A line of fields with its number in the file."""

    path: Path
    number: int
    text: bytes

    def moment(self, field: bytes) -> np.datetime64:
        """The time in the first field; a spreadsheet leaves of it 3/26/2026 22:42."""
        text = self._plain(field, 1)
        if not (match := LOOSE_TIME.fullmatch(text)):
            raise self._refusal(text, 1, "a time is taken as esxtop prints it: 03/26/2026 22:42:05")
        month, day, year, hour, minute, second, part = (int(part or 0) for part in match.groups())
        micro = part * 10 ** (6 - len(match[7] or b""))
        try:
            return np.datetime64(datetime(year, month, day, hour, minute, second, micro), "us")
        except ValueError as error:
            problem = f"{self.path}: line {self.number} has an impossible time"
            raise ResultsError(problem, said=str(error)) from None

    def number_in(self, field: bytes, place: int) -> float:
        """The number in a field, exactly as Python reads it; NaN for anything else."""
        text = self._plain(field, place + 1)
        if match := NUMBER.fullmatch(text):
            return float(match[1])
        if NO_VALUE.fullmatch(text):
            return float("nan")
        raise self._refusal(text, place + 1)

    def _plain(self, field: bytes, number: int) -> bytes:
        quotes = field[:1] == b'"', field[-1:] == b'"'
        if all(quotes) and len(field) > 1:
            return field[1:-1]
        if not any(quotes):
            return field
        if not (match := JOINT.fullmatch(field)):
            raise self._refusal(field, number)
        return match[1][1:-1]

    def _refusal(self, field: bytes, number: int, hint: str = "") -> ResultsError:
        problem = f"{self.path}: cannot read line {self.number}, field {number}"
        return ResultsError(problem, said=_excerpt(field, 80), hint=hint)

    def ragged(self, fields: int) -> ResultsError:
        """The error that names the number of fields found and the number expected."""
        count = self.text.count(b",") + 1
        problem = f"{self.path}: line {self.number} has {count} fields, the header {fields}"
        hint = "commas and line breaks inside quotes cannot be read, nor can decimal commas"
        return ResultsError(problem, hint=hint)


class Rows:
    """The rows of a file from the line `first` on; `cut` says at the end what was left out."""

    def __init__(self, path: Path, file: BinaryIO, header: bytes, first: int, fields: int) -> None:
        self.path, self.file, self.first, self.fields = path, file, first, fields
        self.header = header.removeprefix(MARK).strip()
        self.cut = ""

    def __iter__(self) -> Iterator[Row]:
        words: list[Row] = []
        for number, line in enumerate(long_lines(self.path, self.file), self.first):
            row = Row(self.path, number, line.rstrip(b"\n"))
            if not line.endswith(b"\n") and not self._prove(row):
                continue
            if line[:1] in b"\r\n" or line[:1] >= b"A":
                # typeperf ends with words, and with empty lines.
                words.append(row)
            elif words:
                raise self._after(words[0], row)
            elif b"(" in line[:2]:
                # A tool that was started again, into the same file, wrote its header again.
                if row.text.strip() != self.header:
                    raise self._no_row(row)
            elif line.count(b",") + 1 != self.fields:
                raise row.ragged(self.fields)
            else:
                yield row
        text = _excerpt(b"\n".join(row.text for row in words), 60)
        if text:
            self.cut = f"what follows the last row is left out: {text!r}"

    # Only a closing quote proves that the last number is whole: 12.3 may have been 12.34.
    def _prove(self, row: Row) -> bool:
        count = row.text.count(b",") + 1
        if count == self.fields and PROOF.fullmatch(row.text.rpartition(b",")[2]):
            return True
        if row.text.strip():
            self.cut = f"the last line is not whole ({count} of {self.fields} fields)"
        return False

    def _after(self, words: Row, row: Row) -> ResultsError:
        if words.text.count(b",") + 1 != self.fields:
            return words.ragged(self.fields)
        problem = (
            f"{self.path}: line {row.number} is a row after a line of text; text may only end it"
        )
        return ResultsError(problem, said=_excerpt(words.text, 60))

    def _no_row(self, row: Row) -> ResultsError:
        problem = (
            f"{self.path}: cannot read line {row.number}, which is neither a row nor the header"
        )
        hint = "start a new file when counters change"
        return ResultsError(f"{problem} again", said=_excerpt(row.text, 80), hint=hint)


def _excerpt(text: bytes, limit: int) -> str:
    return text[:limit].decode("utf-8", "replace").strip()


def long_lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Lines with their ends; one without end is refused before memory is full."""
    try:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise ResultsError(f"{path}: a line is longer than {LONGEST_LINE >> 20} MB")
            yield line
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read", said=str(error)) from None


def by_hand(rows: Rows, places: Sequence[int]) -> tuple[Times, Numbers]:
    """The times and the wanted numbers, field by field; the first that is odd is refused."""
    times, values = [], []
    for row in rows:
        fields = row.text.rstrip(b"\r").split(b",")
        times.append(row.moment(fields[0]))
        values.append([row.number_in(fields[place], place) for place in places])
    return np.array(times, "datetime64[us]"), np.array(values).reshape(-1, len(places))
