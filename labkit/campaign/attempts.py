"""The outcome of each point: one file per attempt, written whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit import errors
from labkit.errors import ResultsError
from labkit.machine import records

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
    temporary: str = ""
    """The folder for its temporary files, to be removed after its death."""
    seconds: float = 0.0
    kind: str = ""
    why: str = ""
    results: str = ""
    verdicts: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[str] = ()

    @classmethod
    def begin(cls, number: int, temporary: str = "") -> Attempt:
        """The attempt of this process, beginning now."""
        return cls(number, BEGUN, datetime.now(UTC).isoformat(timespec="milliseconds"), temporary)

    @classmethod
    def read(cls, file: Path) -> Attempt:
        """Read an attempt from a file; what another labkit has written beside it is left out."""
        record, known = records.read_json(file), {own.name for own in fields(cls)}
        try:
            return cls(**{name: value for name, value in record.items() if name in known})
        except TypeError as error:
            problem = f"{file}: is not an attempt of this labkit"
            raise ResultsError(problem, said=str(error)) from None

    @property
    def may_pass(self) -> bool:
        """Whether what ended it may be gone the next time."""
        error = getattr(errors, self.kind, None)
        if not isinstance(error, type):
            return self.state == DIED
        return issubclass(error, PASSING) and not issubclass(error, LASTING)

    @property
    def leaves_settings(self) -> bool:
        """Whether settings may still be in force, as nobody put them back."""
        return self.state in (BEGUN, DIED) or self.kind == "KernelDied"

    def ended(self, state: str, reason: str = "", kind: str = "") -> Attempt:
        """The same, now that it has ended."""
        took = datetime.now(UTC) - datetime.fromisoformat(self.began)
        return replace(self, state=state, why=reason, kind=kind, seconds=took.total_seconds())

    def settle(self, folder: Path, state: str, reason: str, kind: str = "") -> Attempt:
        """Write down the end of a process that could not do so, and remove what it has left."""
        temporary = Path(self.temporary)
        if temporary.name.startswith(TEMPORARY) and temporary.parent == Path(tempfile.gettempdir()):
            shutil.rmtree(temporary, ignore_errors=True)
        for half in folder.glob(".*"):
            half.unlink(missing_ok=True)
        return self.ended(state, reason, kind).keep(folder)

    def keep(self, folder: Path) -> Attempt:
        """Write it down, safe on disk when this returns."""
        with records.keeping(f"what became of {folder.name}"):
            folder.mkdir(parents=True, exist_ok=True)
            records.write(folder / f"attempt-{self.number}.json", records.pretty(asdict(self)))
        return self


def attempts(folder: Path) -> list[Attempt]:
    """All attempts at the point of a folder, the first one first."""
    files = folder.glob("attempt-*.json")
    return sorted(map(Attempt.read, files), key=lambda attempt: attempt.number)


def pause(tries: int) -> float:
    """Seconds to wait before the next try, longer each time."""
    return float(min(FIRST_PAUSE * 3 ** max(tries - 1, 0), MOST_PAUSE))
