"""A host: one machine, however it is reached."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from labkit.errors import CommandFailed


@dataclass(frozen=True)
class Completed:
    """What one command did: its words, how it ended, what it printed, how long it took."""

    host: str
    words: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the command ended with code 0."""
        return self.code == 0

    @property
    def command(self) -> str:
        """The command as a shell would read it."""
        return shlex.join(self.words)


class Transport(Protocol):
    """How commands and files reach a host."""

    def run(self, words: tuple[str, ...], *, stdin: bytes, seconds: float) -> Completed:
        """Run one command to its end, or raise when `seconds` have passed."""

    def put(self, content: bytes, path: str, mode: int) -> None:
        """Write a whole file, complete or not at all."""

    def get(self, path: str) -> bytes:
        """Read a whole file."""

    def close(self) -> None:
        """Let go of the host; the next command connects again."""


@dataclass(frozen=True)
class Host:
    """One machine: `transport` carries the commands, `address` is where test traffic goes."""

    name: str
    address: str
    transport: Transport = field(repr=False, compare=False)
    interface: str = ""

    def run(self, *words: str, stdin: bytes = b"", seconds: float = 60.0) -> Completed:
        """Run a command and report how it ended, whatever its code."""
        return self.transport.run(tuple(words), stdin=stdin, seconds=seconds)

    def check(self, *words: str, stdin: bytes = b"", seconds: float = 60.0) -> str:
        """Run a command that must end with code 0; return what it printed."""
        done = self.run(*words, stdin=stdin, seconds=seconds)
        if not done.ok:
            raise CommandFailed(
                f"{self.name}: `{done.command}` ended with code {done.code}",
                said=done.stderr or done.stdout,
                hint=_hint(done),
            )
        return done.stdout

    def put(self, content: bytes | Path, path: str, mode: int = 0o644) -> None:
        """Write `content` (bytes, or a local file) to `path` on the host, whole or not at all."""
        whole = content.read_bytes() if isinstance(content, Path) else content
        self.transport.put(whole, path, mode)

    def get(self, path: str) -> bytes:
        """The bytes of the file at `path` on the host."""
        return self.transport.get(path)

    def close(self) -> None:
        """Close the connection; the next command opens it again."""
        self.transport.close()


def _hint(done: Completed) -> str:
    if done.code == 127:
        return f"is `{done.words[0]}` installed on {done.host}, and on the PATH there?"
    if done.code == 126:
        return f"`{done.words[0]}` exists on {done.host} but may not be run"
    return ""
