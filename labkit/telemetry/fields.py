"""Fields of a CSV file found and read in bulk, many at a time.

In a piece of whole lines, commas are found by comparing all bytes at once. Numbers that
`labkit.telemetry.numbers` does not take are given to Python, as many at a time as it takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.telemetry.numbers import Bytes, Mask, Numbers, Places, decimals

Times = npt.NDArray[np.datetime64]
Bounds = tuple[Places, Places]

AT_ONCE = 128_000
"""About so many fields are read together: few enough that their words may stay in the processor's
cache, so many that two threads work longer than they wait for each other between calls."""
FIRST_OF_FOUR, WORD = np.uint32(1), 8
PART = 1 << 19
"""So many bytes are compared together, for the same reasons."""

ODD_AT_ONCE, WIDEST, SPACE = 4096, 32, 0x20
IN_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789.eE+- ", np.uint8))
COMMA, RETURN, QUOTE = b',\r"'
SHAPE = b"00/00/0000 00:00:00.000000"
LOOSE_TIME = re.compile(rb"(\d\d?)/(\d\d?)/(\d{4}) (\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
NUMBER = re.compile(rb" *([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?) *")
NO_VALUE = re.compile(rb" *(?:nan)? *", re.IGNORECASE)
JOINED = re.compile(rb' +[-\d.]+("[^"]*")')


@dataclass(frozen=True)
class FieldPiece:
    """Whole lines of a file in `buffer`, the first of them from `start` on and of number `line`.

    `breaks` is where each line ends.
    """

    path: Path
    buffer: Bytes
    start: int
    line: int
    breaks: Places
    fields: int

    @property
    def rows(self) -> int:
        """So many lines."""
        return self.breaks.size

    @property
    def end(self) -> int:
        """Where the last line has ended."""
        return int(self.breaks[-1]) + 1

    def part(self, first: int, after: int, start: int) -> FieldPiece:
        """Some of its lines, of which the first begins at `start`."""
        return replace(self, start=start, line=self.line + first, breaks=self.breaks[first:after])

    def read(self, wanted: Places | None, into: Numbers) -> Times:
        """Write the wanted numbers row by row, and return the times of the rows, in field 0."""
        table, stamps = into.reshape(self.rows, -1), []
        at_once = math.ceil(self.rows / max(1, round(table.size / AT_ONCE)))
        for rows, bounds in self._bounds(wanted, at_once):
            ends, sizes = (side.reshape(-1, 1 + table.shape[1]) for side in bounds)
            read_numbers(self, ends[:, 1:], sizes[:, 1:], table[rows])
            stamps.append((ends[:, 0], sizes[:, 0]))
        return read_times(self, *(np.concatenate(side) for side in zip(*stamps, strict=True)))

    def _bounds(self, wanted: Places | None, at_once: int) -> Iterator[tuple[slice, Bounds]]:
        # Where the wanted fields end and how long they are without their quotes, some rows at once.
        # Each field lies between two delimiters, the first after one that is before the line.
        found = self._delimiters()
        firsts = self.fields * np.arange(self.rows + 1)
        if (found[firsts[1:]] != self.breaks).any():
            raise self._ragged()
        for first in range(0, self.rows, at_once):
            rows = slice(first, min(first + at_once, self.rows))
            if wanted is None:
                yield rows, self._between(found[firsts[rows.start] : firsts[rows.stop] + 1])
            else:
                numbers = (firsts[rows][:, None] + wanted).ravel()
                yield rows, unquoted(self, found[numbers] + 1, found[numbers + 1])

    # A part at a time, so that what was compared is still in the processor's cache.
    def _delimiters(self) -> Places:
        found = np.empty(1 + self.fields * self.rows, np.int64)
        found[0], have = self.start - 1, 1
        for first in range(self.start, self.end, PART):
            after = min(first + PART, self.end)
            mask = np.empty(-(-(after - first) // WORD) * WORD, np.bool_)
            np.equal(self.buffer[first:after], COMMA, out=mask[: after - first])
            mask[after - first :] = False
            here = slice(*np.searchsorted(self.breaks, (first, after)).tolist())
            mask[self.breaks[here] - first] = True
            places = _places(mask)
            if have + places.size > found.size:
                raise self._ragged()
            np.add(places, first, out=found[have : have + places.size])
            have += places.size
        if have < found.size:
            raise self._ragged()
        return found

    # Where all is in quotes, as esxtop has it, there is less to do.
    def _between(self, places: Places) -> Bounds:
        before, after, ends = places[:-1], places[1:], places[1:] - 1
        last = ends.reshape(-1, self.fields)[:, -1]
        returned = self.buffer[last] == RETURN
        last -= returned
        if _all_quotes(self.buffer[1:], before) and _all_quotes(self.buffer, ends):
            sizes = after - before
            sizes -= len('"",')
            sizes.reshape(-1, self.fields)[:, -1] -= returned
            if sizes.min() >= 0:
                return ends, sizes
        return unquoted(self, before + 1, after)

    def refused(self, start: int, end: int, hint: str = "") -> ResultsError:
        """The error that says where a field is that cannot be read."""
        above = self.buffer[self.start : start].tobytes()
        line, field = self.line + above.count(b"\n"), above.rpartition(b"\n")[2].count(b",") + 1
        text = self.buffer[start:end].tobytes()[:80].decode("utf-8", "replace")
        what = f"{self.path}: cannot read line {line}, field {field}"
        return ResultsError(what, said=text, hint=hint)

    def _ragged(self) -> ResultsError:
        text = self.buffer[self.start : self.end].tobytes()
        lines = enumerate(text.split(b"\n"), self.line)
        found = ((number, line.count(b",") + 1) for number, line in lines)
        number, fields = next((n, f) for n, f in found if f != self.fields)
        return ResultsError(
            f"{self.path}: line {number} has {fields} fields, the header {self.fields}",
            hint="a comma or a line break inside quotes is not read, and so no decimal comma",
        )


def _all_quotes(text: Bytes, places: Places) -> bool:
    return bool((text.take(places) == QUOTE).all())


# Where a mask is set. Between two delimiters that are in quotes lie two more characters, so that of
# four neighbours mostly one is set at most, and a quarter of the mask has to be looked at.
def _places(mask: Mask) -> Places:
    fours = mask.view(np.uint32)
    found = np.flatnonzero(fours != 0)
    below = np.bitwise_count(fours.take(found) - FIRST_OF_FOUR)
    if (below & 7).any():
        return np.flatnonzero(mask)
    below >>= 3
    found *= 4
    found += below
    return found


def read_numbers(piece: FieldPiece, ends: Places, sizes: Places, into: Numbers) -> None:
    """Write the numbers in the fields that end there, each of such a size."""
    words, values = piece.buffer.view(np.uint64), into.reshape(-1)
    end, size = ends.ravel(), sizes.ravel()
    odd = decimals(words, end, size, values)
    for first in range(0, odd.size, ODD_AT_ONCE):
        some = odd[first : first + ODD_AT_ONCE]
        values[some] = _odd_numbers(piece, end[some], size[some])


# Such as 7.0625001143654654, which is what perfmon prints.
def _odd_numbers(piece: FieldPiece, ends: Places, sizes: Places) -> Numbers:
    widths = (piece.buffer.size - WIDEST + 1, WIDEST)
    text = np.lib.stride_tricks.as_strided(piece.buffer, widths, (1, 1))[ends - WIDEST]
    text[np.arange(WIDEST) < WIDEST - sizes[:, None]] = SPACE
    empty = (text == SPACE).all(axis=1)
    plain = IN_NUMBERS[text].all(axis=1) & (sizes <= WIDEST) & ~empty
    found = np.full(ends.size, np.nan)
    try:
        found[plain] = text[plain].view(f"S{WIDEST}").astype(np.float64).ravel()
    except ValueError:
        plain[:] = False
    for at in np.flatnonzero(~plain & ((sizes > WIDEST) | ~empty)):
        found[at] = _number(piece, int(ends[at] - sizes[at]), int(ends[at]))
    return found


def unquoted(piece: FieldPiece, starts: Places, ends: Places) -> Bounds:
    """The ends and the sizes of fields of which each may be in quotes."""
    # The last of a line ends with \r if lines end with \r\n.
    before = ends - 1
    last = piece.buffer[before]
    if (returns := last == RETURN).any():
        ends = ends - returns
        before = ends - 1
        last = piece.buffer[before]
    opened, closed = piece.buffer[starts] == QUOTE, last == QUOTE
    long = ends - starts > 1
    if (odd := np.flatnonzero((opened != closed) | (opened & ~long))).size:
        starts = starts.copy()
        starts[odd] = [_quoted(piece, int(starts[at]), int(ends[at])) for at in odd]
        opened[odd] = True
    return ends - closed, ends - closed - starts - opened


# With no comma between, esxtop prints what it has for the screen before the value in quotes.
def _quoted(piece: FieldPiece, start: int, end: int) -> int:
    if not (found := JOINED.fullmatch(piece.buffer[start:end].tobytes())):
        raise piece.refused(start, end)
    return start + found.start(1)


def _number(piece: FieldPiece, start: int, end: int) -> float:
    text = piece.buffer[start:end].tobytes()
    if number := NUMBER.fullmatch(text):
        return float(number[1])
    if NO_VALUE.fullmatch(text):
        return float("nan")
    raise piece.refused(start, end)


def read_times(piece: FieldPiece, ends: Places, sizes: Places) -> Times:
    """The times in such fields."""
    starts = ends - sizes
    times = np.empty(starts.size, "datetime64[us]")
    # Not np.unique, for which numpy first imports what it needs for masked arrays.
    for width in sorted(set(sizes.tolist())):
        rows = np.flatnonzero(sizes == width)
        text = piece.buffer[starts[rows][:, None] + np.arange(min(width, len(SHAPE)))]
        if not 19 <= width <= len(SHAPE) or _not_like(SHAPE[:width], text).size:
            times[rows] = [_time(piece, int(starts[row]), int(ends[row])) for row in rows]
            continue
        order = [6, 7, 8, 9, 2, 0, 1, 5, 3, 4, *range(10, width)]
        iso = np.ascontiguousarray(text[:, order])
        iso[:, [4, 7, 10]] = np.frombuffer(b"--T", np.uint8)
        try:
            times[rows] = iso.view(f"S{width}").ravel().astype(times.dtype)
        except ValueError as impossible:
            where = f"{piece.path}: line {piece.line} or one after it has an impossible time"
            raise ResultsError(where, said=str(impossible)) from None
    return times


# What a spreadsheet leaves of a time that it saved: 3/26/2026 22:42.
def _time(piece: FieldPiece, start: int, end: int) -> np.datetime64:
    if not (found := LOOSE_TIME.fullmatch(piece.buffer[start:end].tobytes())):
        raise piece.refused(start, end, "a time is taken as esxtop prints it: 03/26/2026 22:42:05")
    month, day, year, hour, minute, second, part = (int(part or 0) for part in found.groups())
    micro = part * 10 ** (6 - len(found[7] or b""))
    try:
        return np.datetime64(datetime(year, month, day, hour, minute, second, micro), "us")
    except ValueError:
        raise piece.refused(start, end) from None


def _not_like(shape: bytes, text: Bytes) -> Places:
    # The rows that differ from the shape, in which 0 stands for any digit.
    wanted = np.frombuffer(shape, np.uint8)
    digit = (text >= 0x30) & (text <= 0x39)
    fits = np.where(wanted == 0x30, digit, text == wanted).all(axis=1)
    return np.flatnonzero(~fits)
