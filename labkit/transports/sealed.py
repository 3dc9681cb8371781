"""Packets that AES-GCM protects, opened without the copies that paramiko makes of each."""

from __future__ import annotations

from typing import Any

import paramiko
from paramiko.packet import Packetizer

TAG_BYTES = 16
Received = tuple[int, Any]
"""The kind of a message, and the message."""


class Sealed:
    """Opens packets of AES-GCM (RFC 5647): their length is plain, their counter goes up by one."""

    def __init__(self, engine: Any, iv: bytes) -> None:
        self._engine, self._fixed, self._counter = engine, iv[:4], int.from_bytes(iv[4:], "big")
        self._number = self._bytes = 0

    @property
    def worn(self) -> bool:
        """Whether it is time for new keys."""
        return self._bytes >= Packetizer.REKEY_BYTES or self._number >= Packetizer.REKEY_PACKETS

    def opened(self, read: bytearray) -> Received:
        """The first packet of what was read, which has it whole; takes it out."""
        length = bytes(read[:4])
        size = int.from_bytes(length, "big")
        end = 4 + size + TAG_BYTES
        iv = self._fixed + self._counter.to_bytes(8, "big")
        plain = self._engine.decrypt(iv, bytes(memoryview(read)[4:end]), length)
        del read[:end]
        self._counter = (self._counter + 1) % (1 << 64)
        self._number, self._bytes = self._number + 1, self._bytes + end
        # How much padding, the kind of message, its content, the padding.
        message = paramiko.Message(plain[2 : size - plain[0]])
        message.seqno = self._number
        return plain[1], message
