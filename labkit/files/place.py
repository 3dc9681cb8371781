"""The place on a host to write to or read from, and the words for its refusals."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from labkit.errors import BadInput, CopyFailed, NothingRun, OutcomeUnknown, sendable
from labkit.machine.scripts import beside

PROGRAMS = ("openssl",)

START = beside(__file__, "start.sh")
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """A path on a host that can name a file."""

    host: str
    path: str
    folder: str
    name: str

    @classmethod
    def at(cls, host: str, path: str) -> Place:
        """The place that `path` names; a path that makes no sense is refused."""
        name = posixpath.basename(path)
        if name in ("", ".", "..") or not sendable(path):
            raise BadInput(f"{host}: {path!r} names no file", hint="end it with a file's name")
        folder = posixpath.dirname(path) or "."
        # A folder's name may begin with a dash.
        return cls(host, path, folder if folder.startswith("/") else f"./{folder}", name)

    def words(self, script: str, *arguments: str) -> tuple[str, ...]:
        """The command that runs one of our scripts on it: POSIX sh, and tools of BusyBox."""
        return ("sh", "-c", START + script, "labkit", self.folder, self.name, *arguments)

    def refused(self, verb: str, text: str, hint: str = "") -> CopyFailed:
        """The error for a place that cannot be written or read; `said` are the host's words."""
        words = re.sub(r"^(labkit|sh): (\d+: |line \d+: )?", "", text, flags=re.M)
        return CopyFailed(f"{self.host}: cannot {verb} {self.path}", said=words, hint=hint)


def twice(copy: Callable[[], T]) -> T:
    """Copy, and once more if the connection was lost; a copy is whole or not at all."""
    try:
        return copy()
    except (NothingRun, OutcomeUnknown):
        return copy()
