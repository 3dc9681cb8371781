"""Results: what a study measured, one directory per run, written once and readable without labkit.

out/results/<study>/<name>/
    study.json                       what was asked, and of which lab
    runs/007-VM-SRIOV-b1/run.json    one condition, once: settings, facts, times, rows
    runs/007-VM-SRIOV-b1/raw/...gz   everything that the tools printed
    runs/007-VM-SRIOV-b1/SHA256SUMS  of all that, for labkit and for sha256sum --check
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from errno import EEXIST, ENOTEMPTY
from gzip import compress
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import BadInput, ResultsError
from labkit.machine import records
from labkit.machine.places import out
from labkit.statistics.measurand import metric_and_point

if TYPE_CHECKING:
    import polars as pl

FORMAT = 1
MOST_TEXT = 256 << 20
"""The most bytes of raw text that are read from one file."""
LEVEL = 6
"""Compression level of raw text: 9 takes eight times as long for a twentieth less."""
RAW_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")

DESIGN = "design"
"""Key of settings, roles and knobs of each condition in study.json; older results lack it."""
NOTE = ".begun"
"""Ending of a run's name until the run is kept."""
FIGURE = re.compile(r"p\d[\d.]*|n|lost|max|min|mean")
MOST_RUNS = 10**9
IMPORTS = "imported"
"""The tier of measurements by other tools."""
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)

Rows = tuple[Mapping[str, Any], ...]


def check_label(label: str) -> str:
    """The label, which becomes a part of names of folders and files; any other is refused."""
    if not LABEL.fullmatch(label):
        problem = f"a label holds letters, digits, - and _ only, at most 100, not {label[:120]!r}"
        raise BadInput(problem, hint="it begins with a letter or a digit")
    return label


@dataclass(frozen=True)
class Run:
    """One condition, measured once; a failed one keeps its reason and is never dropped.

    An interrupted one was begun, and somebody stopped or killed what measured it. A run is invalid
    if somebody else changed its settings meanwhile, or if something on its hosts has spoiled it.
    Settings are read again before it, after it, and every `reread_seconds` while it runs.
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
    changes_seconds: float = 0.0
    rows: Rows = ()
    raw: Mapping[str, str] = field(default_factory=dict)
    reread_seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Versions of what measured, and the facts of each measured host at the time."""
    gates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Role -> what was wrong on its host meanwhile -> why; not all of it makes a run invalid."""
    untold: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Role -> what nobody can say of its host, as it does not count it -> why."""
    looks: int = 0
    """Number of looks at the results before it began (`labkit/runs/looks.py`)."""
    path: Path = field(default=Path(), compare=False)

    @property
    def name(self) -> str:
        """The run's folder: its place in the order, its condition, its block."""
        return f"{self.order:03d}-{re.sub(r'[^A-Za-z0-9.-]+', '-', self.condition)}-b{self.block}"

    @classmethod
    def read(cls, folder: Path) -> Run:
        """The run in a folder, checked against its checksum and for sense."""
        file = folder / "run.json"
        fields = records.read_json(file)
        sums = records.listed(folder)
        if sums and sums.get("run.json") != records.digest(file):
            raise ResultsError(f"{file}: has changed since it was measured (its checksum differs)")
        return cls.of(fields, folder)

    @classmethod
    def of(cls, fields: Mapping[str, Any], folder: Path) -> Run:
        """The run that run.json describes."""
        values = {name: value for name, value in fields.items() if name != "format"}
        try:
            if fields.get("format", FORMAT) != FORMAT:
                raise TypeError(f"it has format {fields['format']!r}, not {FORMAT}")
            if odd := sorted(values.keys() - cls.__dataclass_fields__.keys()):
                raise TypeError(f"it holds {odd[0][:80]!r}, which a newer labkit may know")
            return _sensible(cls(**{**values, "rows": tuple(values["rows"]), "path": folder}))
        except (TypeError, KeyError) as error:
            problem = f"{folder / 'run.json'}: is not a run of this labkit"
            raise ResultsError(problem, said=str(error)) from None

    def text(self, name: str) -> str:
        """The raw text that was kept under `name`, checked against its checksum."""
        path = self.path / "raw" / f"{name}.gz"
        content = _unpack(path)
        if hashlib.sha256(content).hexdigest() != self.raw.get(name):
            raise ResultsError(f"{path}: is not what was measured (its checksum differs)")
        return content.decode("utf-8")

    def check(self) -> list[str]:
        """The faults of the stored run, a sentence each; empty if all is as measured."""
        try:
            for name in self.raw:
                self.text(name)
        except ResultsError as error:
            return [str(error)]
        sums = records.listed(self.path)
        if not sums:
            return [f"{self.path / records.SUMS}: is gone, so changes cannot be detected"]
        return [
            f"{os.path.normpath(self.path / name)}: {fault}" for name in sums
            if (fault := self._odd(name, sums))
        ]  # fmt: skip

    def strange(self) -> list[str]:
        """The files in its folder that are no part of it, a sentence each; nothing reads them."""
        parts = {records.SUMS, *records.listed(self.path)}
        paths = records.files_below(self.path)
        names = sorted(file.relative_to(self.path).as_posix() for file in paths)
        return [f"{self.path / n}: is not part of the run" for n in names if n not in parts]

    def _odd(self, name: str, sums: Mapping[str, str]) -> str:
        file = self.path / name
        if file.is_symlink():
            return "is a link, and not part of the run"
        if not file.is_file():
            return "is gone"
        return "" if records.digest(file) == sums[name] else "has changed since it was measured"


