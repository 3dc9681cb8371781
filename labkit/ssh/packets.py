"""Who reads a connection: the thread that waits for an answer, where it is the only one.

paramiko has a thread that reads and wakes those who wait: two changes of thread, and of CPU, for
each part of an answer. Here that thread stands aside for a moment, and the one who asks reads for
itself. Where several wait, or what came is no channel's, it is paramiko's thread again.
"""

from __future__ import annotations

import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import paramiko
from paramiko.packet import NeedRekeyException

from labkit.machine.turns import Awaited
from labkit.ssh.bells import Bell
from labkit.ssh.sealed import Opener, Received
from labkit.ssh.sending import QUIET_SECONDS, Sending

# So long after an answer the socket is left to whoever asks next.
ASIDE_SECONDS = 0.5
# More is asked for once that much has come: the memory for it has to be fetched from the kernel.
FEW, MANY = 1 << 14, 1 << 18
# sshd leaves Nagle's algorithm on: what it has to say next waits until we acknowledge what it said
# before, and Linux takes 40 ms for that unless it is asked each time (tcp(7), TCP_QUICKACK). On a
# connection that has got going the answers are acknowledged by the next commands.
HASTY_PARTS = 32
# OpenSSH's own packets have 256 KiB at most; a host could else have us hold 4 GiB.
LARGEST = 1 << 20
# Of a line without end, what is kept for people.
LONGEST_WORDS = 200
# What may come before it, paramiko reads no more of (RFC 4253, 4.2).
BANNER, LINES = re.compile(rb"^SSH-.*\n", re.MULTILINE), 100
RDHUP: int = getattr(select, "POLLRDHUP", 0)
"""The other end has closed; Linux alone reports it."""


