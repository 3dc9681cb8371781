"""Few of very many columns: their fields are copied out of each row as it runs through the cache.

A file is cut where lines begin, and each stretch of it has a thread of its own, which needs nothing
from the others. It reads into the same memory again and again, marks commas and line ends by bits,
finds among them the ends of the wanted fields, and keeps the text before these.

Only rows like all others are taken: as many fields as the header has, each short, a line end behind
the last, a time before the first. From the first that is not on, all is left to
`labkit.telemetry.pieces`, which reads whatever there may be and says what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import FileIO
from itertools import pairwise
from pathlib import Path

import numpy as np

from labkit.errors import ResultsError
from labkit.telemetry import fields
from labkit.telemetry.delimiters import WORD, Delimiters, marks
from labkit.telemetry.fields import COMMA, PART, FieldPiece, Times
from labkit.telemetry.numbers import Bytes, Numbers, Places
from labkit.telemetry.pieces import NEWLINE, newlines

THREADS = min(os.cpu_count() or 1, 4)
STRETCH = 8 << 20
"""A thread for less than this is not worth its start."""
AT_ONCE = 1 << 22
"""So many bytes have their delimiters counted together, which costs calls and not bytes."""
SLOT = 32
"""The longest number and the longest time have less, with quotes and the comma before."""
WAITING = 1 << 14
"""Numbers are made of so many fields, or more, together."""


@dataclass(frozen=True)
class Rows:
    """The rows that were read, and where in the file the last of them has ended."""

    times: Times
    values: Numbers
    end: int


def regular(path: Path, start: int, size: int, count: int, wanted: Places) -> Rows:
    """The wanted fields of all rows before the first odd one; a row has so many in all."""
    cuts = [*_cuts(path, start, size), size]
    stretches = [_Stretch(path, *ends, count, wanted) for ends in pairwise(cuts)]
    if len(stretches) == 1:
        found = [stretches[0].read()]
    else:
        with ThreadPoolExecutor(len(stretches)) as pool:
            found = list(pool.map(_Stretch.read, stretches))
    # What follows an odd row is read with it.
    whole = [rows.end == end for rows, end in zip(found, cuts[1:], strict=True)]
    found = found[: whole.index(False) + 1 if False in whole else None]
    return Rows(
        np.concatenate([rows.times for rows in found]),
        np.concatenate([rows.values for rows in found]),
        found[-1].end,
    )


# Where stretches begin: the first where it is told, the others where lines do.
def _cuts(path: Path, start: int, size: int) -> Iterator[int]:
    yield start
    count = max(1, min(THREADS, (size - start) // STRETCH))
    with FileIO(path) as file:
        for n in range(1, count):
            at = start + (size - start) * n // count
            file.seek(at)
            if (found := file.read(STRETCH).find(b"\n")) >= 0:
                yield at + found + 1


class _Odd(Exception):
    """What was read is not made of rows like all others."""


class _Stretch:
    # `seen` delimiters were counted, lines up to `last` were seen whole, up to `taken` they are in
    # the results; the slots between hold what lies before each delimiter that was asked for.
    def __init__(self, path: Path, start: int, end: int, count: int, wanted: Places) -> None:
        self.path, self.start, self.end, self.count = path, start, end, count
        # The last field is always asked for: its end is that of the row.
        self.asked = np.array(sorted({*wanted.tolist(), count - 1}))
        self.columns = np.searchsorted(self.asked, wanted)
        self.seen, self.last, self.taken = 0, start, start
        self.slots: list[Bytes] = []
        self.times: list[Times] = [np.empty(0, "datetime64[us]")]
        self.values: list[Numbers] = [np.empty((0, wanted.size - 1))]
        room = min(AT_ONCE, -(-(end - start) // WORD) * WORD)
        self.text, self.bits = np.empty(SLOT + room, np.uint8), np.zeros(room // 8, np.uint8)
        self.text[:SLOT] = NEWLINE  # a line begins behind it

    def read(self) -> Rows:
        """All rows up to the end, or to an odd one."""
        try:
            with FileIO(self.path) as file:
                file.seek(self.start)
                for at in range(self.start, self.end, AT_ONCE):
                    self._look(file, at)
                    if sum(map(len, self.slots)) > WAITING:
                        self._take()
            self._take()
        except (_Odd, ResultsError, OSError):
            pass  # what is wrong is told by who reads on from there
        return Rows(np.concatenate(self.times), np.concatenate(self.values), self.taken)

    # Keep what lies before the asked delimiters of so many bytes.
    def _look(self, file: FileIO, at: int) -> None:
        breaks = self._fill(file, min(AT_ONCE, self.end - at))
        found = Delimiters.of(self.bits.view(np.uint64))
        rows = np.arange(self.seen // self.count, (self.seen + found.count) // self.count + 1)
        numbers = (self.count * rows[:, None] + self.asked).ravel()
        first, after = np.searchsorted(numbers, (self.seen, self.seen + found.count))
        numbers = numbers[first:after]
        places = found.at(numbers - self.seen)
        if not np.array_equal(places[numbers % self.count == self.count - 1], breaks):
            raise _Odd
        self.slots.append(np.lib.stride_tricks.sliding_window_view(self.text, SLOT)[places])
        self.seen += found.count
        if breaks.size:
            self.last = at + int(breaks[-1]) + 1
        self.text[:SLOT] = self.text[-SLOT:]

    # A part at a time, which is looked at while it is in the processor's cache. Where lines end.
    def _fill(self, file: FileIO, size: int) -> Places:
        breaks = []
        for first in range(0, size, PART):
            part = self.text[SLOT + first : SLOT + min(first + PART, size)]
            if file.readinto(part.data) != part.size:
                raise _Odd
            breaks.append(newlines(part))
            mask = part == COMMA
            mask[breaks[-1]] = True
            breaks[-1] += first
            found = marks(mask)
            self.bits[first // 8 :][: found.size] = found
        self.bits[-(-size // 8) :] = 0
        return np.concatenate(breaks)

    # Make numbers of the rows that are whole.
    def _take(self) -> None:
        if not (rows := sum(map(len, self.slots)) // self.asked.size):
            return
        # With room around, as what lies beside a field is looked at.
        beside = np.zeros((1, SLOT), np.uint8)
        slots = np.concatenate([beside, *self.slots, beside])
        whole = 1 + rows * self.asked.size
        self.slots = [slots[whole:-1]]
        starts, ends = _fields(slots[:whole])
        chosen = (1 + self.asked.size * np.arange(rows)[:, None] + self.columns).ravel()
        piece = FieldPiece(self.path, slots.reshape(-1), 0, 0, ends, self.count)
        bounds = fields.unquoted(piece, starts[chosen], ends[chosen])
        ends, sizes = (side.reshape(rows, self.columns.size) for side in bounds)
        values = np.empty((rows, self.columns.size - 1))
        fields.read_numbers(piece, ends[:, 1:], sizes[:, 1:], values)
        self.times.append(fields.read_times(piece, ends[:, 0], sizes[:, 0]))
        self.values.append(values)
        self.taken = self.last


# Where the fields in slots start, which is behind the last delimiter, and where they end.
def _fields(slots: Bytes) -> tuple[Places, Places]:
    ends = SLOT * np.arange(1, len(slots) + 1)
    backwards = slots[:, ::-1]
    delimiters = (backwards == COMMA) | (backwards == NEWLINE)
    if not delimiters[1:].any(axis=1).all():
        raise _Odd
    return ends - delimiters.argmax(axis=1), ends
