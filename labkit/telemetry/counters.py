r"""Counters from the CSV that `esxtop -b` and Windows' perfmon write: 20,000 columns are usual.

A file is read in pieces of whole lines, so memory holds what was asked for and little more. Commas
are found in bulk and numbers of two decimals or none, which is nearly all of them, are read eight
digits at a time; `read` is exact, as `float` is. What a field may hold:

    "12.34"  12  -1e3       a number, quoted or not
    ""  " "  nan            not a number: the counter had no value then
      73.1"8.93"            8.93: esxtop -a puts A/MPERF, which has no name, before the next counter

Lines that end with \r\n and a byte order mark are taken, and so is the same header once more, which
a tool writes that was started again into the same file; another header is refused. A last line
that was cut off is left out, and so are the words that typeperf ends with; `cut` tells it. A line
with too few or too many fields is refused, and so is a field of data with a comma or a line break
in it: the tools print none. Counters of the same name are all read, but such a name alone asks for
none of them.

`cached` keeps what it read beside the results, and reads it again in milliseconds as long as the
file has its size, its time of change, and the same first and last 64 KB; a change in the middle by
a program that puts the time back would go unseen.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import mmap
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import FileIO
from operator import itemgetter
from pathlib import Path

import numpy as np

from labkit.errors import BadInput, ResultsError
from labkit.machine.places import out
from labkit.telemetry import few_columns
from labkit.telemetry.fields import FieldPiece, Times
from labkit.telemetry.numbers import Numbers, Places
from labkit.telemetry.pieces import Lines

THREADS = min(os.cpu_count() or 1, 4)
KEPT_BY_MALLOC = 31 << 20
FEW = 16
"""Of so many fields less than one is wanted: the others' places are not worth writing down."""
CACHE = 1
CACHED = ("times", "values")
ENDS = 1 << 16
JOINED = re.compile(r' +[-\d.]+"(.*)"')


@dataclass(frozen=True)
class Columns:
    """One row per moment, one column per counter; `cut` says what of the file was left out."""

    times: Times
    names: tuple[str, ...]
    values: Numbers
    cut: str = ""

    def __getitem__(self, name: str) -> Numbers:
        return self.values[:, _place(self.names, name, "these columns")]


def counters(path: Path) -> tuple[str, ...]:
    """The names of a file's counters in its order; the time of day is not one of them."""
    with _opened(path) as file:
        return _names(path, Lines(path, file).header)


def read(path: Path, names: Sequence[str] | None = None) -> Columns:
    """The counters of these names, or all of them."""
    # Once a block of this size was freed, glibc no longer gives up the memory of each array, only
    # to have it zeroed and mapped anew for the next: mallopt(3), M_MMAP_THRESHOLD.
    np.empty(KEPT_BY_MALLOC, np.uint8)
    with _opened(path) as file:
        lines = Lines(path, file)
        known = _names(path, lines.header)
        wanted = None if names is None else _places(path, known, names)
        first = _regular(path, lines, len(known) + 1, wanted)
        times, values = _all(path, lines, len(known) + 1, wanted)
    if first is not None:
        times, values = np.append(first.times, times), np.append(first.values, values, axis=0)
    if not times.size:
        raise ResultsError(f"{path}: holds no rows, only a header", said=lines.cut)
    return Columns(times, known if names is None else tuple(names), values, lines.cut)


# Where few of many columns are wanted, all rows before the first odd one.
def _regular(
    path: Path, lines: Lines, count: int, wanted: Places | None
) -> few_columns.Rows | None:
    status = os.fstat(lines.file.fileno())
    if wanted is None or FEW * wanted.size >= count or not stat.S_ISREG(status.st_mode):
        return None
    rows = few_columns.regular(path, lines.offset, status.st_size, count, wanted)
    lines.skip(rows.times.size, rows.end)
    return rows


def _all(path: Path, lines: Lines, count: int, wanted: Places | None) -> tuple[Times, Numbers]:
    columns = (count if wanted is None else wanted.size) - 1
    return _Rows(lines.pieces(count), path.stat().st_size, wanted, columns).read()


def cached(path: Path, names: Sequence[str] | None = None) -> Columns:
    """As `read`; from the second time on out of a cache, if the file is still the same."""
    asked = json.dumps([str(path.resolve()), names and list(names)])
    entry = out() / "columns" / hashlib.sha256(asked.encode()).hexdigest()[:24]
    found = _signature(path)
    if (kept := _kept(entry, found)) is not None:
        return kept
    columns = read(path, names)
    # A file that is still being written is read, and not kept.
    if _signature(path) == found:
        _keep(entry, found, columns)
    return columns


def _signature(path: Path) -> list[int | str]:
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        first = file.read(ENDS)
        file.seek(max(0, status.st_size - ENDS))
        ends = hashlib.sha256(first + file.read(ENDS)).hexdigest()
    return [CACHE, status.st_size, status.st_mtime_ns, ends]


