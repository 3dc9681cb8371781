"""Fields of a CSV file found and read in bulk, many at a time.

A file comes as pieces of whole lines. In a piece, commas and line ends are found by comparing all
bytes at once; where few columns are wanted, only their places are worked out, from running counts
of bits. Numbers that `labkit.decimals` does not take are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from io import FileIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labkit.decimals import Mask, Numbers, Places, Words, decimals
from labkit.errors import ResultsError

Times = npt.NDArray[np.datetime64]
Bytes = npt.NDArray[np.uint8]
Bounds = tuple[Places, Places]

PIECE = 1 << 21
LONGEST_LINE = 1 << 26
BEFORE = 16
"""So many bytes lie before each piece, so that reading backwards from a field never leaves it."""
AT_ONCE = 64_000
"""So many fields are read together: few enough that their words may stay in the processor's
cache, so many that two threads work longer than they wait for each other between calls."""
PART = 1 << 19
"""So many bytes are compared together, for the same reasons."""
SEARCHED = 64
"""So many line ends of a piece are searched for; where there are more, each byte is compared."""
FEW = 16
"""Of so many fields less than one is wanted: the others' places are not worth finding."""

ONE = np.uint64(1)
LEAST_QUOTED = 3
"""The quotes of a field and the delimiter after it."""

