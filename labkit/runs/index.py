"""All runs at once, as tables to ask with SQL; made from the run directories, which stay the truth.

    results   path study label lab tier accelerator seed damaged
    runs      results name condition block place state why started seconds path
    rows      run metric unit n lost p50 p90 p99 p99_9 p99_99 max fields

The index is SQLite, which Python carries. A run is written once, so results are read again only if
their folder has other runs than before. Bundles on a shared disk are read where they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import BadInput, LabkitError, ResultsError
from labkit.machine import workspace
from labkit.machine.places import HOME, out
from labkit.results import Results, Run, judged_as
from labkit.runs import bundle

if TYPE_CHECKING:
    import polars as pl

VERSION = 1
WAIT_SECONDS = 30
STEPS = 100_000
"""Steps of SQLite's own, some milliseconds, that may pass before a stop is heard."""
FIGURE_COLUMNS = ("metric", "unit", "n", "lost", "p50", "p90", "p99", "p99.9", "p99.99", "max")
TABLES = """
create table results (id integer primary key, path text unique, stamp text, study text, label text,
  lab text, tier text, accelerator text, seed integer, damaged text);
create table runs (id integer primary key, results integer references results on delete cascade,
  name text, condition text, block integer, place integer, state text, why text, started text,
  seconds real, path text, unique (results, name));
create table rows (run integer references runs on delete cascade, metric text, unit text, n integer,
  lost integer, p50 real, p90 real, p99 real, p99_9 real, p99_99 real, max real, fields text);
create index rows_of_run on rows (run);
"""
_TABLES = (line.split() for line in (__doc__ or "").splitlines() if line.startswith("    "))
COLUMNS = tuple(f"{table} ({', '.join(columns)})" for table, *columns in _TABLES)


@dataclass(frozen=True)
class Store:
    """An index that is up to date; `query` asks it, and nothing asked changes it."""

    index: sqlite3.Connection

    def frame(self, sql: str, values: Sequence[Any] = ()) -> pl.DataFrame:
        """The rows that one SELECT gives, as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.query(sql, values), infer_schema_length=None, strict=False)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows that one SELECT gives, as name -> value."""
        try:
            rows = self.index.execute(sql, values)
            if not rows.description:
                raise sqlite3.Error("the query is empty")
            return [dict(row) for row in rows]
        except (sqlite3.Error, sqlite3.Warning) as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from None
            hint = f"tables and their columns: {'; '.join(COLUMNS)}"
            raise BadInput("the query was refused", said=str(error), hint=hint) from None


def places() -> tuple[Path, ...]:
    """The default folders of results: those of this machine, and those that labkit carries."""
    return out() / "results", HOME / "data" / "recorded", *workspace.folders("recorded")


def chosen(folders: Sequence[Path]) -> tuple[Path, ...]:
    """The folders that somebody named, which must be there; where results usually lie if none."""
    paths = tuple(Path(os.path.expanduser(folder)).resolve() for folder in folders)
    if lacking := [folder for folder in paths if not folder.exists()]:
        raise ResultsError(f"no folder {lacking[0]}", hint="a study is named by --study NAME")
    return paths or places()


def open_store(*folders: Path) -> Store:
    """The store of everything below these folders, brought up to date."""
    places = chosen(folders)
    key = hashlib.sha256("\n".join(map(str, places)).encode()).hexdigest()[:16]
    index = _index(out() / "index" / f"{key}.sqlite", places)
    index.row_factory = sqlite3.Row
    index.set_authorizer(_allow)
    # Python hears of a signal when it is called.
    index.set_progress_handler(lambda: 0, STEPS)
    return Store(index)


def _index(file: Path, places: Sequence[Path]) -> sqlite3.Connection:
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        try:
            return _refreshed(file, places)
        except sqlite3.DatabaseError:
            # It holds nothing that the folders do not: whatever broke it, it is made again.
            with suppress(OSError):
                file.unlink(missing_ok=True)
    # Whoever looks what fills his disk finds no room for one.
    return _refreshed(":memory:", places)


def found(folders: Iterable[Path]) -> Iterator[Path]:
    """The folders of results and the bundles below, at most two folders deep."""
    for folder in folders:
        if (folder / "study.json").is_file() or folder.suffix == bundle.SUFFIX:
            yield folder
        for depth in ("*", "*/*"):
            yield from sorted(file.parent for file in folder.glob(f"{depth}/study.json"))
        for depth in ("*", "*/*", "*/*/*"):
            yield from sorted(folder.glob(f"{depth}{bundle.SUFFIX}"))


