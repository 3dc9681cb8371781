r"""Counters from the CSV that `esxtop -b` and Windows' perfmon write: 20,000 columns are usual.

polars reads the file as it lies. If that may not be all of it, each field is read by hand: that
also says what is wrong and where. What a field may hold:

    "12.34"  12  -1e3       a number, quoted or not
    ""  " "  nan            not a number: the counter had no value then
      73.1"8.93"            8.93: esxtop -a puts A/MPERF, which has no name, before the next counter

Lines that end with \r\n and a byte order mark are taken. So is the same header once more, as from a
tool that was started again on the same file. Another header is refused. A last line that was cut
off is left out, and `cut` says so. A line with too few or too many fields is refused, and so is a
line break inside quotes. Counters of the same name are all read, but such a name alone asks for
none of them. Only fields of counters that are asked for are looked at.
"""

from __future__ import annotations

import csv
import re
import tempfile
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, ResultsError

if TYPE_CHECKING:
    import polars as pl

Times = npt.NDArray[np.datetime64]
Numbers = npt.NDArray[np.float64]

JOINED_NAME = re.compile(r' +[-\d.]+"(.*)"')
EXACT_TIME = r"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d{1,6})?$"
TIME = "%m/%d/%Y %H:%M:%S%.f"
SEARCH_BYTES = 1 << 20
LONGEST_LINE = 1 << 26
PROOF = re.compile(rb'".*"')
"""The last field of a line without an end, if it is whole: 12.3 may have been 12.34."""
LOOSE_TIME = re.compile(rb"(\d\d?)/(\d\d?)/(\d{4}) (\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
"""A spreadsheet leaves of a time 3/26/2026 22:42."""
NUMBER = re.compile(rb" *([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?) *")
NO_VALUE = re.compile(rb" *(?:nan)? *", re.IGNORECASE)
JOINT = re.compile(rb' +[-\d.]+("[^"]*")')
"""A/MPERF of esxtop -a, with no comma before the next value in quotes."""


@dataclass(frozen=True)
class Columns:
    """One row per moment, one column per counter; `cut` says what of the file was left out."""

    times: Times
    names: tuple[str, ...]
    values: Numbers
    cut: str = ""

    def __getitem__(self, name: str) -> Numbers:
        return self.values[:, _place(self.names, name, "these columns")]

    def frame(self) -> pl.DataFrame:
        """A polars data frame of `time` and each counter; the second of one name is `... #2`."""
        import polars as pl

        series = zip(numbered(self.names), map(np.array, self.values.T), strict=True)
        return pl.DataFrame({"time": self.times, **dict(series)}, nan_to_null=True)


def numbered(names: Sequence[str]) -> list[str]:
    """The names; the second of two equal ones becomes `... #2`."""
    counts, names_numbered = Counter[str](), []
    for name in names:
        counts[name] += 1
        names_numbered.append(f"{name} #{counts[name]}" if counts[name] > 1 else name)
    return names_numbered


class _Odd(Exception):
    """What polars read may not be what the file says."""


def counters(path: Path) -> tuple[str, ...]:
    """The names of a file's counters in its order; the time of day is not one of them."""
    with opened(path) as file:
        return _names(path, next(_lines(path, file), b""))


def read(path: Path, names: Sequence[str] | None = None) -> Columns:
    """The counters of these names, or all of them."""
    names_all = counters(path)
    places = range(1, len(names_all) + 1) if names is None else _places(path, names_all, names)
    try:
        times, values, cut = *_as_it_lies(path, len(names_all) + 1, places), ""
    except _Odd:
        times, values, cut = _by_hand(path, len(names_all) + 1, places)
    if not times.size:
        raise ResultsError(f"{path}: holds no rows, only a header", said=cut)
    return Columns(times, names_all if names is None else tuple(names), values, cut)


def of_text(text: str) -> Columns:
    """All counters of a file that is a text here already; errors call it esxtop."""
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        file = Path(folder) / "esxtop.csv"
        file.write_bytes(text.encode())
        try:
            return read(file)
        except ResultsError as error:
            problem = error.what.replace(str(file), "esxtop")
            raise ResultsError(problem, said=error.said, hint=error.hint) from None


# The last field of a row is there, and none after it, only if polars found all fields of the row.
def _as_it_lies(path: Path, fields: int, places: Sequence[int]) -> tuple[Times, Numbers]:
    import polars as pl

    last, after = str(fields - 1), str(fields)
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(map(str, range(fields)), pl.Float64)
    schema |= dict.fromkeys(("0", last, after), pl.String)
    columns = list(dict.fromkeys(["0", *map(str, places), last, after]))
    try:
        frame_scanned = pl.scan_csv(
            path, has_header=False, skip_lines=1, schema=schema, missing_columns="insert",
            empty_string_is_null=False, glob=False,
        )  # fmt: skip
        with ThreadPoolExecutor(1) as beside:
            ends_of_lines = beside.submit(_line_ends, path)
            frame = frame_scanned.select(columns).collect()
        rows = ends_of_lines.result() - 1
        ends = frame[last].null_count(), frame[after].null_count()
        if rows < 1 or frame.height != rows or ends != (0, frame.height):
            raise _Odd
        text = frame[last].replace("", None).str.strip_chars(" ").replace("", None)
        frame = frame.with_columns(text.cast(pl.Float64))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise _Odd from None
    return _times(frame["0"]), _numbers(frame, places)


# An infinite number may be one that is too large, and NaN a word: they are looked at by hand.
def _numbers(data_frame: pl.DataFrame, places: Sequence[int]) -> Numbers:
    once = list(dict.fromkeys(places))
    frame = data_frame.select(map(str, once))
    values: Numbers = frame.to_numpy(order="fortran")
    lacking = sum(frame.null_count().row(0))
    if np.count_nonzero(np.isfinite(values)) != values.size - lacking:
        raise _Odd
    return values if len(once) == len(places) else values[:, [once.index(n) for n in places]]


def _times(series: pl.Series) -> Times:
    times = series.str.to_datetime(TIME, time_unit="us", strict=False)
    if times.has_nulls() or not series.str.contains(EXACT_TIME).all():
        raise _Odd
    exact: Times = times.to_numpy()
    return exact


# A search, ten times as fast as a look at each byte where lines are long; none if the last is cut.
def _line_ends(path: Path) -> int:
    count, text, last = 0, bytearray(SEARCH_BYTES), bytearray()
    with opened(path) as file:
        while size := file.readinto(text):
            at = text.find(b"\n", 0, size)
            while at >= 0:
                count, at = count + 1, text.find(b"\n", at + 1, size)
            last = text[size - 1 : size]
    return count if last == b"\n" else 0


def opened(path: Path) -> BufferedReader:
    """The file from its beginning, or the error of who cannot open it."""
    try:
        return BufferedReader(FileIO(path), SEARCH_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: cannot be opened", said=error.strerror or str(error)) from None


def _names(path: Path, line: bytes) -> tuple[str, ...]:
    if not line.endswith(b"\n"):
        hint = "was it made by `esxtop -b`, and not cut off?"
        if b"\r" in line:
            hint = "its lines end with \\r alone: `tr '\\r' '\\n'` makes lines of them"
        raise ResultsError(f"{path}: has no whole header line", hint=hint)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
        texts = next(csv.reader([text], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        problem = f"{path}: the header cannot be read"
        hint = "separate fields with commas and use UTF-8 (see iconv)"
        raise ResultsError(problem, said=str(error), hint=hint) from None
    if len(texts) < 2 or not texts[0].startswith("(PDH-CSV 4.0)"):
        hint = 'theirs begins with "(PDH-CSV 4.0)" and has one column per counter'
        problem = f"{path}: is not the CSV of esxtop or perfmon"
        raise ResultsError(problem, said=text[:80], hint=hint)
    return tuple(JOINED_NAME.sub(r"\1", name) if '"' in name else name for name in texts[1:])


def _place(names: tuple[str, ...], name: str, file: str) -> int:
    count = names.count(name)
    if count == 1:
        return names.index(name)
    if count:
        raise BadInput(f"{file}: {count} counters have the name {name!r}", hint="read all of them")
    # A list of 20,000 known names helps nobody.
    near = [repr(other) for other in names if name.lower() in other.lower()][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else ""
    raise BadInput(f"{file}: none of {len(names)} counters is named {name!r}", hint=hint)


def _places(path: Path, names_all: tuple[str, ...], names: Sequence[str]) -> list[int]:
    if not names:
        raise BadInput(f"{path}: no counter is asked for")
    # All are looked for on one way through the 20,000; the time of day is field 0.
    names_asked = set(names)
    pairs = [(name, place) for place, name in enumerate(names_all, 1) if name in names_asked]
    places = dict(pairs)
    if not len(places) == len(pairs) == len(names_asked):
        for name in names:
            _place(names_all, name, str(path))
    return [places[name] for name in names]


def _lines(path: Path, file: BufferedReader) -> Iterator[bytes]:
    """Lines with their ends; one without end is refused before memory is full."""
    try:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise ResultsError(f"{path}: a line is longer than {LONGEST_LINE >> 20} MB")
            yield line
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read", said=str(error)) from None


# Field by field; the first that is odd is refused, with its place. A tool that was started again,
# into the same file, wrote its header again.
def _by_hand(path: Path, count: int, places: Sequence[int]) -> tuple[Times, Numbers, str]:
    times, values, cut, header = [], [], "", b""
    with opened(path) as file:
        for number, line in enumerate(_lines(path, file), 1):
            row = line.removesuffix(b"\n").removesuffix(b"\r")
            fields, header = row.split(b","), header or row.removeprefix(BOM_UTF8).strip()
            if b"(" in line[:5]:
                if number > 1 and row.strip() != header:
                    problem = f"cannot read line {number}, which is neither a row nor the header"
                    hint = "start a new file when counters change"
                    raise ResultsError(f"{path}: {problem} again", said=_excerpt(row), hint=hint)
            elif line[-1:] != b"\n" and not (len(fields) == count and PROOF.fullmatch(fields[-1])):
                if row.strip():
                    cut = f"the last line is not whole ({len(fields)} of {count} fields)"
            elif len(fields) != count:
                hint = "commas and line breaks inside quotes cannot be read, nor can decimal commas"
                found = f"line {number} has {len(fields)} fields, the header {count}"
                raise ResultsError(f"{path}: {found}", hint=hint)
            else:
                at = f"{path}: cannot read line {number}, field"
                times.append(_moment(fields[0], at))
                values.append([_number(fields[place], f"{at} {place + 1}") for place in places])
    return np.array(times, "datetime64[us]"), np.array(values).reshape(-1, len(places)), cut


def _moment(field: bytes, at: str) -> datetime:
    text = _unquoted(field, f"{at} 1")
    if not (match := LOOSE_TIME.fullmatch(text)):
        hint = "a time is taken as esxtop prints it: 03/26/2026 22:42:05"
        raise ResultsError(f"{at} 1", said=_excerpt(text), hint=hint)
    month, day, year, hour, minute, second, part = (int(part or 0) for part in match.groups())
    micro = part * 10 ** (6 - len(match[7] or b""))
    try:
        return datetime(year, month, day, hour, minute, second, micro)
    except ValueError as error:
        problem = f"{at} 1, which is an impossible time"
        raise ResultsError(problem, said=str(error)) from None


# Exactly as Python reads it; NaN where there is none.
def _number(field: bytes, at: str) -> float:
    text = _unquoted(field, at)
    if match := NUMBER.fullmatch(text):
        return float(match[1])
    if NO_VALUE.fullmatch(text):
        return float("nan")
    raise ResultsError(at, said=_excerpt(text))


def _unquoted(field: bytes, at: str) -> bytes:
    quotes = field[:1] == b'"', field[-1:] == b'"'
    if all(quotes) and len(field) > 1:
        return field[1:-1]
    if not any(quotes):
        return field
    if not (match := JOINT.fullmatch(field)):
        raise ResultsError(at, said=_excerpt(field))
    return match[1][1:-1]


def _excerpt(text: bytes) -> str:
    return text[:80].decode("utf-8", "replace").strip()