COMMA, NEWLINE, RETURN, QUOTE, OPENING = b',\n\r"('
MARK = b"\xef\xbb\xbf"
SHAPE = b"00/00/0000 00:00:00.000000"
LOOSE_TIME = re.compile(rb"(\d\d?)/(\d\d?)/(\d{4}) (\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
NUMBER = re.compile(rb" *([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?) *")
NO_VALUE = re.compile(rb" *(?:nan)? *", re.IGNORECASE)


@dataclass(frozen=True)
class Piece:
    """Whole lines of a file, BEFORE bytes into `buffer`; `line` is the number of the first.

    `breaks` is where each line ends.
    """

    path: Path
    buffer: Bytes
    line: int
    breaks: Places
    fields: int

    @property
    def rows(self) -> int:
        """So many lines."""
        return self.breaks.size

    def part(self, first: int, after: int, start: int) -> Piece:
        """Some of its lines, of which the first begins at `start`."""
        breaks, moved = self.breaks[first:after], start - BEFORE
        buffer = self.buffer[moved : int(breaks[-1]) + 1]
        return Piece(self.path, buffer, self.line + first, breaks - moved, self.fields)

    def read(self, wanted: Places | None, into: Numbers) -> Times:
        """Write the wanted numbers row by row, and return the times of the rows, in field 0."""
        table, words, stamps = into.reshape(self.rows, -1), _words(self.buffer), []
        at_once = max(1, AT_ONCE // max(1, table.shape[1]))
        for rows, bounds in self._bounds(wanted, at_once):
            ends, sizes = (side.reshape(-1, 1 + table.shape[1]) for side in bounds)
            _read_numbers(self, words, ends[:, 1:], sizes[:, 1:], table[rows])
            stamps.append((ends[:, 0], sizes[:, 0]))
        return _read_times(self, *(np.concatenate(side) for side in zip(*stamps, strict=True)))

    def _bounds(self, wanted: Places | None, at_once: int) -> Iterator[tuple[slice, Bounds]]:
        # Where the wanted fields end and how long they are without their quotes, some rows at once.
        mask = self.buffer == COMMA
        mask[self.breaks] = True
        mask[: BEFORE - 1] = False
        mask[BEFORE - 1] = True  # so that each field lies between two delimiters
        few = wanted is not None and FEW * wanted.size < self.fields
        found = _Sparse.of(mask) if few else _Dense(np.flatnonzero(mask))
        firsts = self.fields * np.arange(self.rows + 1)
        if found.count != firsts[-1] + 1 or (found.at(firsts[1:]) != self.breaks).any():
            raise self._ragged()
        quoted = wanted is None and self._quoted(mask) == (firsts[-1], firsts[-1])
        for first in range(0, self.rows, at_once):
            rows = slice(first, min(first + at_once, self.rows))
            if wanted is None:
                assert isinstance(found, _Dense)  # only few of many are looked up
                places = found.places[firsts[rows.start] : firsts[rows.stop] + 1]
                yield rows, self._between(places, quoted)
            else:
                numbers = (firsts[rows][:, None] + wanted).ravel()
                before, after = np.split(found.at(np.append(numbers, numbers + 1)), 2)
                yield rows, _unquoted(self, before + 1, after)

    def _between(self, places: Places, quoted: bool) -> Bounds:
        # Where all is in quotes, as esxtop has it, counting them is quicker than looking at each.
        if quoted:
            sizes = np.diff(places)
            sizes -= LEAST_QUOTED
            if sizes.min() >= 0:
                return places[1:] - 1, sizes
        return _unquoted(self, places[:-1] + 1, places[1:])

    # So many fields begin with a quote, and so many end with one.
    def _quoted(self, mask: Mask) -> tuple[int, int]:
        opened, closed = 0, 0
        for first in range(0, mask.size - 1, PART):
            delimits = mask[first : first + PART + 1]
            quotes = self.buffer[first : first + PART + 1] == QUOTE
            opened += int(np.count_nonzero(quotes[1:] & delimits[:-1]))
            closed += int(np.count_nonzero(quotes[:-1] & delimits[1:]))
        return opened, closed

    def refused(self, start: int, end: int) -> ResultsError:
        """The error that says where a field is that cannot be read."""
        above = self.buffer[BEFORE:start].tobytes()
        line, field = self.line + above.count(b"\n"), above.rpartition(b"\n")[2].count(b",") + 1
        text = self.buffer[start:end].tobytes()[:80].decode("utf-8", "replace")
        return ResultsError(f"{self.path}: cannot read line {line}, field {field}", said=text)

    def _ragged(self) -> ResultsError:
        lines = enumerate(self.buffer[BEFORE:].tobytes().split(b"\n"), self.line)
        found = ((number, line.count(b",") + 1) for number, line in lines)
        number, fields = next((n, f) for n, f in found if f != self.fields)
        return ResultsError(
            f"{self.path}: line {number} has {fields} fields, the header {self.fields}",
            hint="a comma or a line break inside quotes is not read, and so no decimal comma",
        )


@dataclass(frozen=True)
class _Dense:
    # Where each comma and line end is.
    places: Places

    @property
    def count(self) -> int:
        return self.places.size

    def at(self, numbers: Places) -> Places:
        found: Places = self.places[numbers]
        return found


@dataclass(frozen=True)
class _Sparse:
    # The same as bits and running counts, for when only few of them are looked up.
    words: Words
    counts: Places

    @classmethod
    def of(cls, mask: Mask) -> _Sparse:
        bits = np.packbits(mask, bitorder="little")
        words = np.zeros(-(-bits.size // 8), np.uint64)
        words.view(np.uint8)[: bits.size] = bits
        return cls(words, np.cumsum(np.bitwise_count(words), dtype=np.int64))

    @property
    def count(self) -> int:
        return int(self.counts[-1])

    def at(self, numbers: Places) -> Places:
        word = np.searchsorted(self.counts, numbers, side="right")
        left = self.words[word]
        skipped = numbers - (self.counts[word] - np.bitwise_count(left))
        for nth in range(int(skipped.max(initial=0))):
            left = np.where(nth < skipped, left & (left - ONE), left)  # without its lowest bit
        below: Places = np.bitwise_count((left - ONE) & ~left).astype(np.int64)
        return 64 * word + below


class Lines:
    """A file as pieces of whole lines; at its end `cut` says what was left out.

    Pieces are `larger` so many times than PIECE.
    """

    def __init__(self, path: Path, file: FileIO, larger: int = 1) -> None:
        self.path, self.file, self.cut = path, file, ""
        self.piece, self.have, self.seen = larger * PIECE, BEFORE, BEFORE
        self.memory = np.empty(BEFORE + self.piece + 1, np.uint8)
        self.breaks: list[Places] = []
        while not any(found.size for found in self.breaks):
            if not self._more():
                raise ResultsError(
                    f"{path}: has no whole header line",
                    hint="was it made by `esxtop -b`, and not cut off?",
                )
        end = int(self._found()[0]) + 1
        self.header = self.memory[BEFORE:end].tobytes()
        self._drop(end)

    def pieces(self, fields: int) -> Iterator[Piece]:
        """All the lines after the header, each of so many fields."""
        line, more = 2, True
        while more:
            more = self._more()
            if not more:
                self._finish(fields)
            if (breaks := self._found()).size:
                end = int(breaks[-1]) + 1
                yield from self._data(Piece(self.path, self.memory[:end], line, breaks, fields))
                line += breaks.size
                self._drop(end)

    # A tool that was started again, into the same file, wrote its header again.
    def _data(self, piece: Piece) -> Iterator[Piece]:
        starts = np.append(BEFORE, piece.breaks[:-1] + 1)
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
        if self.have - BEFORE > LONGEST_LINE:
            raise ResultsError(f"{self.path}: a line is longer than {LONGEST_LINE >> 20} MB")
        if self.have + self.piece >= self.memory.size:
            self._move(0, 2 * self.memory.size + self.piece)
        try:
            got = self.file.readinto(self.memory[self.have : self.have + self.piece].data)
        except OSError as failed:
            raise ResultsError(f"{self.path}: cannot be read", said=str(failed)) from None
        self.have += got or 0
        self._look()
        return bool(got)

    # Where lines end in what was not looked at yet.
    def _look(self) -> None:
        self.breaks.append(_newlines(self.memory[self.seen : self.have]) + self.seen)
        self.seen = self.have

    def _found(self) -> Places:
        return np.concatenate(self.breaks)

    # A piece keeps its memory, so the rest goes to a new one.
    def _drop(self, end: int) -> None:
        rest = self.have - end
        found = self._found()
        self.breaks = [found[found >= end] - (end - BEFORE)]
        self._move(end - BEFORE, BEFORE + rest + self.piece + 1)

    def _move(self, by: int, room: int) -> None:
        memory = np.empty(room, np.uint8)
        self.have, self.seen = self.have - by, self.seen - by
        memory[BEFORE : self.have] = self.memory[BEFORE + by : self.have + by]
        memory[:BEFORE] = 0
        self.memory = memory

    def _finish(self, fields: int) -> None:
        # Only a closing quote proves that the last number is whole: 12.3 may have been 12.34.
        last = self.memory[BEFORE : self.have].tobytes().rpartition(b"\n")[2]
        if last.count(b",") + 1 == fields and last.endswith((b'"', b'"\r')):
            self.memory[self.have] = NEWLINE
            self.have += 1
            self._look()
        elif last:
            self.cut = f"the last line is not whole ({last.count(b',') + 1} of {fields} fields)"


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


def _words(buffer: Bytes) -> Words:
    # The eight bytes that begin at each place.
    return np.lib.stride_tricks.as_strided(
        buffer[:8].view("<u8"), (buffer.size - 7,), (1,), writeable=False
    )


def _read_numbers(piece: Piece, words: Words, ends: Places, sizes: Places, into: Numbers) -> None:
    end, size, values = ends.ravel(), sizes.ravel(), into.reshape(-1)
    for at in decimals(words, end, size, values):
        values[at] = _number(piece, int(end[at] - size[at]), int(end[at]))


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
