"""The streams of a command on a host, and the interface that copies and jobs need of a host."""

from __future__ import annotations

import re
import threading
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from labkit.errors import OutcomeUnknown, TimedOut

CHUNK = 1 << 20
STALL_SECONDS = 60.0
"""A stream on which nothing moves for so long is given up."""
COMPLAINT = 1 << 16
"""Bytes kept from the end of a pipe's error stream; the rest is read and dropped."""
TURN_SECONDS = 0.5


class Gone(Exception):
    """The streams of a shell ended before it had said all."""


class Channel(Protocol):
    """The three streams of a process on a host."""

    @property
    def ended(self) -> bool:
        """Whether both of its output streams have ended, and have been read."""

    @property
    def lost(self) -> bool:
        """Whether they ended because the connection did."""

    @property
    def cut_off(self) -> bool:
        """Whether the connection took them away before they had ended by themselves."""

    @property
    def ender(self) -> str:
        """The end of the streams before their time, for people; with the party, if it is known."""

    def send(self, part: bytes | memoryview) -> None:
        """Give it input; raises Gone when it reads no more."""

    def finish(self) -> None:
        """End its input."""

    def recv(self, seconds: float) -> tuple[bytes, bytes]:
        """Read what has come on each stream; wait at most `seconds` for anything at all."""

    def close(self) -> None:
        """Let go of it."""


@dataclass
class Pipe:
    """A running command whose streams stay open: for files, and for what waits or serves.

    It reads what we send and prints what we receive. `mark` is a line on each stream before
    anything of its own, and begins its last words.
    """

    name: str
    channel: Channel = field(repr=False)
    mark: str = field(repr=False)
    patience: float = STALL_SECONDS
    """Seconds without any movement after which it is given up."""

    def __post_init__(self) -> None:
        self._errors, self._rest = bytearray(), memoryview(b"")
        self._before: list[bytearray | None] = [bytearray(), bytearray()]
        self._moved, self._sending, self._stalled = time.monotonic(), False, False
        self.left = threading.Event()

    def send(self, content: bytes | memoryview) -> bool:
        """Give it all of `content`; False when it reads no more."""
        self._moved, self._sending = time.monotonic(), True
        try:
            self.channel.send(content)
        except Gone:
            self._patiently()
            return False
        finally:
            self._sending = False
        return True

    def finish(self) -> None:
        """End its input."""
        with suppress(Gone):  # what there is to say of that is said by `ended`
            self.channel.finish()

    def recv(self, limit: int = CHUNK) -> bytes:
        """Some bytes of its output, none when that has ended."""
        self._moved = time.monotonic()
        while not self._rest and not self.channel.ended:
            part, content = self.channel.recv(TURN_SECONDS)
            if part or content:
                self._moved = time.monotonic()
            self._rest = memoryview(self._strip_mark(0, part))
            self._errors += self._strip_mark(1, content)
            del self._errors[:-COMPLAINT]
            self._stalled = self._moved + self.patience < time.monotonic()
            self._patiently()
        content, self._rest = bytes(self._rest[:limit]), self._rest[limit:]
        return content

    def ended(self) -> tuple[int, str]:
        """Its code and what it complained of; drops what there still is of its output."""
        while self.recv():
            pass
        match = re.search(rf"{self.mark} (\d+)\n$".encode(), self._errors)
        # What it complained of may come before the last of its output.
        if not match or self.channel.cut_off:
            raise OutcomeUnknown(f"{self.name}: {self.channel.ender} while copying")
        return int(match[1]), self._errors[: match.start()].decode("utf-8", "replace")

    def watch(self) -> None:
        """Let go of what holds up a sender for ever; a receiver looks at the time itself."""
        while not self.left.wait(TURN_SECONDS):
            if self._sending and self._moved + self.patience < time.monotonic():
                self._stalled = True
                self.channel.close()

    # What a login says first is nobody's; but a host that goes on so has its words taken for it.
    def _strip_mark(self, side: int, part: bytes) -> bytes:
        content_held = self._before[side]
        if content_held is None or not part:
            return part
        content_held += part
        _, separator, content = content_held.partition(f"{self.mark}\n".encode())
        if not separator and len(content_held) <= COMPLAINT:
            return b""
        self._before[side] = None
        return bytes(content if separator else content_held)

    def _patiently(self) -> None:
        if self._stalled:
            raise TimedOut(
                f"{self.name}: nothing moved for {self.patience:g} s",
                hint="check whether its disk is busy or its network blocked",
            )


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