def of_study(paths: Iterable[Path], study: str) -> list[Path]:
    """Paths that may hold results of a study; what comes with labkit is named after its study."""
    own_places = places()[1:]
    return [path for path in paths if study in ("", path.stem) or path.parent not in own_places]


def _refreshed(file: Path | str, folders: Sequence[Path]) -> sqlite3.Connection:
    index = sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)
    # What is lost with the power is made again, so there is nothing to wait for.
    index.executescript("pragma synchronous=off; pragma foreign_keys=on")
    (version,) = index.execute("pragma user_version").fetchone()
    if version == 0:
        index.executescript(f"begin immediate;{TABLES}pragma user_version={VERSION};commit")
    elif version != VERSION:
        raise sqlite3.DatabaseError("made by another labkit")
    before = dict(index.execute("select path, stamp from results"))
    now = {str(path): _stamp(path) for path in found(folders)}
    changed = [path for path in {**before, **now} if before.get(path) != now.get(path)]
    if changed:
        index.execute("begin immediate")
        for path in changed:
            index.execute("delete from results where path = ?", (path,))
            if path in now:
                _take(index, Path(path), now[path])
        index.execute("commit")
    return index


# A run is renamed into its folder, which gives the folder a new time.
def _stamp(path: Path) -> str:
    parts = [path / "study.json", path / "runs"] if path.is_dir() else [path]
    stats = [part.stat() for part in parts if part.exists()]
    return " ".join(f"{stat.st_mtime_ns}-{stat.st_size}" for stat in stats)


def _take(index: sqlite3.Connection, path: Path, stamp: str) -> None:
    question: Mapping[str, Any] = {}
    runs: list[Run] = []
    fault = ""
    try:
        question, runs = _inside(path)
    except LabkitError as error:
        fault = error.what
    lab = question.get("lab")
    lab = lab if isinstance(lab, dict) else {}
    of_lab = (lab.get(key) for key in ("name", "tier", "accelerator"))
    values = (
        str(path), stamp, judged_as(question),
        *map(_plain, (question.get("label"), *of_lab, question.get("seed"))), fault,
    )  # fmt: skip
    number = _insert(index, "results", (None, *values))
    for run in runs:
        values = (number, run.path.name, run.condition, run.block, run.order, run.state, run.why,
                  run.started, run.seconds, str(run.path))  # fmt: skip
        place = _insert(index, "runs", (None, *values))
        for row in run.rows:
            figures = (_plain(row.get(name)) for name in FIGURE_COLUMNS)
            _insert(index, "rows", (place, *figures, json.dumps(row)))


def _insert(index: sqlite3.Connection, table: str, values: Sequence[Any]) -> int | None:
    marks = ",".join("?" * len(values))
    return index.execute(f"insert into {table} values ({marks})", values).lastrowid


# What was asked, and each run, a damaged one with its fault; a bundle is read where it lies.
def _inside(path: Path) -> tuple[Mapping[str, Any], list[Run]]:
    if path.is_dir():
        results = Results.open(path)
        return results.asked, [_read(folder, Run.read) for folder in results.folders()]
    packed = bundle.examine(path)
    names = {path / name.rpartition("/")[0]: name for name in packed.files
             if name.endswith("/run.json")}  # fmt: skip

    def read(folder: Path) -> Run:
        return Run.of(bundle.read_json(packed, names[folder]), folder)

    return bundle.read_json(packed, "study.json"), [_read(folder, read) for folder in names]


def _read(folder: Path, read: Callable[[Path], Run]) -> Run:
    try:
        return read(folder)
    except LabkitError as error:
        return Run("", 0, 0, "damaged", str(error), path=folder)


def _plain(value: Any) -> str | float | None:
    return value if isinstance(value, str | int | float) or value is None else json.dumps(value)


ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION,
           sqlite3.SQLITE_RECURSIVE}  # fmt: skip


def _allow(action: int, _table: str | None, name_of_function: str | None, *_: Any) -> int:
    loading = action == sqlite3.SQLITE_FUNCTION and name_of_function == "load_extension"
    return sqlite3.SQLITE_OK if action in ACTIONS and not loading else sqlite3.SQLITE_DENY
