"""TLS as SQL Server has it: agreed upon inside packets of its own, for the login or for all."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from labkit.shop.answers import ByteWire

ROOM = 1 << 16
Send = Callable[[bytes], None]
Receive = Callable[[], bytes]


class Sealed:
    """A socket to all who use it, which encrypts what is sent and decrypts what comes.

    The certificate is not checked: a server has one that it made for itself, unless given another.
    """

    def __init__(self, plain: ByteWire, send: Send, receive: Receive) -> None:
        asked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        asked.check_hostname, asked.verify_mode = False, ssl.CERT_NONE
        asked.maximum_version = ssl.TLSVersion.TLSv1_2  # a later one has no end to its handshake
        self.plain = plain
        self._come, self._go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = asked.wrap_bio(self._come, self._go)
        self._agree(send, receive)

    def _agree(self, send: Send, receive: Receive) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                send(self._go.read())
                self._come.write(receive())
                continue
            except ssl.SSLError as odd:
                raise ConnectionError(
                    f"the login cannot be encrypted: {odd.reason or odd}; TLS 1.2 is needed"
                ) from None
            if left := self._go.read():
                send(left)
            return

    def sendall(self, words: bytes) -> None:
        """Send all of it."""
        for at in range(0, len(words), ROOM):
            self._tls.write(words[at : at + ROOM])
            self.plain.sendall(self._go.read())

    def recv(self, most: int) -> bytes:
        """Receive and decrypt all that came; nothing is left that a selector would not see."""
        said = b""
        while not said:
            part = self.plain.recv(max(most, ROOM))
            if not part:
                return b""
            self._come.write(part)
            said = self._decrypted()
        return said

    def _decrypted(self) -> bytes:
        parts: list[bytes] = []
        while True:
            try:
                part = self._tls.read(ROOM)
            except ssl.SSLWantReadError:
                return b"".join(parts)
            except ssl.SSLError as odd:
                raise ConnectionError(f"the answer cannot be decrypted: {odd.reason}") from None
            if not part:
                return b"".join(parts)
            parts.append(part)

    def fileno(self) -> int:
        """The file descriptor that a selector waits for."""
        return self.plain.fileno()

    def close(self) -> None:
        """Leave."""
        self.plain.close()
