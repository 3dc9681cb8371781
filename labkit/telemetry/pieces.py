"""A CSV file as pieces of whole lines, which are looked at while the processor has them at hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from io import FileIO
from itertools import pairwise
from pathlib import Path

import numpy as np

from labkit.errors import ResultsError
from labkit.telemetry.fields import PART, RETURN, FieldPiece
from labkit.telemetry.numbers import Bytes, Places

PIECE = 1 << 21
BEFORE, WORD = 64, 8
"""So much memory lies before the text: what is there is looked at, but does not count."""
LONGEST_LINE = 1 << 26
SEARCHED = 64
"""So many line ends of a part are searched for; where there are more, each byte is compared."""
NEWLINE, OPENING, FIRST_LETTER = b"\n(A"
PROVEN = re.compile(rb'".*"\r?')
MARK = b"\xef\xbb\xbf"


class Lines:
    """A file as pieces of whole lines; at its end `cut` says what was left out."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path, self.file, self.cut = path, file, ""
        self.line, self.text = 1, b""
        self._begin()
        # typeperf, asked for no file, prints an empty line first.
        while not (header := self._first()).strip(b"\r\n"):
            self.line += 1
        self.header = header

    def _begin(self) -> None:
        self.have = self.seen = BEFORE
        self.memory = _room(BEFORE + PIECE)
        self.breaks: list[Places] = [np.empty(0, np.int64)]

    def _first(self) -> bytes:
        while not any(found.size for found in self.breaks):
            if not self._more():
                raise self._no_header()
        end = int(self._found()[0]) + 1
        line = self.memory[BEFORE:end].tobytes()
        self._drop(end)
        return line

    def _no_header(self) -> ResultsError:
        hint = "was it made by `esxtop -b`, and not cut off?"
        if b"\r" in self.memory[BEFORE : self.have].tobytes():
            hint = "its lines end with \\r alone: `tr '\\r' '\\n'` makes lines of them"
        return ResultsError(f"{self.path}: has no whole header line", hint=hint)

    @property
    def offset(self) -> int:
        """Where in the file the next line begins."""
        return self.file.tell() - (self.have - BEFORE)

    def skip(self, lines: int, offset: int) -> None:
        """Go on after so many lines, where in the file the last of them has ended."""
        self.file.seek(offset)
        self.line += lines
        self._begin()

    def pieces(self, fields: int) -> Iterator[FieldPiece]:
        """All the lines after the header, each of so many fields."""
        line, more = self.line + 1, True
        while more:
            more = self._more()
            if not more:
                self._finish(fields)
            if (breaks := self._found()).size:
                piece = FieldPiece(self.path, self.memory, BEFORE, line, breaks, fields)
                yield from self._data(piece)
                line += breaks.size
                self._drop(piece.end)

    # A tool that was started again, into the same file, wrote its header again.
    def _data(self, piece: FieldPiece) -> Iterator[FieldPiece]:
        starts = np.append(piece.start, piece.breaks[:-1] + 1)
        if not (rows := self._rows(piece, piece.buffer[starts])):
            return
        piece, starts = replace(piece, breaks=piece.breaks[:rows]), starts[:rows]
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

    # So many rows come before words, which typeperf ends with. Where rows come after such words,
    # these are left where they are, and refused.
    def _rows(self, piece: FieldPiece, begins: Bytes) -> int:
        words = (begins >= FIRST_LETTER) | (begins == NEWLINE) | (begins == RETURN)
        rows = piece.rows if not words.any() else int(words.argmax())
        if self.text and rows:
            raise ResultsError(
                f"{self.path}: line {piece.line} is a row, and no row may follow words",
                said=_shown(self.text),
            )
        if not words[rows:].all():
            return piece.rows
        if rows < piece.rows:
            after = int(piece.breaks[rows - 1]) + 1 if rows else piece.start
            self.text += piece.buffer[after : piece.end].tobytes()[:80]
            self.cut = f"what follows the last row is left out: {_shown(self.text)!r}"
        return rows

    def _other_header(self, number: int, line: bytes) -> ResultsError:
        return ResultsError(
            f"{self.path}: cannot read line {number}, which is no row and not the header again",
            said=line[:80].decode("utf-8", "replace"),
            hint="start a new file when counters change",
        )

    def _more(self) -> bool:
        if self.have - BEFORE > LONGEST_LINE:
            raise ResultsError(f"{self.path}: a line is longer than {LONGEST_LINE >> 20} MB")
        before, goal = self.have, self.have + PIECE
        if goal >= self.memory.size:
            self._move(0, 2 * self.memory.size + PIECE)
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

    # Where lines end in what was not looked at yet.
    def _look(self) -> None:
        self.breaks.append(newlines(self.memory[self.seen : self.have]) + self.seen)
        self.seen = self.have

    def _found(self) -> Places:
        return np.concatenate(self.breaks)

    # A piece keeps its memory, so the rest goes to a new one.
    def _drop(self, end: int) -> None:
        found, by = self._found(), end - BEFORE
        self.breaks = [found[found >= end] - by]
        self._move(by, self.have - by + PIECE)

    def _move(self, by: int, room: int) -> None:
        memory, self.memory = self.memory, _room(room)
        self.memory[BEFORE : self.have - by] = memory[BEFORE + by : self.have]
        self.have, self.seen = self.have - by, self.seen - by

    def _finish(self, fields: int) -> None:
        # Only a closing quote proves that the last number is whole: 12.3 may have been 12.34.
        last = self.memory[BEFORE : self.have].tobytes().rpartition(b"\n")[2]
        if last.count(b",") + 1 == fields and PROVEN.fullmatch(last.rpartition(b",")[2]):
            self.memory[self.have] = NEWLINE
            self.have += 1
            self._look()
        elif last.strip():
            self.cut = f"the last line is not whole ({last.count(b',') + 1} of {fields} fields)"


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()[:60]


# Room for so many bytes, for one more line end, and then up to a whole word.
def _room(size: int) -> Bytes:
    memory = np.empty((size // WORD + 1) * WORD, np.uint8)
    memory[:BEFORE] = 0
    return memory


def newlines(text: Bytes) -> Places:
    """Where lines end: a search, ten times as fast as a look at each byte where lines are long."""
    found: list[int] = []
    whole = text.view(f"S{text.size}") if text.size else np.array([b""])
    while len(found) < SEARCHED:
        after = found[-1] + 1 if found else 0
        if (place := int(np.strings.find(whole, b"\n", after)[0])) < 0:
            return np.array(found, np.int64)
        found.append(place)
    return np.flatnonzero(text == NEWLINE)
