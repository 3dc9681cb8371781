"""The interface that copies and jobs need of a host: commands, and those with open streams."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

CHUNK = 1 << 20
STALL_SECONDS = 60.0
"""A stream on which nothing moves for so long is given up."""


class Pipe(Protocol):
    """A running command: what is sent it reads, what it prints is received as it comes."""

    patience: float
    """Seconds without any movement after which it is given up."""

    def send(self, content: bytes | memoryview) -> bool:
        """Give it all of `content`; False when it reads no more."""

    def finish(self) -> None:
        """End its input."""

    def recv(self, most: int = CHUNK) -> bytes:
        """Some bytes of its output, none when that has ended."""

    def ended(self) -> tuple[int, str]:
        """Its code and what it complained of, once its output has been read to the end."""


class Ran(Protocol):
    """The result of a short command."""

    @property
    def code(self) -> int:
        """0 when it went well."""

    @property
    def stdout(self) -> str:
        """Its standard output."""

    @property
    def stdout_bytes(self) -> bytes:
        """The same, as it came."""

    @property
    def stderr(self) -> str:
        """Its standard error output."""


class Carries(Protocol):
    """A host, as far as copies and jobs are concerned."""

    @property
    def name(self) -> str:
        """The host's name in errors."""

    def run(self, *words: str, stdin: bytes | Path = b"", seconds: float = 60.0) -> Ran:
        """Run a short command to its end."""

    def raw(self, *words: str, seconds: float = 60.0) -> AbstractContextManager[Pipe]:
        """Run a command whose streams stay open, once it has its turn."""
