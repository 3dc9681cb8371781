"""A running command whose streams stay open: for files, and for what waits or serves."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from labkit.errors import OutcomeUnknown, TimedOut
from labkit.files import CHUNK, STALL_SECONDS
from labkit.ssh.shell import Channel, Gone, cut

COMPLAINT = 1 << 16
"""Bytes kept from the end of the error stream; the rest is read and dropped."""
TURN_SECONDS = 0.5


@dataclass
class ShellPipe:
    """A pipe to a shell, which reads what we send and prints what we receive.

    `mark` is a line on each stream before anything of its own, and begins its last words.
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
        self._left = threading.Event()

    def __enter__(self) -> ShellPipe:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()

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
            raise OutcomeUnknown(f"{self.name}: {cut(self.channel)} while copying")
        return int(match[1]), self._errors[: match.start()].decode("utf-8", "replace")

    def abort(self) -> None:
        """Let go of it now, from whatever thread."""
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

    # What does not read holds up a sender for ever; a receiver looks at the time itself.
    def _watch(self) -> None:
        while not self._left.wait(TURN_SECONDS):
            if self._sending and self._moved + self.patience < time.monotonic():
                self._stalled = True
                self.abort()

    def _patiently(self) -> None:
        if self._stalled:
            raise TimedOut(
                f"{self.name}: nothing moved for {self.patience:g} s",
                hint="check whether its disk is busy or its network blocked",
            )