class Packets(Sending):
    """paramiko's packets, read in large parts, by one thread at a time."""

    def __init__(self, end: Any) -> None:
        super().__init__(end)
        self._read, self._poll = bytearray(), select.poll()
        self.lines: list[str] = []
        """What came before the keys were exchanged: it says what answers, if not sshd."""
        self.came = time.monotonic()
        self._deadline = float("inf")
        self.told = self._quiet
        """Whether it is known without waiting how long the next packet is."""
        self._shared, self._hasty = False, HASTY_PARTS if _is_tcp(end) else 0
        self._opener: Opener | None = None
        self._most = FEW
        if self._quiet:
            self._poll.register(end, select.POLLIN)
        self._turn, self._mine = threading.Lock(), False
        self._wake, self._counting = threading.Event(), threading.Lock()
        self._bells: list[Bell] = []
        self._leading: list[Bell] = []
        self._last_led = object()
        self._needed, self._used, self._heard = 0, float("-inf"), 0
        self._left: Received | Exception | None = None
        # Whether somebody other than paramiko's thread is in the middle of a packet, or was when
        # Ctrl-C came: what follows can then be read by nobody.
        self._torn = False

    # --- paramiko's thread ------------------------------------------------------------------

    def read_message(self) -> Received:
        """The next message, when it is for paramiko's thread to read."""
        while True:
            self._wake.clear()
            if self._forsaken():
                self._turn.release()
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
        if self._torn:
            raise paramiko.SSHException("interrupted while it read a packet")
        return left or self._next()

    # Ctrl-C may come between taking the turn and giving it back: then it is taken, and by nobody
    # who led before or began to since.
    def _forsaken(self) -> bool:
        last = self._last_led
        nobody = not self._mine and not self._leading
        return nobody and self._turn.locked() and not self._leading and last is self._last_led

    def _stands_aside(self) -> bool:
        if self._left is not None or self.closed or self._needed or not self._shared:
            return False
        if self._torn and not self._turn.locked():
            return False
        if self.need_rekey() or len(self._bells) > 1:
            return False
        if self._bells or (not self._mine and self._turn.locked()):
            return True
        return time.monotonic() - self._used < ASIDE_SECONDS

    # --- whoever logs in, while that thread has not begun -----------------------------------

    def arrived(self) -> Received | None:
        """The next message, if all of it is there, or the one who asks has to wait for that."""
        self._used = time.monotonic()
        if self.told and not self._has_packet() and not (self._more(0) and self._has_packet()):
            self._check_keepalive()
            return None
        return self._next()

    def awaited(self) -> Awaited:
        """What has to come before there can be another."""
        return Awaited(min(self._deadline, time.monotonic() + QUIET_SECONDS), self._socket)

    def has_banner(self) -> bool:
        """Whether that is there which comes before the keys, or never will be."""
        read = self._read
        with suppress(EOFError, OSError):
            if self.told and len(read) <= LARGEST and read.count(b"\n") < LINES:
                return bool(BANNER.search(read) or (self._more(0) and BANNER.search(read)))
        return True

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

    def left_to_the_thread(self) -> None:
        """Have it read at once, and not only when nobody has asked for a while."""
        self._used = float("-inf")
        self._wake.set()

    @property
    def stirs(self) -> bool:
        """Whether something has come that nobody has read yet, such as the connection's end."""
        if self.closed or not self._shared:
            return self.closed
        # What comes while somebody reads may be anybody's; its end is everybody's.
        events = RDHUP | (0 if self._turn.locked() else select.POLLIN)
        poll = select.poll()  # one object serves one thread
        with suppress(ValueError):
            poll.register(self._socket, events)
            return bool(poll.poll(0))
        return True

    def wait(self, bell: Bell, seconds: float, give: Callable[[int, Any], bool]) -> None:
        """Wait for a ring, and read meanwhile, where nobody else does.

        What `give` does not take is left to paramiko's thread, and so is what goes wrong.
        """
        until = time.monotonic() + seconds
        self._bells.append(bell)
        try:
            if self._needed or len(self._bells) > 1 or not self._shared:
                self._wake.set()
            else:
                self._lead(bell, until, give)
            bell.wait(0 if bell.rung else max(until - time.monotonic(), 0))
        finally:
            self._bells.remove(bell)
            self._used = time.monotonic()

    def _lead(self, bell: Bell, until: float, give: Callable[[int, Any], bool]) -> None:
        self._last_led = object()
        self._leading.append(bell)
        try:
            if self._turn.acquire(blocking=False):
                try:
                    self._hand_out(bell, until, give)
                finally:
                    self._used = time.monotonic()
                    self._turn.release()
                    if not self._stands_aside():
                        self._wake.set()
        finally:
            self._leading.remove(bell)

    def _hand_out(self, bell: Bell, until: float, give: Callable[[int, Any], bool]) -> None:
        try:
            while self._left is None and not self._torn and not self.need_rekey():
                whole = self._has_packet()
                if not whole and (bell.rung or not self._comes(until)):
                    break
                self._torn = True
                if not whole:
                    self._receive()
                elif not give(*(message := self._next())):
                    self._left = message
                self._torn = False
        except Exception as failed:
            self._left = failed

    # Waits as long as it is for us to read.
    def _comes(self, until: float) -> bool:
        while not self.closed:
            left = until - time.monotonic()
            if left <= 0 or self._needed or len(self._bells) > 1:
                return False
            if self._poll.poll(1000 * min(left, QUIET_SECONDS)):
                return True
            self._check_keepalive()
        raise EOFError

    # --- the socket -------------------------------------------------------------------------

    def set_inbound_cipher(self, *given: Any, **named: Any) -> None:
        """As paramiko's; others may read only where the length of a packet is not encrypted."""
        super().set_inbound_cipher(*given, **named)
        self.told = self._shared = self._quiet and bool(named.get("aead") or named.get("etm"))
        aead = named.get("aead")
        self._opener = Opener(named["block_engine"], named["iv_in"]) if aead else None

    def reset_seqno_in(self) -> None:
        """As paramiko's, where both ends are strict about it."""
        super().reset_seqno_in()
        self._heard = 0

    # paramiko copies each packet five times.
    def _next(self) -> Received:
        if self._opener is None:
            found: Received = super().read_message()
            self._heard = found[1].seqno + 1
            return found
        while not self._has_packet():
            if not self._more():
                if not self._read and self.need_rekey():
                    raise NeedRekeyException
                self._check_keepalive()
        kind, message = self._opener.opened(self._read)
        message.seqno, self._heard = self._heard, (self._heard + 1) % (1 << 32)
        if self._opener.worn and not self.need_rekey():
            self._trigger_rekey()
        return kind, message

    def readline(self, timeout: float) -> str:
        """A line before the keys are exchanged, which is kept."""
        until = min(time.monotonic() + timeout, self._deadline)
        while (end := self._read.find(b"\n")) < 0:
            late = time.monotonic() >= until
            if not late:
                self._more()
            if late or len(self._read) > LARGEST:
                self.lines.append(bytes(self._read[:LONGEST_WORDS]).decode("utf-8", "replace"))
                raise TimeoutError
        line = bytes(self._read[:end]).removesuffix(b"\r").decode("utf-8", "replace")
        del self._read[: end + 1]
        self.lines.append(line)
        return line

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """That many bytes; paramiko calls this for each part of a packet."""
        if n > LARGEST:
            raise paramiko.SSHException(f"a packet of {n} bytes")
        while len(self._read) < n:
            if self._more():
                continue
            if check_rekey and not self._read and self.need_rekey():
                raise NeedRekeyException
            self._check_keepalive()
        part = bytes(self._read[:n])
        del self._read[:n]
        return part

    def close(self) -> None:
        """Close the socket, and wake all that wait for it."""
        if self._quiet and os.getpid() == self._process:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        super().close()
        self._wake.set()

    def _has_packet(self) -> bool:
        if len(self._read) < 4:
            return False
        whole = 4 + int.from_bytes(self._read[:4], "big") + self.get_mac_size_in()
        if whole > LARGEST:
            raise paramiko.SSHException(f"a packet of {whole} bytes")
        return len(self._read) >= whole

    # Whether anything came within a moment; while keys are exchanged, and while we log in, that
    # must end.
    def _more(self, seconds: float = QUIET_SECONDS) -> bool:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise EOFError
        if self._later:
            self.write_all(b"")
        if seconds and self._quiet and not self._poll.poll(1000 * min(left, seconds)):
            # What is closed has no number of its own any more: it may be another's.
            if self.closed:
                raise EOFError
            return False
        return self._receive()

    # Whether there was anything.
    def _receive(self) -> bool:
        self._not_inherited()
        try:
            part = self._socket.recv(self._most)
        except OSError as nothing:
            if self.closed:
                raise EOFError from None
            if isinstance(nothing, TimeoutError | BlockingIOError):
                return False
            raise
        if not part:
            raise EOFError
        self.came = time.monotonic()
        if self._hasty:
            self._hasty -= 1
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self._most = FEW if len(part) < FEW else MANY
        self._read += part
        return True

    # --- paramiko has a thread for this, on every connection --------------------------------

    def start_handshake(self, timeout: float) -> None:
        """From now on the keys have that many seconds to be exchanged."""
        self._deadline = time.monotonic() + timeout

    def handshake_timed_out(self) -> bool:
        """Whether they have taken longer."""
        return time.monotonic() > self._deadline

    def complete_handshake(self) -> None:
        """They are exchanged."""
        self._deadline = float("inf")


def _is_tcp(end: Any) -> bool:
    return isinstance(end, socket.socket) and end.family in (socket.AF_INET, socket.AF_INET6)
