"""What is sent on a connection: in few parts, and at once where there is room for it."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import paramiko

from labkit.ssh.private import OpenPacketizer
from labkit.ssh.sealed import Sealer

if TYPE_CHECKING:
    from typing_extensions import Buffer

# So often who waits looks round, for a keepalive may be due; closing wakes it. paramiko does ten
# times as often, on every connection of a fleet.
QUIET_SECONDS = 1.0


class Sending(OpenPacketizer):
    """paramiko's packets, sealed and sent with less ado."""

    def __init__(self, end: Any) -> None:
        super().__init__(end)
        self._socket, self._process = end, os.getpid()
        self._sealer: Sealer | None = None
        self._unsent: bytes | None = None
        self._later = b""
        self._sealing = threading.Lock()
        self._quiet = isinstance(end, socket.socket)
        if self._quiet:
            # With a time-out Python would ask for room before it sends, and not only where there
            # is none.
            end.setblocking(False)

    def set_outbound_cipher(self, *given: Any, **named: Any) -> None:
        """As paramiko's."""
        super().set_outbound_cipher(*given, **named)
        aead = named.get("aead")
        self._sealer = Sealer(named["block_engine"], named["iv_out"]) if aead else None

    def send_message(self, data: paramiko.Message) -> None:
        """Send a message, as long as the connection is this process's own."""
        self._not_inherited()
        if self._sealer is None:
            super().send_message(data)
            return
        with self._sealing:
            self.write_all(self._sealer.sealed(data.asbytes()))
            worn = self._sealer.worn
        if worn and not self.need_rekey():
            self._trigger_rekey()

    # After fork(2) a child has the socket too: what it sent or read would be its parent's.
    def _not_inherited(self) -> None:
        if os.getpid() != self._process:
            raise EOFError("the connection is that of the parent process")

    @contextmanager
    def in_one(self) -> Iterator[None]:
        """Send what is said meanwhile in one part: each costs the host a look of its own."""
        try:
            with self.later():
                yield
        finally:
            self.write_all(b"")

    @contextmanager
    def later(self) -> Iterator[None]:
        """Send what is said meanwhile with what comes next, or when we have to wait."""
        self._unsent = b""
        try:
            yield
        finally:
            self._later, self._unsent = self._later + self._unsent, None

    def write_all(self, out: Buffer) -> None:
        """Send that many bytes, or keep them until the rest is said."""
        if self._unsent is not None:
            self._unsent += out
            return
        if self._later:
            out, self._later = self._later + bytes(out), b""
        super().write_all(self._sent(out) if self._quiet else out)

    # paramiko's own writing, which also notes when that was, is left nothing; for it would ask for
    # room over and over where there is none.
    def _sent(self, out: Buffer) -> bytes:
        rest = memoryview(out)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                self._await_room()
            except OSError:
                raise EOFError from None
        return b""

    def _await_room(self) -> None:
        poll = select.poll()  # one object serves one thread
        with suppress(ValueError):
            poll.register(self._socket, select.POLLOUT)
            poll.poll(1000 * QUIET_SECONDS)
        if self.closed:
            raise EOFError
