"""Fields of a CSV file found and read in bulk, many at a time.

A file comes as pieces of whole lines. In a piece, commas and line ends are found by comparing all
bytes at once; where few columns are wanted, only their places are worked out, from running counts
of bits. Numbers that `labkit.decimals` does not take are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from io import FileIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labkit.decimals import Bytes, Numbers, Places, Words, decimals
from labkit.delimiters import WORD, Delimiters, marks
from labkit.errors import ResultsError

Times = npt.NDArray[np.datetime64]
Bounds = tuple[Places, Places]

PIECE = 1 << 21
LONGEST_LINE = 1 << 26
AT_ONCE = 128_000
"""So many fields are read together: few enough that their words may stay in the processor's
cache, so many that two threads work longer than they wait for each other between calls."""
PART = 1 << 19
"""So many bytes are compared together, for the same reasons."""
SEARCHED = 64
"""So many line ends of a piece are searched for; where there are more, each byte is compared."""

ODD_AT_ONCE, WIDEST, SPACE = 4096, 32, 0x20
IN_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789.eE+- ", np.uint8))
COMMA, NEWLINE, RETURN, QUOTE, OPENING = b',\n\r"('
MARK = b"\xef\xbb\xbf"
SHAPE = b"00/00/0000 00:00:00.000000"
LOOSE_TIME = re.compile(rb"(\d\d?)/(\d\d?)/(\d{4}) (\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
NUMBER = re.compile(rb" *([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?) *")
NO_VALUE = re.compile(rb" *(?:nan)? *", re.IGNORECASE)


@dataclass(frozen=True)
class Piece:
    """Whole lines of a file in `buffer`, the first of them from `start` on and of number `line`.

    `breaks` is where each line ends, and `commas` has a bit for each comma, if it was asked for.
    """

    path: Path
    buffer: Bytes
    start: int
    line: int
    breaks: Places
    fields: int
    commas: Words | None = None

    @property
    def rows(self) -> int:
        """So many lines."""
        return self.breaks.size

    @property
    def end(self) -> int:
        """Where the last line has ended."""
        return int(self.breaks[-1]) + 1

    def part(self, first: int, after: int, start: int) -> Piece:
        """Some of its lines, of which the first begins at `start`."""
        return replace(self, start=start, line=self.line + first, breaks=self.breaks[first:after])

    def read(self, wanted: Places | None, into: Numbers) -> Times:
        """Write the wanted numbers row by row, and return the times of the rows, in field 0."""
        table, words, stamps = into.reshape(self.rows, -1), self.buffer.view(np.uint64), []
        at_once = max(1, AT_ONCE // max(1, table.shape[1]))
        for rows, bounds in self._bounds(wanted, at_once):
            ends, sizes = (side.reshape(-1, 1 + table.shape[1]) for side in bounds)
            _read_numbers(self, words, ends[:, 1:], sizes[:, 1:], table[rows])
            stamps.append((ends[:, 0], sizes[:, 0]))
        return _read_times(self, *(np.concatenate(side) for side in zip(*stamps, strict=True)))

    def _bounds(self, wanted: Places | None, at_once: int) -> Iterator[tuple[slice, Bounds]]:
        # Where the wanted fields end and how long they are without their quotes, some rows at once.
        # Each field lies between two delimiters, the first after one that is before the line.
        found: Delimiters | _Places
        if self.commas is None:
            found = _Places(self._delimiters())
        else:
            found = Delimiters.between(self.commas, self.start - 1, self.breaks)
        firsts = self.fields * np.arange(self.rows + 1)
        if found.count != firsts[-1] + 1 or (found.at(firsts[1:]) != self.breaks).any():
            raise self._ragged()
        for first in range(0, self.rows, at_once):
            rows = slice(first, min(first + at_once, self.rows))
            if wanted is None:
                assert isinstance(found, _Places)  # only few of many are looked up
                yield rows, self._between(found.places[firsts[rows.start] : firsts[rows.stop] + 1])
            else:
                numbers = (firsts[rows][:, None] + wanted).ravel()
                before, after = np.split(found.at(np.append(numbers, numbers + 1)), 2)
                yield rows, _unquoted(self, before + 1, after)

    # A part at a time, so that what was compared is still in the processor's cache.
    def _delimiters(self) -> Places:
        found = [np.array([self.start - 1])]
        for first in range(self.start, self.end, PART):
            after = min(first + PART, self.end)
            mask = self.buffer[first:after] == COMMA
            here = slice(*np.searchsorted(self.breaks, (first, after)).tolist())
            mask[self.breaks[here] - first] = True
            found.append(np.flatnonzero(mask))
            found[-1] += first
        return np.concatenate(found)

    # Where all is in quotes, as esxtop has it, there is less to do.
    def _between(self, places: Places) -> Bounds:
        starts, ends = places[:-1] + 1, places[1:] - 1
        last = ends.reshape(-1, self.fields)[:, -1]
        last -= self.buffer[last] == RETURN
        if all((self.buffer.take(side) == QUOTE).all() for side in (starts, ends)):
            sizes = ends - starts
            sizes -= 1
            if sizes.min() >= 0:
                return ends, sizes
        return _unquoted(self, starts, places[1:])

    def refused(self, start: int, end: int) -> ResultsError:
        """The error that says where a field is that cannot be read."""
        above = self.buffer[self.start : start].tobytes()
        line, field = self.line + above.count(b"\n"), above.rpartition(b"\n")[2].count(b",") + 1
        text = self.buffer[start:end].tobytes()[:80].decode("utf-8", "replace")
        return ResultsError(f"{self.path}: cannot read line {line}, field {field}", said=text)

    def _ragged(self) -> ResultsError:
        text = self.buffer[self.start : self.end].tobytes()
        lines = enumerate(text.split(b"\n"), self.line)
        found = ((number, line.count(b",") + 1) for number, line in lines)
        number, fields = next((n, f) for n, f in found if f != self.fields)
        return ResultsError(
            f"{self.path}: line {number} has {fields} fields, the header {self.fields}",
            hint="a comma or a line break inside quotes is not read, and so no decimal comma",
        )


@dataclass(frozen=True)
class _Places:
    # Where each comma and line end is, with what `Delimiters` has.
    places: Places

    @property
    def count(self) -> int:
        return self.places.size

    def at(self, numbers: Places) -> Places:
        found: Places = self.places[numbers]
        return found


class Lines:
    """A file as pieces of whole lines; at its end `cut` says what was left out.

    A byte's place in memory leaves the same rest, divided by WORD, as its place in the file.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path, self.file, self.cut = path, file, ""
        self.piece, self.start, self.have, self.seen = PIECE, WORD, WORD, WORD
        self.memory = _room(WORD + self.piece)
        self.commas: Words | None = None
        self.breaks: list[Places] = []
        while not any(found.size for found in self.breaks):
            if not self._more():
                raise ResultsError(
                    f"{path}: has no whole header line",
                    hint="was it made by `esxtop -b`, and not cut off?",
                )
        end = int(self._found()[0]) + 1
        self.header = self.memory[WORD:end].tobytes()
        self._drop(end)

    def pieces(self, fields: int, larger: int = 1, marked: bool = False) -> Iterator[Piece]:
        """All the lines after the header, each of so many fields, `larger` times PIECE at once."""
        self.piece *= larger
        if marked:
            self.commas = np.zeros(self.memory.size // WORD, np.uint64)
            self._mark(self.start)
        line, more = 2, True
        while more:
            more = self._more()
            if not more:
                self._finish(fields)
            if (breaks := self._found()).size:
                piece = Piece(self.path, self.memory, self.start, line, breaks, fields, self.commas)
                yield from self._data(piece)
                line += breaks.size
                self._drop(piece.end)

    # A tool that was started again, into the same file, wrote its header again.
    def _data(self, piece: Piece) -> Iterator[Piece]:
        starts = np.append(piece.start, piece.breaks[:-1] + 1)
        second = np.minimum(starts + 1, piece.breaks)
        opened = (piece.buffer[starts] == OPENING) | (piece.buffer[second] == OPENING)
        headers = np.flatnonzero(opened).tolist()
        for row in headers:
            line = piece.buffer[starts[row] : piece.breaks[row]].tobytes()
            if line.strip() != self.header.removeprefix(MARK).strip():
                raise self._other_header(piece.line + row, line)
        for last, after in pairwise([-1, *headers, piece.rows]):
            if (first := last + 1) < after:
                yield piece.part(first, after, int(starts[first])) if headers else piece

    def _other_header(self, number: int, line: bytes) -> ResultsError:
        return ResultsError(
            f"{self.path}: cannot read line {number}, which is no row and not the header again",
            said=line[:80].decode("utf-8", "replace"),
            hint="begin a file anew where counters come or go",
        )

    def _more(self) -> bool:
        if self.have - self.start > LONGEST_LINE:
            raise ResultsError(f"{self.path}: a line is longer than {LONGEST_LINE >> 20} MB")
        before, goal = self.have, self.have + self.piece
        if goal >= self.memory.size:
            self._move(0, self.start, 2 * self.memory.size + self.piece)
        # A part at a time, which is looked at while it is in the processor's cache.
        while self.have < goal:
            part = self.memory[self.have : min(self.have + PART, goal)]
            try:
                got = self.file.readinto(part.data)
            except OSError as failed:
                raise ResultsError(f"{self.path}: cannot be read", said=str(failed)) from None
            if not got:
                break
            self.have += got
            self._look()
        return self.have > before

    # Where lines end, and where commas are, in what was not looked at yet.
    def _look(self) -> None:
        self.breaks.append(_newlines(self.memory[self.seen : self.have]) + self.seen)
        self._mark(self.seen)
        self.seen = self.have

    def _mark(self, first: int) -> None:
        if self.commas is not None:
            first -= first % WORD
            found = marks(self.memory[first : self.have] == COMMA)
            self.commas.view(np.uint8)[first // 8 :][: found.size] = found

    def _found(self) -> Places:
        return np.concatenate(self.breaks)

    # A piece keeps its memory, so the rest goes to a new one.
    def _drop(self, end: int) -> None:
        start = WORD + end % WORD
        found = self._found()
        self.breaks = [found[found >= end] - (end - start)]
        self._move(end - start, start, start + self.have - end + self.piece)

    def _move(self, by: int, start: int, room: int) -> None:
        memory, commas = self.memory, self.commas
        self.memory = _room(room)
        self.memory[start : self.have - by] = memory[start + by : self.have]
        self.start, self.have, self.seen = start, self.have - by, self.seen - by
        if commas is not None:
            self.commas = np.zeros(self.memory.size // WORD, np.uint64)
            rest = commas[by // WORD :][: -(-self.have // WORD)]
            self.commas[: rest.size] = rest

    def _finish(self, fields: int) -> None:
        # Only a closing quote proves that the last number is whole: 12.3 may have been 12.34.
        last = self.memory[self.start : self.have].tobytes().rpartition(b"\n")[2]
        if last.count(b",") + 1 == fields and last.endswith((b'"', b'"\r')):
            self.memory[self.have] = NEWLINE
            self.have += 1
            self._look()
        elif last:
            self.cut = f"the last line is not whole ({last.count(b',') + 1} of {fields} fields)"


# Room for so many bytes, for one more line end, and then up to a whole word. What lies before a
# field is looked at, but does not count.
def _room(size: int) -> Bytes:
    memory = np.empty((size // WORD + 1) * WORD, np.uint8)
    memory[: 2 * WORD] = 0
    return memory


# Where lines are long, a search for the end of each is ten times as fast as looking at each byte.
def _newlines(text: Bytes) -> Places:
    found: list[int] = []
    whole = text.view(f"S{text.size}") if text.size else np.array([b""])
    while len(found) < SEARCHED:
        after = found[-1] + 1 if found else 0
        if (place := int(np.strings.find(whole, b"\n", after)[0])) < 0:
            return np.array(found, np.int64)
        found.append(place)
    return np.flatnonzero(text == NEWLINE)


def _read_numbers(piece: Piece, words: Words, ends: Places, sizes: Places, into: Numbers) -> None:
    end, size, values = ends.ravel(), sizes.ravel(), into.reshape(-1)
    odd = decimals(words, end, size, values)
    for first in range(0, odd.size, ODD_AT_ONCE):
        some = odd[first : first + ODD_AT_ONCE]
        values[some] = _odd_numbers(piece, end[some], size[some])


# Such as 7.0625001143654654, which is what perfmon prints.
def _odd_numbers(piece: Piece, ends: Places, sizes: Places) -> Numbers:
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


def _unquoted(piece: Piece, starts: Places, ends: Places) -> Bounds:
    # The ends and the sizes of fields of which each may be in quotes; the last of a line ends
    # with \r if lines end with \r\n.
    before = ends - 1
    last = piece.buffer[before]
    if (returns := last == RETURN).any():
        ends = ends - returns
        before = ends - 1
        last = piece.buffer[before]
    opened, closed = piece.buffer[starts] == QUOTE, last == QUOTE
    long = ends - starts > 1
    if (odd := np.flatnonzero((opened != closed) | (opened & ~long))).size:
        raise piece.refused(int(starts[odd[0]]), int(ends[odd[0]]))
    return ends - closed, ends - closed - starts - opened


def _number(piece: Piece, start: int, end: int) -> float:
    text = piece.buffer[start:end].tobytes()
    if number := NUMBER.fullmatch(text):
        return float(number[1])
    if NO_VALUE.fullmatch(text):
        return float("nan")
    raise piece.refused(start, end)


def _read_times(piece: Piece, ends: Places, sizes: Places) -> Times:
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
def _time(piece: Piece, start: int, end: int) -> np.datetime64:
    if not (found := LOOSE_TIME.fullmatch(piece.buffer[start:end].tobytes())):
        raise piece.refused(start, end)
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
