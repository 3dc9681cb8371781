"""Plain numbers: a CSV or JSON lines with condition, block, metric, value and unit, or one a line.

Only `value` is needed. Rows of a condition and a block are one run; without them, a file is one.
Whatever is no number, or of another unit than before, is refused with its line.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from labkit.errors import ResultsError, Unknown
from labkit.imports._reading import insist, json_of, sample
from labkit.statistics.pooled import LARGEST, SMALLEST
from labkit.workload import Sample

COLUMNS = ("condition", "block", "metric", "value", "unit")
METRIC = "value"
"""The metric of numbers that name none."""
MOST_CONDITION = 200
HINT = "remove the row, or give its number"


class _Row(NamedTuple):
    line: int
    condition: str
    block: int
    metric: str
    value: float
    unit: str


def read(text: str) -> list[Sample]:
    """The values of each metric, in the order written."""
    return _samples(list(_rows(text)))


def parts(text: str) -> list[tuple[str, int, str]]:
    """The runs of a file: condition (or ""), block (or 0), and the text of that run alone."""
    runs: dict[tuple[str, int], list[_Row]] = {}
    rows = list(_rows(text))
    for row in rows:
        runs.setdefault((row.condition, row.block), []).append(row)
    if not runs:
        raise ResultsError("the text holds no values")
    _insist_one_unit(rows)
    for of_run in runs.values():
        _samples(of_run)
    return [(*key, _text(of_run)) for key, of_run in runs.items()]


def as_values(samples: Sequence[Sample], condition: str, block: int) -> str:
    """Samples in this format, as one run."""
    rows = [_Row(0, condition, block, figure.metric, float(value), figure.unit)
            for figure in samples for value in figure.values]  # fmt: skip
    return _text(rows)


# With the block, so that equal values of two blocks are not taken for one measurement.
def _text(rows: Sequence[_Row]) -> str:
    buffer = io.StringIO()
    lines = csv.writer(buffer, lineterminator="\n")
    names = [name for name in COLUMNS if name == "value" or getattr(rows[0], name)]
    lines.writerow(names)
    lines.writerows([getattr(row, name) for name in names] for row in rows)
    return buffer.getvalue()


def _samples(rows: Sequence[_Row]) -> list[Sample]:
    _insist_one_unit(rows)
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.metric, []).append(row.value)
    units = {row.metric: row.unit for row in rows}
    samples = [sample(metric, units[metric], numbers) for metric, numbers in values.items()]
    return insist(samples, "values")


# Also of two runs of one file, which are compared.
def _insist_one_unit(rows: Sequence[_Row]) -> None:
    first: dict[str, _Row] = {}
    for row in rows:
        before = first.setdefault(row.metric, row)
        if row.unit != before.unit:
            problem = f"line {row.line}: {row.metric} is in {row.unit or 'no unit'}"
            raise ResultsError(f"{problem}, and in {before.unit or 'none'} on line {before.line}",
                               hint="one metric has one unit")  # fmt: skip


def _rows(text: str) -> Iterator[_Row]:
    begin = text.lstrip()[:1]
    if begin.isalpha() or begin in ('"', "_"):
        yield from _of_csv(text)
        return
    for n, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = json_of(line, f"line {n}") if begin == "{" else {"value": line.strip()}
        for value in fields.values():
            if isinstance(value, bool | list | dict):
                raise ResultsError(f"line {n}: {str(value)[:40]!r} is no text and no number")
        yield _row({name: "" if v is None else str(v) for name, v in fields.items()}, n)


def _of_csv(text: str) -> Iterator[_Row]:
    head = text.lstrip().partition("\n")[0]
    mark = max(",;\t", key=head.count)
    rows = csv.reader(io.StringIO(text), delimiter=mark, strict=True)
    names: list[str] = []
    try:
        for cells in rows:
            if not any(cells):
                continue
            if not names:
                names = [cell.strip().lower() for cell in cells]
                _insist_known(names)
                continue
            if len(cells) != len(names):
                problem = f"line {rows.line_num}: {len(cells)} cells under {len(names)} columns"
                raise ResultsError(problem, said=mark.join(cells)[:200])
            yield _row(dict(zip(names, cells, strict=True)), rows.line_num)
    except csv.Error as error:
        raise ResultsError(f"line {rows.line_num}: is no CSV", said=str(error)) from None


def _insist_known(names: Sequence[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise ResultsError(f"line 1: {Unknown('column', name, COLUMNS).what}",
                               hint=f"the columns are: {','.join(COLUMNS)}")  # fmt: skip
    if "value" not in names or len(set(names)) < len(names):
        raise ResultsError("line 1: the columns hold no value, or one of them twice",
                           hint=f"the columns are: {','.join(COLUMNS)}")  # fmt: skip


def _row(cells: dict[str, str], n: int) -> _Row:
    if odd := [name for name in cells if name not in COLUMNS]:
        raise ResultsError(f"line {n}: {Unknown('key', odd[0], COLUMNS).what}")
    condition, block = cells.get("condition", "").strip(), cells.get("block", "").strip()
    if ("condition" in cells and not condition) or len(condition) > MOST_CONDITION:
        raise ResultsError(f"line {n}: the condition is empty, or longer than {MOST_CONDITION}")
    if "block" in cells and (not block.isdecimal() or not 1 <= int(block) <= 1_000_000):
        raise ResultsError(f"line {n}: block {block[:20]!r} is no whole number from 1 on")
    value = _number(cells.get("value", "").strip(), n)
    metric = cells.get("metric", "").strip() or METRIC
    return _Row(n, condition, int(block or 0), metric, value, cells.get("unit", "").strip())


def _number(text: str, n: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        problem = f"line {n}: the value is {text[:40]!r}, which is no number" if text else ""
        hint = "a decimal point is wanted" if text.count(",") == 1 else HINT
        raise ResultsError(problem or f"line {n}: the value is missing", hint=hint)
    if value and not SMALLEST <= abs(value) <= LARGEST:
        raise ResultsError(f"line {n}: {value:g} is no measurement")
    return value
