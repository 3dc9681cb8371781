"""Who reads a connection: the thread that waits for an answer, where it is the only one.

paramiko has a thread that reads and wakes those who wait: two changes of thread, and of CPU, for
each part of an answer. Here that thread stands aside for a moment, and whoever asks reads for
itself. Where several wait, or what came is no channel's, it is paramiko's thread again.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import paramiko
from paramiko.packet import NeedRekeyException, Packetizer

# So long after an answer the socket is left to whoever asks next.
ASIDE_SECONDS = 0.05
# paramiko looks round as often, for a socket that is closed wakes nobody who waits for it.
TURN_SECONDS = 0.1
MANY = 1 << 18
# OpenSSH's own packets have 256 KiB at most; a host could else have us hold 4 GiB.
LARGEST = 1 << 20

Received = tuple[int, Any]


class Bell(Protocol):
    """Wakes the one thread that waits for it."""

    @property
    def rung(self) -> bool:
        """Whether it has been rung since it was last waited for."""

    def set(self) -> None:
        """Ring."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a ring."""


class Packets(Packetizer):
    """paramiko's packets, read in large parts, by one thread at a time."""

    def __init__(self, end: Any) -> None:
        super().__init__(end)
        self._socket, self._read, self._poll = end, bytearray(), select.poll()
        self.lines: list[str] = []
        """What came before the keys were exchanged: it says what answers, if not sshd."""
        self._deadline = float("inf")
        self._shared = False
        self._turn, self._mine = threading.Lock(), False
        self._wake, self._counting = threading.Event(), threading.Lock()
        self._bells: list[Bell] = []
        self._needed, self._used = 0, float("-inf")
        self._left: Received | Exception | None = None

    # --- paramiko's thread ------------------------------------------------------------------

    def read_message(self) -> Received:
        """The next message, when it is for paramiko's thread to read."""
        while True:
            self._wake.clear()
            if not self._stands_aside():
                # The turn is kept until we come back, for a message may change the keys.
                self._mine = self._mine or self._turn.acquire(timeout=ASIDE_SECONDS)
                if self._mine:
                    break
                continue
            if self._mine:
                self._mine = False
                self._turn.release()
            if not self._turn.locked():
                for bell in list(self._bells):
                    bell.set()
            self._wake.wait(ASIDE_SECONDS)
        left, self._left = self._left, None
        if isinstance(left, Exception):
            raise left
        return left or super().read_message()

    def _stands_aside(self) -> bool:
        if self._left is not None or self.closed or self._needed or not self._shared:
            return False
        if self.need_rekey() or len(self._bells) > 1:
            return False
        if self._bells or (not self._mine and self._turn.locked()):
            return True
        return time.monotonic() - self._used < ASIDE_SECONDS

    # --- those who wait ---------------------------------------------------------------------

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Have paramiko's thread read: what we wait for rings no bell."""
        with self._counting:
            self._needed += 1
        self._wake.set()
        try:
            yield
        finally:
            with self._counting:
                self._needed -= 1

    def wait(self, bell: Bell, seconds: float, give: Callable[[int, Any], bool]) -> None:
        """Wait for a ring, and read meanwhile, where nobody else does.

        What `give` does not take is left to paramiko's thread, and so is what goes wrong.
        """
        until = time.monotonic() + seconds
        with self._counting:
            self._bells.append(bell)
        try:
            if self._needed or len(self._bells) > 1 or not self._shared:
                self._wake.set()
            elif self._turn.acquire(blocking=False):
                self._lead(bell, until, give)
            if not bell.rung or seconds <= 0:
                bell.wait(max(until - time.monotonic(), 0))
            else:
                bell.wait(0)
        finally:
            with self._counting:
                self._bells.remove(bell)
            self._used = time.monotonic()

    def _lead(self, bell: Bell, until: float, give: Callable[[int, Any], bool]) -> None:
        between = True  # two packets
        try:
            while self._left is None and not self.need_rekey():
                if not self._has_packet():
                    left = until - time.monotonic()
                    if bell.rung or left <= 0 or self._needed or len(self._bells) > 1:
                        break
                    if not self._comes(min(left, TURN_SECONDS)):
                        continue
                between = False
                if self._has_packet() or self._more():
                    message = super().read_message()
                    if not give(*message):
                        self._left = message
                between = True
        except Exception as failed:
            self._left = failed
        finally:
            # After Ctrl-C in the middle of a packet nobody can read what follows.
            if not between and self._left is None:
                self._left = paramiko.SSHException("interrupted while it read a packet")
            self._turn.release()
            if self._left is not None or self._needed or len(self._bells) > 1:
                self._wake.set()

    # --- the socket -------------------------------------------------------------------------

    def set_inbound_cipher(self, *given: Any, **named: Any) -> None:
        """As paramiko's; others may read only where the length of a packet is not encrypted."""
        super().set_inbound_cipher(*given, **named)
        plain = named.get("aead") or named.get("etm")
        self._shared = bool(plain) and isinstance(self._socket, socket.socket)
        if self._shared:
            self._poll.register(self._socket, select.POLLIN)

    def readline(self, timeout: float) -> str:
        """A line before the keys are exchanged, which is kept."""
        until = time.monotonic() + timeout
        while (end := self._read.find(b"\n")) < 0:
            if (not self._more() and time.monotonic() > until) or len(self._read) > LARGEST:
                raise TimeoutError
        line = bytes(self._read[:end]).removesuffix(b"\r").decode("utf-8", "replace")
        del self._read[: end + 1]
        self.lines.append(line)
        return line

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """So many bytes; paramiko calls this for each part of a packet."""
        if n > LARGEST:
            raise paramiko.SSHException(f"a packet of {n} bytes")
        while len(self._read) < n:
            if self._more():
                continue
            if check_rekey and not self._read and self.need_rekey():
                raise NeedRekeyException
            self._check_keepalive()  # type: ignore[attr-defined]
        part = bytes(self._read[:n])
        del self._read[:n]
        return part

    def close(self) -> None:
        """Close the socket; whoever waits for it learns of that."""
        super().close()
        self._wake.set()

    def _has_packet(self) -> bool:
        read = self._read
        size = int.from_bytes(read[:4], "big")
        return len(read) >= 4 and len(read) >= min(4 + size + self.get_mac_size_in(), LARGEST)

    # Whether anything came before the socket's own time-out.
    def _more(self) -> bool:
        if self.handshake_timed_out():
            raise EOFError
        try:
            part = self._socket.recv(MANY)
        except OSError as nothing:
            if self.closed:
                raise EOFError from None
            if isinstance(nothing, TimeoutError | BlockingIOError):
                return False
            raise
        if not part:
            raise EOFError
        self._read += part
        return True

    def _comes(self, seconds: float) -> bool:
        if self.closed:
            raise EOFError
        if self._poll.poll(1000 * seconds):
            return True
        self._check_keepalive()  # type: ignore[attr-defined]
        return False

    # --- paramiko has a thread for this, on every connection --------------------------------

    def start_handshake(self, timeout: float) -> None:
        """From now on the keys have so many seconds to be exchanged."""
        self._deadline = time.monotonic() + timeout

    def handshake_timed_out(self) -> bool:
        """Whether they have taken longer."""
        return time.monotonic() > self._deadline

    def complete_handshake(self) -> None:
        """They are exchanged."""
        self._deadline = float("inf")
