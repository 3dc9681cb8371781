"""All runs at once, as tables to ask with SQL; made from the run directories, which stay the truth.

    results   path study label lab tier accelerator seed damaged
    runs      results name condition block place state why started seconds path
    rows      run metric unit n lost p50 p90 p99 p99_9 p99_99 max fields

The index is SQLite, which Python carries. A run is written once, so the index is out of date only
where a folder has other runs than it knows. Bundles on a shared disk are read where they are.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
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
RUN_FILE = "/run.json"
MEMORY = "/dev/shm"


@dataclass(frozen=True)
class Store:
    """An index that is up to date; `query` asks it, and nothing asked changes it."""

    file: Path
    folders: tuple[Path, ...]

    def frame(self, sql: str, values: Sequence[Any] = ()) -> pl.DataFrame:
        """The rows that one SELECT gives, as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.query(sql, values), infer_schema_length=None, strict=False)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows that one SELECT gives, as name -> value."""
        with closing(sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            connection.set_authorizer(_allow)
            # Python hears of a signal when it is called.
            connection.set_progress_handler(lambda: 0, STEPS)
            try:
                rows = connection.execute(sql, values)
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
    try:
        return _kept_in(out() / "index", key, places)
    except (ResultsError, OSError):
        if not os.access(MEMORY, os.W_OK):
            raise
        # Whoever looks what fills his disk finds no room for an index: it goes with this process.
        spare = Path(tempfile.mkdtemp(prefix="labkit-index-", dir=MEMORY))
        atexit.register(shutil.rmtree, spare, ignore_errors=True)
        return _kept_in(spare, key, places)


def _kept_in(folder: Path, key: str, places: Sequence[Path]) -> Store:
    file = folder / f"{key}.sqlite"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        try:
            _refresh(file, places)
        except sqlite3.DatabaseError:
            # It holds nothing that the folders do not: whatever broke it, it is made again.
            file.unlink(missing_ok=True)
            _refresh(file, places)
    except sqlite3.DatabaseError as error:
        file.unlink(missing_ok=True)
        hint = "is the disk full? LABKIT_OUT names another folder"
        raise ResultsError(f"cannot keep {file}", said=str(error), hint=hint) from None
    return Store(file, tuple(places))


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


def _refresh(file: Path, folders: Sequence[Path]) -> None:
    with _writing(file) as index:
        stamps = {row[0]: row[1] for row in index.execute("select path, stamp from results")}
        stamps_now = {str(path): _stamp(path) for path in found(folders)}
        if stamps == stamps_now:
            return
        index.execute("begin immediate")
        for path in stamps.keys() - stamps_now.keys():
            index.execute("delete from results where path = ?", (path,))
        for path, stamp in stamps_now.items():
            if stamps.get(path) != stamp:
                _take(index, Path(path), stamp)
        index.execute("commit")


@contextmanager
def _writing(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)) as index:
        # What is lost with the power is made again, so there is nothing to wait for.
        index.executescript("pragma synchronous=off; pragma foreign_keys=on")
        (version,) = index.execute("pragma user_version").fetchone()
        if version == 0:
            index.executescript(f"begin immediate;{TABLES}pragma user_version={VERSION};commit")
        elif version != VERSION:
            raise sqlite3.DatabaseError("made by another labkit")
        yield index


# A run is renamed into its folder, which gives the folder a new time.
def _stamp(path: Path) -> str:
    parts = [path / "study.json", path / "runs"] if path.is_dir() else [path]
    stats = [part.stat() for part in parts if part.exists()]
    return " ".join(f"{stat.st_mtime_ns}-{stat.st_size}" for stat in stats)


def _take(index: sqlite3.Connection, path: Path, stamp: str) -> None:
    index.execute("insert or ignore into results (path) values (?)", (str(path),))
    (number,) = index.execute("select id from results where path = ?", (str(path),)).fetchone()
    fault = ""
    question: Mapping[str, Any] = {}
    try:
        question, runs = _inside(path)
        _take_runs(index, number, runs)
    except LabkitError as error:
        fault = error.what
    lab = question.get("lab")
    lab = lab if isinstance(lab, dict) else {}
    index.execute(
        "update results set stamp=?, study=?, label=?, lab=?, tier=?, accelerator=?, seed=?, "
        "damaged=? where id=?",
        (stamp, judged_as(question), _plain(question.get("label")),
         *(_plain(lab.get(key)) for key in ("name", "tier", "accelerator")),
         _plain(question.get("seed")), fault, number),
    )  # fmt: skip


# What was asked, and by the folder of each run what reads it; a bundle is read where it lies.
def _inside(path: Path) -> tuple[Mapping[str, Any], Mapping[Path, Callable[[], Run]]]:
    if path.is_dir():
        results = Results.open(path)
        return results.asked, {folder: partial(Run.read, folder) for folder in results.folders()}
    packed = bundle.examine(path)

    def read(name: str, folder: Path) -> Run:
        return Run.of(bundle.read_json(packed, name), folder)

    files = {
        name: path / name.rpartition("/")[0] for name in packed.files if name.endswith(RUN_FILE)
    }
    runs = {folder: partial(read, name, folder) for name, folder in files.items()}
    return bundle.read_json(packed, "study.json"), runs


def _take_runs(
    index: sqlite3.Connection, number: int, runs: Mapping[Path, Callable[[], Run]]
) -> None:
    index.execute("delete from runs where results = ? and state = 'damaged'", (number,))
    rows = index.execute("select name from runs where results = ?", (number,))
    names = {row[0] for row in rows}
    for name in names - {folder.name for folder in runs}:
        index.execute("delete from runs where results = ? and name = ?", (number, name))
    for folder, read in runs.items():
        if folder.name not in names:
            _take_run(index, number, folder, read)


def _take_run(
    index: sqlite3.Connection, number: int, folder: Path, read: Callable[[], Run]
) -> None:
    try:
        run = read()
    except LabkitError as error:
        run = Run("", 0, 0, "damaged", str(error), path=folder)
    values = (number, folder.name, run.condition, run.block, run.order, run.state, run.why,
              run.started, run.seconds, str(run.path))  # fmt: skip
    marks = ",".join("?" * len(values))
    cursor = index.execute(f"insert into runs values (null,{marks})", values)
    rows = [
        (cursor.lastrowid, *(_plain(row.get(k)) for k in FIGURE_COLUMNS), json.dumps(row))
        for row in run.rows
    ]
    index.executemany(f"insert into rows values (?{',?' * (len(FIGURE_COLUMNS) + 1)})", rows)


def _plain(value: Any) -> str | float | None:
    return value if isinstance(value, str | int | float) or value is None else json.dumps(value)


ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION,
           sqlite3.SQLITE_RECURSIVE}  # fmt: skip


def _allow(action: int, _table: str | None, name_of_function: str | None, *_: Any) -> int:
    loading = action == sqlite3.SQLITE_FUNCTION and name_of_function == "load_extension"
    return sqlite3.SQLITE_OK if action in ACTIONS and not loading else sqlite3.SQLITE_DENY