@dataclass(frozen=True)
class Results:
    """The runs of one execution of a study; `asked` is what study.json says."""

    path: Path
    asked: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Facts of what measures and is measured, in each run that is kept from now on."""
    known: tuple[Run, ...] | None = field(default=None, compare=False, repr=False)
    """Its runs, where they were read once for many questions."""

    @classmethod
    def open(cls, path: Path) -> Results:
        """Results that exist."""
        question = records.read_json(path / "study.json")
        if question.get("format") != FORMAT:
            raise ResultsError(
                f"{path}: has format {question.get('format')!r}; this labkit reads format {FORMAT}",
                hint="open it with the labkit that wrote it",
            )
        shapes = {"study": str, "lab": dict, "refused": dict, "workload": dict}
        fits = all(isinstance(question.get(k, shape()), shape) for k, shape in shapes.items())
        if not fits or not question.get("study"):
            raise ResultsError(f"{path / 'study.json'}: is not a study of this labkit")
        return cls(path, question)

    @classmethod
    def begin(cls, path: Path, parameters: Mapping[str, Any]) -> Results:
        """New results, or those of the same name to go on with; a different question is refused."""
        question = {"format": FORMAT, **parameters}
        if (path / "study.json").exists():
            results = cls.open(path)
            if dict(results.asked) != json.loads(json.dumps(question)):
                odd = records.unlike(results.asked, json.loads(json.dumps(question)))
                problem = f"{path} holds results of something else: {odd} differ"
                raise BadInput(problem, hint="give this run another label")
            return results
        with records.keeping(f"the question in {path}"):
            path.mkdir(parents=True, exist_ok=True)
            records.write(path / "study.json", records.pretty(question))
        return cls(path, question)

    @property
    def study(self) -> str:
        """The name of the study."""
        return str(self.asked["study"])

    @property
    def judged_as(self) -> str:
        """The study whose claims are judged on them: that which they were imported as, if any."""
        return judged_as(self.asked)

    def runs(self) -> list[Run]:
        """All runs in the order they were made, failed ones included; a damaged one is refused."""
        if self.known is not None:
            return [*self.known]
        return [*filter(None, map(_read, self.folders()))]

    def read_once(self) -> Results:
        """Itself with its runs in memory; if one is damaged, each question says so."""
        runs, faults = self.readable()
        return self if faults else replace(self, known=tuple(runs))

    def readable(self) -> tuple[list[Run], dict[str, str]]:
        """The runs that can be read, and by folder the fault of each other one."""
        read: list[Run | None] = [*(self.known or ())]
        faults = {}
        for folder in self.folders() if self.known is None else ():
            try:
                read.append(_read(folder))
            except ResultsError as error:
                faults[folder.name] = str(error)
        return [run for run in read if run], faults

    def folders(self) -> list[Path]:
        """The folder of each run, in the order they were made."""
        path = self.path / "runs"
        try:
            folders_all = [path / name for name in os.listdir(path) if re.match("[0-9]", name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ResultsError(f"{self.path}: cannot be read", said=str(error)) from None
        return sorted(folder for folder in folders_all if (folder / "run.json").exists())

    def gaps(self) -> list[tuple[int, int]]:
        """The places in the order, from and to, that have no run though a later one has."""
        # Whatever became of a run, its folder is there before the next one begins.
        places_of = (re.match(r"\d+", folder.name) for folder in self.folders())
        places = sorted({int(place[0]) for place in places_of if place})
        return [(a + 1, b - 1) for a, b in pairwise([0, *places]) if b > a + 1]

    def finished(self) -> list[Run]:
        """The runs that can be judged."""
        return [run for run in self.runs() if run.state == "finished"]

    def frame(self) -> pl.DataFrame:
        """A polars data frame of finished runs: a row for each figure of each metric of a run."""
        import polars as pl

        tier = str(self.asked.get("lab", {}).get("tier", ""))
        rows = [
            {**facts_of(run, row), "tier": tier, "figure": figure, "value": row[figure]}
            for run in self.finished() for row in run.rows
            for figure in row if figure not in ("n", "lost") and FIGURE.fullmatch(figure)
        ]  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def by_block(self) -> dict[tuple[str, int], str]:
        """Condition and block -> the folder of the run that can be judged, as charts name it."""
        return {(run.condition, run.block): run.path.name for run in self.finished()}

    def note(self, run: Run) -> Run:
        """Have a run that begins be there as an interrupted one; `forget` it when it is kept."""
        fault = "it has not ended: its process was killed, or is still measuring"
        return self.keep(replace(run, state="interrupted", why=fault), {}, f"{run.name}{NOTE}")

    def forget(self, run: Run) -> None:
        """Take a note away."""
        runs = run.path.parent
        with records.keeping(f"what became of a run in {runs}"), records.half(run.path) as half:
            run.path.rename(half)

    def keep(self, run: Run, raw: Mapping[str, str], name: str = "") -> Run:
        """Write one run for good, under its own `name` if none is given: all of it, or nothing."""
        if large := [name for name, text in raw.items() if len(text) > MOST_TEXT]:
            raise ResultsError(f"{large[0]} of {run.name} is larger than {MOST_TEXT >> 20} MiB")
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in raw.items()}
        record = replace(run, raw=digests, facts=run.facts or self.facts)
        path = self.path / "runs" / (name or run.name)
        with records.keeping(f"a run in {path.parent}"), records.half(path) as half:
            self._fill(half, record, raw)
            return replace(record, path=self._place(half, path))

    def _fill(self, half: Path, run: Run, raw: Mapping[str, str]) -> None:
        (half / "raw").mkdir(parents=True)
        texts = {
            f"raw/{name}.gz": compress(text.encode(), LEVEL, mtime=0) for name, text in raw.items()
        }
        plain = {name: value for name, value in asdict(run).items() if name != "path"}
        content = records.pretty({"format": FORMAT, **plain})
        records.fill(half, {**texts, "run.json": content})
        names = ["../../study.json", "run.json", *texts]
        records.fill(half, {records.SUMS: records.sums(half, names)})

    # A failed run and its later repetition have the same name, so have those of two notebooks at
    # once; all of them stay, for a folder never takes the place of one that is not empty.
    def _place(self, half: Path, place: Path) -> Path:
        path, number = place, 1
        while True:
            try:
                records.place(half, path)
                return path
            except OSError as error:
                if error.errno not in (ENOTEMPTY, EEXIST):
                    raise
                number += 1
                path = place.with_name(f"{place.name}.{number}")


def judged_as(question: Mapping[str, Any]) -> str:
    """The same as `Results.judged_as`, from study.json."""
    claims = question.get("claims")
    study = claims.get("study") if isinstance(claims, dict) else ""
    return str(study or question.get("study", ""))


def facts_of(run: Run, row: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a data frame's row beside its value: its run and its place there."""
    metric, point = metric_and_point(str(row.get("metric", "")))
    return {
        "condition": run.condition, "block": run.block, "order": run.order,
        "time": datetime.fromisoformat(run.started) if run.started else None,
        "metric": metric, "point": point, "unit": str(row.get("unit", "")),
        "n": row.get("n"), "lost": row.get("lost"),
    }  # fmt: skip


