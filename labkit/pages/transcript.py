"""Outputs of a lesson's cells on a lab, for a reader who has no lab."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

from labkit.errors import BadInput
from labkit.machine.places import HOME

FOLDER = HOME / "data" / "lessons"
HOOK = "post_run_cell"
LAB = "lab"
"""Name of the lab in lessons."""


@dataclass(frozen=True)
class Transcript:
    """The outputs of a lesson, each by the text of its cell, and the day of their recording."""

    recorded: str
    outputs: Mapping[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, lesson: str) -> Transcript:
        """Of a lesson by the name of its notebook, such as `03-box-tour`."""
        file = FOLDER / f"{lesson}.json"
        if not file.is_file():
            raise BadInput(f"no transcript of {lesson}", hint=f"it belongs in {FOLDER}")
        return cls(**json.loads(file.read_text("utf-8")))

    def show(self, cell: str) -> None:
        """Show this cell's recorded output, under a line that says so; nothing if it had none."""
        outputs = self.outputs.get(cell.strip(), [])
        if outputs:
            print(f"On {self.recorded}, in a lab in a box, this cell showed:\n")
        for output in outputs:
            if "text" in output:
                print(output["text"], end="")
            else:
                display(output["data"], raw=True)  # type: ignore[no-untyped-call]


def replay(lesson: str) -> None:
    """After each cell of this notebook, show what it showed when the lesson was recorded."""
    shell = get_ipython()
    if shell is None:
        return
    transcript = Transcript.read(lesson)
    hooks = shell.events.callbacks[HOOK]
    for old in [hook for hook in hooks if hook.__name__ == replayed.__name__]:
        shell.events.unregister(HOOK, old)
    shell.events.register(HOOK, replayed(transcript, shell.user_ns))


def replayed(transcript: Transcript, names: Mapping[str, Any]) -> Any:
    """The callback of IPython after each cell; it bears this function's name.

    A notebook that is run again with a lab shows its own outputs.
    """

    def show(result: Any) -> None:
        if not result.error_in_exec and not names.get(LAB):
            transcript.show(result.info.raw_cell)

    show.__name__ = replayed.__name__
    return show
