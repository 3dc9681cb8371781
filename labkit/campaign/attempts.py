"""The outcome of each point: one file per attempt, written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit import errors
from labkit.changes.lease import Owner
from labkit.errors import ResultsError
from labkit.machine import records
from labkit.machine.process import LabkitProcess

TEMPORARY = "labkit-campaign-"
"""Prefix of the names of folders for temporary files."""
PASSING = (errors.Unreachable, errors.TimedOut, errors.Busy, errors.FleetFailed, errors.KernelDied)
"""Errors that may pass by themselves, so that a point is tried again."""
LASTING = (errors.LoginRefused,)
"""Of those, the ones that a person has to help with."""
FIRST_PAUSE, MOST_PAUSE = 5.0, 300.0
BEGUN, FINISHED, FAILED, DIED, STOPPED = "begun", "finished", "failed", "died", "stopped"


@dataclass(frozen=True)
class Attempt:
    """One try at a point, by one process; `kind` is the class of the error that ended it."""

    number: int
    state: str
    began: str
    controller: str = ""
    pid: str = ""
    started: str = ""
    boot: str = ""
    temporary: str = ""
    """The folder for its temporary files, to be removed after its death."""
    seconds: float = 0.0
    kind: str = ""
    why: str = ""
    results: str = ""
    verdicts: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[str] = ()
    note: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, number: int, temporary: str) -> Attempt:
        """The attempt of this process, beginning now."""
        owner = Owner.me("campaign")
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(
            number, BEGUN, moment, owner.controller, owner.pid, owner.started, owner.boot, temporary
        )

    @classmethod
    def read(cls, file: Path) -> Attempt:
        """Read an attempt from a file."""
        fields = records.read_json(file)
        try:
            return cls(**fields)
        except TypeError as error:
            problem = f"{file}: is not an attempt of this labkit"
            raise ResultsError(problem, said=str(error)) from None

    @property
    def alive(self) -> bool:
        """Whether its process may still be at work, as far as this machine can say."""
        process = LabkitProcess("", self.controller, self.pid, self.started, self.boot)
        return self.state == BEGUN and not process.ended

    def ended(self, state: str, reason: str = "", kind: str = "") -> Attempt:
        """The same, now that it has ended."""
        took = datetime.now(UTC) - datetime.fromisoformat(self.began)
        return replace(self, state=state, why=reason, kind=kind, seconds=took.total_seconds())

    def clear(self) -> None:
        """Remove the temporary files of a process that has died."""
        folder = Path(self.temporary)
        if folder.name.startswith(TEMPORARY) and folder.parent == Path(tempfile.gettempdir()):
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, folder: Path) -> Attempt:
        """Write it down, safe on disk when this returns."""
        with records.keeping(f"what became of {folder.name}"):
            records.write(folder / f"attempt-{self.number}.json", records.pretty(asdict(self)))
        return self


def attempts(folder: Path) -> list[Attempt]:
    """All attempts at the point of a folder, the first one first."""
    files = folder.glob("attempt-*.json")
    return sorted(map(Attempt.read, files), key=lambda attempt: attempt.number)


def make_safe(*files: Path) -> None:
    """Have files survive a power cut, with their names."""
    for file in files:
        records.sync(file)
    for folder in {os.path.dirname(file) for file in files}:
        records.sync(Path(folder))


def passes(kind: str) -> bool:
    """Whether an error of this class may be gone the next time."""
    error = getattr(errors, kind, None)
    return isinstance(error, type) and issubclass(error, PASSING) and not issubclass(error, LASTING)


def pause(tries: int) -> float:
    """Seconds to wait before the next try, longer each time."""
    return float(min(FIRST_PAUSE * 3 ** max(tries - 1, 0), MOST_PAUSE))
