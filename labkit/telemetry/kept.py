"""Counters that were read once, kept beside the results: milliseconds from the second time on.

What is kept counts as long as the file has its size, its time of change, and the same first and
last 64 KB. A change in the middle by a program that puts the time back would go unseen.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from labkit.errors import ResultsError
from labkit.machine.places import out
from labkit.telemetry import counters
from labkit.telemetry.counters import Columns

CACHE = 1
CACHED = ("times", "values")
ENDS = 1 << 16


def cached(path: Path, names: Sequence[str] | None = None) -> Columns:
    """Read like `read`; from the second time on out of a cache, if the file is still the same."""
    asked = json.dumps([str(path.resolve()), names and list(names)])
    entry = out() / "columns" / hashlib.sha256(asked.encode()).hexdigest()[:24]
    found = _signature(path)
    if (kept := _kept(entry, found)) is not None:
        return kept
    columns = counters.read(path, names)
    # A file that is still being written is read, and not kept.
    if _signature(path) == found:
        _keep(entry, found, columns)
    return columns


def _signature(path: Path) -> list[int | str]:
    with counters.opened(path) as file:
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
