"""The place on a host to write to or read from, and the words for its refusals."""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.errors import BadInput, CopyFailed, HostError, readable, sendable
from labkit.files.pipe import Carries

HASH_SECONDS = 3600.0
"""A large file takes its time to hash."""
# GNU dd and BusyBox's count what they copied, whatever happened.
_COUNTED = re.compile(r"^\d+\+\d+ records (in|out)$|^\d+ bytes .*copied.*$|^dd: closing.*$", re.M)


@dataclass(frozen=True)
class Place:
    """A path on a host: below `top`, no folder on the way (`rest`) may be a link."""

    host: str
    path: str
    top: str
    rest: str
    name: str

    @classmethod
    def at(cls, host: str, path: str, beneath: str = "") -> Place:
        """The place that `path` names; a path that makes no sense is refused."""
        name = posixpath.basename(path)
        if name in ("", ".", "..") or not sendable(path + beneath):
            raise BadInput(f"{host}: {path!r} names no file", hint="end it with a file's name")
        folder = posixpath.dirname(path) or "."
        if not beneath:
            return cls(host, path, _anchored(folder), "", name)
        rest = posixpath.relpath(folder, beneath)
        if rest.split("/")[0] == ".." or ".." in folder.split("/"):
            raise BadInput(f"{host}: {path} is not below {beneath}")
        return cls(host, path, _anchored(beneath), "" if rest == "." else rest, name)

    @property
    def folder(self) -> tuple[str, str]:
        """The folder's name, as the host's scripts take it."""
        return self.top, self.rest

    def below(self, name: str) -> tuple[str, str]:
        """The same of a folder in that folder: it may not be a link either."""
        return self.top, f"{self.rest}/{name}" if self.rest else name

    def stage(self, content: str) -> str:
        """The folder beside it where it is made ready; the same again for the same content."""
        named = hashlib.sha256(self.name.encode("utf-8", "surrogateescape")).hexdigest()
        return f".labkit-{named[:8]}-{hashlib.sha256(content.encode()).hexdigest()[:24]}"

    def refused(self, doing: str, said: str, hint: str = "") -> CopyFailed:
        """It cannot be written, or read; `said` is what the host says to that."""
        words = _COUNTED.sub("", said)
        words = re.sub(r"^(labkit|sh): (\d+: |line \d+: )?", "", words, flags=re.M)
        return CopyFailed(f"{self.host}: cannot {doing} {self.path}", said=words, hint=hint)

    def ask(
        self,
        host: Carries,
        doing: str,
        words: Sequence[str],
        *,
        stdin: bytes = b"",
        seconds: float = HASH_SECONDS,
    ) -> list[str]:
        """The lines that one of our scripts prints, when it ends well."""
        try:
            done = host.run(*words, stdin=stdin, seconds=seconds)
        except HostError as failed:  # nobody wants to read the script
            what = failed.what.replace(readable(shlex.join(words)), f"the copying of {self.path}")
            raise type(failed)(what, said=failed.said, hint=failed.hint) from failed
        if done.code:
            raise self.refused(doing, done.stderr or f"it ended with code {done.code}")
        return done.stdout.splitlines()

    def damaged(self, doing: str) -> HostError:
        """The error if what arrived is not what was sent, or changed meanwhile."""
        return self.refused(
            doing,
            "the hashes of both sides differ",
            "did it change while it was copied? otherwise suspect a disk or its memory",
        )


# A folder's name may begin with a dash.
def _anchored(folder: str) -> str:
    return folder if folder.startswith("/") else f"./{folder}"