# A note of what was begun may be taken away just now.
def _read(folder: Path) -> Run | None:
    try:
        return Run.read(folder)
    except ResultsError:
        if NOTE in folder.name and not folder.exists():
            return None
        raise


def stored(study: str) -> list[Path]:
    """The results of a study on this machine, oldest first."""
    files = (out() / "results" / study).glob("*/study.json")
    return sorted((file.parent for file in files), key=lambda path: path.stat().st_mtime)


# A file may come from anywhere: names in it become paths, and figures go into charts.
def _sensible(run: Run) -> Run:
    shapes = {"condition": str, "state": str, "why": str, "block": int, "order": int, "looks": int,
              "gates": dict, "untold": dict, "started": str, "seconds": int | float,
              "settings": dict, "before": dict, "raw": dict, "facts": dict}  # fmt: skip
    for name, shape in shapes.items():
        if not isinstance(getattr(run, name), shape):
            raise TypeError(f"{name} is not {getattr(shape, '__name__', 'a number')}")
    if not (1 <= run.block <= MOST_RUNS and 0 <= run.order <= MOST_RUNS):
        raise TypeError(f"no run is number {run.order} in block {run.block}"[:80])
    if not all(isinstance(row, dict) for row in run.rows):
        raise TypeError("rows holds something else than objects")
    for name, value in (pair for row in run.rows for pair in row.items()):
        if FIGURE.fullmatch(name) and not _is_figure(value):
            raise TypeError(f"{name} of a row is {str(value)[:40]!r}, which is not a number")
    if not all(isinstance(gate, dict) for gate in (*run.gates.values(), *run.untold.values())):
        raise TypeError("gates or untold holds something else than objects")
    if odd := [name for name in run.raw if not RAW_NAME.fullmatch(name)]:
        raise TypeError(f"{odd[0][:80]!r} is not a name of a raw text")
    return run


# None is a percentile that too few samples have; SQLite takes whole numbers of 64 bits.
def _is_figure(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        return False
    return value is None or (abs(value) < 2**63 if isinstance(value, int) else isfinite(value))


# A few bytes of gzip can hold more than the memory does.
def _unpack(file: Path) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(file.read_bytes(), MOST_TEXT)
    except (OSError, zlib.error) as error:
        raise ResultsError(f"{file}: cannot be read", said=str(error)) from None
    if not unpacker.eof or unpacker.unused_data:
        why = "is cut short" if len(data) < MOST_TEXT else f"is larger than {MOST_TEXT >> 20} MiB"
        raise ResultsError(f"{file}: {why if not unpacker.eof else 'has extra data after its end'}")
    return data
