"""The socket or channel that paramiko is handed: watched, and never a child process's."""

import os
import select
import socket
import time
from contextlib import suppress
from typing import Any

import paramiko

# paramiko's thread looks up so often whether a keepalive is due; closing wakes it. Its own tenth
# of a second wakes this machine's CPUs ten times as often, on every connection of a fleet.
QUIET_SECONDS = 1.0
# A server has this many bytes for its banner and its keys.
MOST_HEARD = 1 << 20
# Kept for people of what is no SSH server's.
LONGEST_WORDS = 2000
RDHUP: int = getattr(select, "POLLRDHUP", 0)
"""The other end has closed; Linux alone reports it."""


class WatchedSocket:
    """The stream that SSH runs over, with the parts of a socket that paramiko uses."""

    def __init__(self, end: socket.socket | paramiko.Channel) -> None:
        self._end, self._process = end, os.getpid()
        self._closed = False
        """paramiko looks at this, as at a socket's."""
        self._heard: bytearray | None = bytearray()
        self.came = time.monotonic()
        """When anything came last."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._end, name)

    @property
    def heard(self) -> str:
        """Text that came before keys were exchanged; it shows what answers, if not sshd."""
        words = bytes((self._heard or b"")[:LONGEST_WORDS]).decode("utf-8", "replace")
        return "\n".join(line.strip() for line in words.splitlines() if line.strip())

    def trust(self) -> None:
        """Keys are exchanged: from now on anything may come, and is not kept."""
        self._heard = None

    def recv(self, size: int) -> bytes:
        """Read what has come."""
        part = self._end.recv(size)
        if part:  # its end, which a silent host brings about too, is no sign of life
            self.came = time.monotonic()
        if self._heard is not None:
            self._heard += part
            if len(self._heard) > MOST_HEARD:
                raise OSError(f"more than {MOST_HEARD} bytes before its keys")
        return part

    def send(self, part: bytes) -> int:
        """Send some of it."""
        # After fork(2) a child has the socket too: what it sent would be its parent's.
        if os.getpid() != self._process:
            raise EOFError("the connection is that of the parent process")
        return self._end.send(part)

    def settimeout(self, seconds: float) -> None:
        """Set how long `recv` and `send` may wait; never less than a second."""
        self._end.settimeout(max(seconds, QUIET_SECONDS))

    @property
    def ended(self) -> bool:
        """Whether the other end has closed it, though paramiko may not have read so yet."""
        if isinstance(self._end, paramiko.Channel):
            return bool(self._end.closed)
        poll = select.poll()  # one object serves one thread
        with suppress(ValueError):
            poll.register(self._end, RDHUP)
            return bool(poll.poll(0))
        return True

    def close(self) -> None:
        """Close it, and wake the thread that reads it; any number of times."""
        self._closed = True
        # A jump host's channel cannot be closed once the jump host is gone.
        with suppress(OSError, EOFError, paramiko.SSHException):
            if isinstance(self._end, socket.socket) and os.getpid() == self._process:
                self._end.shutdown(socket.SHUT_RDWR)
        with suppress(OSError, EOFError, paramiko.SSHException):
            self._end.close()
