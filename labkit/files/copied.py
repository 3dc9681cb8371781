"""The common ground of all copies: what they report, and that they outlast a lost connection."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from labkit.errors import NothingRun, OutcomeUnknown, Unreachable
from labkit.files.pipe import CHUNK, Pipe
from labkit.files.place import Place

SMALL = 1 << 20
"""The largest copy made in one command: a round trip or two, and nothing to go on from."""
IN_A_ROW = 3
"""Connections lost in a row, with nothing gained, that make an error."""
GO_ON = "copy it again: parts already there are checked and not sent twice"
T = TypeVar("T")


@dataclass(frozen=True)
class Copied:
    """A finished copy; `sent` is less than `size` if some of it was there from an earlier try."""

    path: str
    files: int
    size: int
    sent: int
    verified_by: str
    seconds: float
    left_out: tuple[str, ...] = ()


def surviving(once: Callable[[Callable[[], None]], T]) -> T:
    """Do it again after the connection was lost, as long as something was gained meanwhile."""
    lost_in_a_row, reached = 0, False

    def gained() -> None:
        nonlocal lost_in_a_row
        lost_in_a_row = 0

    while True:
        try:
            return once(gained)
        except Unreachable as lost:
            reached = reached or isinstance(lost, OutcomeUnknown | NothingRun)
            if not reached:
                raise
            lost_in_a_row += 1
            if lost_in_a_row == IN_A_ROW:
                raise Unreachable(lost.what, said=lost.said, hint=GO_ON) from lost
            time.sleep(0.2 * 2**lost_in_a_row * random.uniform(0.5, 1.0))


def answered(pipe: Pipe, doing: str, place: Place) -> list[str]:
    """The first word of each line that a command prints, when it ends well."""
    said = bytearray()
    while part := pipe.recv(CHUNK):
        said += part
        if len(said) > CHUNK:
            raise place.refused(doing, "the host sent more than it was asked for")
    code, complaint = pipe.ended()
    if code:
        raise place.refused(doing, complaint or f"it ended with code {code}")
    return first_words(said.decode("ascii", "replace").splitlines())


def first_words(lines: list[str]) -> list[str]:
    """A hash is the first word of its line; what follows depends on the tool."""
    return [(line.split() or [""])[0] for line in lines]