def _kept(entry: Path, signature: list[int | str]) -> Columns | None:
    # What is damaged, foreign or half there is read from the source again.
    try:
        about = json.loads((entry / "about.json").read_text("utf-8"))
        if about["signature"] != signature:
            return None
        # Not in the JSON: its reader takes longer for 20,000 names than all the rest.
        with (
            (entry / "names.txt").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            names = tuple(str(text, "utf-8").split("\n"))
        times, values = (np.load(entry / f"{name}.npy", mmap_mode="r") for name in CACHED)
        if values.shape != (times.size, len(names)):
            return None
        return Columns(times, names, values, about["cut"])
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None


def _keep(entry: Path, signature: list[int | str], columns: Columns) -> None:
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(prefix=".half-", dir=entry.parent))
        try:
            for name in CACHED:
                np.save(half / f"{name}.npy", getattr(columns, name))
            (half / "names.txt").write_bytes("\n".join(columns.names).encode("utf-8"))
            about = {"signature": signature, "cut": columns.cut}
            (half / "about.json").write_text(json.dumps(about), "utf-8")
            shutil.rmtree(entry, ignore_errors=True)
            half.rename(entry)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    except OSError as refused:
        raise ResultsError(
            f"cannot keep columns in {entry.parent}",
            said=str(refused),
            hint="is the disk full? labkit.telemetry.counters.read needs no room there",
        ) from None


def _opened(path: Path) -> FileIO:
    try:
        return FileIO(path)
    except OSError as refused:
        raise BadInput(f"{path}: cannot be opened", said=str(refused)) from None


def _place(names: tuple[str, ...], name: str, where: str) -> int:
    found = names.count(name)
    if found == 1:
        return names.index(name)
    if found:
        raise BadInput(f"{where}: {found} counters have the name {name!r}", hint="read all of them")
    # A list of 20,000 known names helps nobody.
    near = [known for known in names if name.lower() in known.lower()][:3]
    raise BadInput(
        f"{where}: none of {len(names)} counters is named {name!r}",
        hint=f"did you mean {' or '.join(map(repr, near))}?" if near else "",
    )


def _names(path: Path, line: bytes) -> tuple[str, ...]:
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
        fields = text[1:-1].split('","')
        # Where all is in quotes and no name has one, that was all. It is in esxtop's.
        if text.count('"') != 2 * len(fields) or not text[:1] == text[-1:] == '"':
            told = next(csv.reader([text], strict=True), [])
            fields = [JOINED.sub(r"\1", name) for name in told]
    except (UnicodeDecodeError, csv.Error) as odd:
        raise ResultsError(
            f"{path}: the header cannot be read",
            said=str(odd),
            hint="fields are taken with commas between them, and text as UTF-8: see iconv",
        ) from None
    if len(fields) < 2 or not fields[0].startswith("(PDH-CSV 4.0)"):
        raise ResultsError(
            f"{path}: is not the CSV of esxtop or perfmon",
            said=text[:80],
            hint='theirs begins with "(PDH-CSV 4.0)" and has one column per counter',
        )
    return tuple(fields[1:])


class _Rows:
    # What several threads read, of which each takes the next piece. The first piece tells how much
    # room all of them need: what is not used costs no memory. Where it was too little there are
    # more blocks, as what another thread is writing into must stay where it is.
    def __init__(
        self, pieces: Iterator[FieldPiece], size: int, wanted: Places | None, columns: int
    ) -> None:
        self.pieces, self.size, self.wanted, self.columns = pieces, size, wanted, columns
        self.next = threading.Lock()
        self.times: list[Times] = []
        self.blocks: list[Numbers] = [np.empty((0, columns))]
        self.filled = [0]
        self.failed: list[tuple[int, ResultsError]] = []

    def read(self) -> tuple[Times, Numbers]:
        with ThreadPoolExecutor(THREADS) as pool:
            others = [pool.submit(self._work) for _ in range(THREADS - 1)]
            self._work()
        for other in others:
            other.result()
        if self.failed:
            raise min(self.failed, key=itemgetter(0))[1]
        return np.concatenate([np.empty(0, "datetime64[us]"), *self.times]), self._joined()

    def _work(self) -> None:
        try:
            while True:
                with self.next:
                    place = len(self.times)
                    if (piece := next(self.pieces, None)) is None:
                        return
                    self.times.append(np.empty(0, "datetime64[us]"))
                    into = self._room(piece)
                self.times[place] = piece.read(self.wanted, into)
        except ResultsError as failed:
            self.failed.append((place, failed))
        finally:
            # Whatever ends one, a stop included, ends all.
            self.pieces = iter(())

    def _room(self, piece: FieldPiece) -> Numbers:
        if len(self.times) == 1:
            whole = math.ceil(1.05 * piece.rows * self.size / (piece.end - piece.start))
            self.blocks = [np.empty((max(whole, piece.rows), self.columns))]
        elif self.filled[-1] + piece.rows > len(self.blocks[-1]):
            rows = max(piece.rows, sum(self.filled) // 16)
            self.blocks.append(np.empty((rows, self.columns)))
            self.filled.append(0)
        self.filled[-1] += piece.rows
        return self.blocks[-1][self.filled[-1] - piece.rows : self.filled[-1]].reshape(-1)

    # All in the first block, which grows where it is if it can.
    def _joined(self) -> Numbers:
        whole, have = self.blocks[0], self.filled[0]
        whole.resize((sum(self.filled), self.columns), refcheck=False)
        for block, rows in zip(self.blocks[1:], self.filled[1:], strict=True):
            whole[have : have + rows] = block[:rows]
            have += rows
        return whole


def _places(path: Path, known: tuple[str, ...], names: Sequence[str]) -> Places:
    if not names:
        raise BadInput(f"{path}: no counter is asked for")
    # All are looked for on one way through the 20,000; the time of day is field 0.
    asked = set(names)
    found = [(name, place) for place, name in enumerate(known, 1) if name in asked]
    places = dict(found)
    if not len(places) == len(found) == len(asked):
        for name in names:
            _place(known, name, str(path))
    return np.array([0, *(places[name] for name in names)])
