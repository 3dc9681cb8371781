"""Progress of a study, for the one who watches it, in this process or in another."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from labkit.results import Results


@dataclass(frozen=True)
class Progress:
    """Progress of a study; `done` of `of` runs are kept."""

    step: str
    condition: str
    block: int
    done: int
    of: int
    seconds_left: float
    remark: str = ""
    """Remark on the run before: that it was invalid, and why."""

    @property
    def share(self) -> float:
        """The share of the runs that are kept, 0 to 1."""
        return self.done / self.of if self.of else 1.0


Tell = Callable[[Progress], None]
PROGRESS_VARIABLE = "LABKIT_PROGRESS"
"""Names a file that each Progress is appended to, so that another process can show it."""


def ask_to_stop(file: Path) -> None:
    """Ask the study that writes this file to stop before its next run."""
    file.with_suffix(".stop").touch()


def stop_asked() -> bool:
    """Whether the one who watches asked for it; between two cells a kernel hears no interrupt."""
    name = os.environ.get(PROGRESS_VARIABLE)
    return bool(name) and Path(str(name)).with_suffix(".stop").exists()


def to_file(progress: Progress, results: Results) -> None:
    """Append to the file that $LABKIT_PROGRESS names, if it does."""
    _append({"results": str(results.path), "progress": asdict(progress)})


def step_to_file(text: str) -> None:
    """Append what is done before there are results, such as bringing a box up."""
    _append({"step": text})


def _append(line: Mapping[str, object]) -> None:
    if name := os.environ.get(PROGRESS_VARIABLE):
        with open(name, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
