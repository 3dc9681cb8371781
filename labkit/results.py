"""Results: what a study measured, one directory per run, written once and readable without labkit.

out/results/<study>/<name>/
    study.json                       what was asked, and of which lab
    runs/007-VM-SRIOV-b1/run.json    one condition, once: settings, times, rows, checksums
    runs/007-VM-SRIOV-b1/raw/...gz   everything that the tools printed
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from labkit.errors import BadInput, ResultsError

FORMAT = 1
HOME = Path(__file__).resolve().parent.parent
"""The checkout: notebooks and data lie here."""

Rows = tuple[Mapping[str, Any], ...]


def out() -> Path:
    """The folder that everything measured goes to: $LABKIT_OUT, or `out` in the checkout."""
    named = os.environ.get("LABKIT_OUT")
    return Path(named).expanduser().resolve() if named else HOME / "out"


@dataclass(frozen=True)
class Run:
    """One condition, measured once; a failed one keeps its reason and is never dropped.

    Invalid is a run whose settings somebody else changed meanwhile; they were read again before it,
    after it, and every `reread_seconds` while it ran.
    """

    condition: str
    block: int
    order: int
    state: str
    why: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0
    measured_seconds: float = 0.0
    rows: Rows = ()
    raw: Mapping[str, str] = field(default_factory=dict)
    reread_seconds: float = 0.0
    path: Path = field(default=Path(), compare=False)

    @property
    def name(self) -> str:
        """The run's folder: its place in the order, its condition, its block."""
        return f"{self.order:03d}-{re.sub(r'[^A-Za-z0-9.-]+', '-', self.condition)}-b{self.block}"

    def text(self, name: str) -> str:
        """The raw text that was kept under `name`, checked against its checksum."""
        kept = self.path / "raw" / f"{name}.gz"
        try:
            whole = gzip.decompress(kept.read_bytes())
        except (OSError, EOFError, ValueError) as damaged:
            raise ResultsError(f"{kept}: cannot be read", said=str(damaged)) from None
        if hashlib.sha256(whole).hexdigest() != self.raw.get(name):
            raise ResultsError(f"{kept}: is not what was measured (its checksum differs)")
        return whole.decode("utf-8")


@dataclass(frozen=True)
class Results:
    """The runs of one execution of a study; `asked` is what study.json says."""

    path: Path
    asked: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> Results:
        """Results that exist."""
        asked = _json(path / "study.json")
        if asked.get("format") != FORMAT:
            raise ResultsError(
                f"{path}: has format {asked.get('format')!r}; this labkit reads format {FORMAT}",
                hint="open it with the labkit that wrote it",
            )
        return cls(path, asked)

    @classmethod
    def begin(cls, path: Path, asked: Mapping[str, Any]) -> Results:
        """New results, or those of the same name to go on with; a different question is refused."""
        whole = {"format": FORMAT, **asked}
        if (path / "study.json").exists():
            there = cls.open(path)
            if dict(there.asked) != json.loads(json.dumps(whole)):
                changed = sorted(key for key in whole if there.asked.get(key) != whole[key])
                raise BadInput(
                    f"{path} holds results of something else: {', '.join(changed)} differ",
                    hint="give this run another label",
                )
            return there
        path.mkdir(parents=True, exist_ok=True)
        _write(path / "study.json", _pretty(whole))
        return cls(path, whole)

    @property
    def study(self) -> str:
        """The name of the study."""
        return str(self.asked["study"])

    def runs(self) -> list[Run]:
        """All runs in the order they were made, failed ones included."""
        found = sorted((self.path / "runs").glob("[0-9]*/run.json"))
        return [_run(path) for path in found]

    def finished(self) -> list[Run]:
        """The runs that can be judged."""
        return [run for run in self.runs() if run.state == "finished"]

    def keep(self, run: Run, raw: Mapping[str, str]) -> Run:
        """Write one run for good: all of it, or nothing."""
        sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in raw.items()}
        kept = replace(run, raw=sums, path=self._free(run.name))
        half = kept.path.with_name(f".{kept.path.name}.half")
        with _whole_or_nothing(half):
            (half / "raw").mkdir(parents=True)
            for name, text in raw.items():
                _write(half / "raw" / f"{name}.gz", gzip.compress(text.encode(), mtime=0))
            _write(half / "run.json", _pretty({"format": FORMAT, **_plain(kept)}))
            _sync(half)
            half.rename(kept.path)
            _sync(kept.path.parent)
        return kept

    # A failed run and its later repetition have the same name; both stay.
    def _free(self, name: str) -> Path:
        path, again = self.path / "runs" / name, 1
        while path.exists():
            again += 1
            path = self.path / "runs" / f"{name}.{again}"
        return path


def stored(study: str) -> list[Path]:
    """The results of a study on this machine, oldest first."""
    found = (out() / "results" / study).glob("*/study.json")
    return sorted((file.parent for file in found), key=lambda path: path.stat().st_mtime)


@contextmanager
def _whole_or_nothing(half: Path) -> Iterator[None]:
    shutil.rmtree(half, ignore_errors=True)
    try:
        yield
    except OSError as refused:
        raise ResultsError(
            f"cannot keep a run in {half.parent}",
            said=str(refused),
            hint="is the disk full? the runs that are there already are whole",
        ) from refused
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _run(file: Path) -> Run:
    fields = _json(file)
    fields.pop("format", None)
    try:
        return Run(**{**fields, "rows": tuple(fields["rows"]), "path": file.parent})
    except (TypeError, KeyError) as odd:
        raise ResultsError(f"{file}: is not a run of this labkit", said=str(odd)) from None


def _plain(run: Run) -> dict[str, Any]:
    plain = asdict(run)
    del plain["path"]
    return plain


def _json(file: Path) -> dict[str, Any]:
    try:
        read = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ResultsError(f"no results at {file.parent}") from None
    except (OSError, ValueError) as damaged:
        raise ResultsError(f"{file}: cannot be read", said=str(damaged)) from None
    if not isinstance(read, dict):
        raise ResultsError(f"{file}: holds {type(read).__name__}, not an object")
    return read


def _pretty(fields: Mapping[str, Any]) -> bytes:
    return (json.dumps(fields, indent=1, allow_nan=False, default=str) + "\n").encode()


def _write(path: Path, whole: bytes) -> None:
    beside = path.with_name(f".{path.name}.half")
    with beside.open("wb") as file:
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
