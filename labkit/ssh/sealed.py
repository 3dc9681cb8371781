"""Packets that AES-GCM protects, without the copies that paramiko makes of each."""

from __future__ import annotations

import os
from typing import Any

import paramiko
from paramiko.packet import Packetizer

BLOCK_BYTES = TAG_BYTES = 16
Received = tuple[int, Any]
"""The kind of a message, and the message."""


class _Keys:
    # RFC 5647: the length of a packet is plain, and its counter goes up by one.
    def __init__(self, engine: Any, iv: bytes) -> None:
        self._engine, self._fixed, self._counter = engine, iv[:4], int.from_bytes(iv[4:], "big")
        self._number = self._bytes = 0

    @property
    def worn(self) -> bool:
        """Whether it is time for new keys."""
        return self._bytes >= Packetizer.REKEY_BYTES or self._number >= Packetizer.REKEY_PACKETS

    def _next_iv(self, size: int) -> bytes:
        iv = self._fixed + self._counter.to_bytes(8, "big")
        self._counter = (self._counter + 1) % (1 << 64)
        self._number, self._bytes = self._number + 1, self._bytes + size
        return iv


class Opener(_Keys):
    """Opens what the host sent."""

    def opened(self, read: bytearray) -> Received:
        """The first packet of what was read, which has it whole; takes it out."""
        length = bytes(read[:4])
        size = int.from_bytes(length, "big")
        end = 4 + size + TAG_BYTES
        plain = self._engine.decrypt(self._next_iv(end), bytes(memoryview(read)[4:end]), length)
        del read[:end]
        # How much padding, the kind of message, its content, the padding.
        return plain[1], paramiko.Message(plain[2 : size - plain[0]])


class Sealer(_Keys):
    """Seals what we send."""

    def sealed(self, content: bytes) -> bytes:
        """A packet with this message, and four bytes of padding at least (RFC 4253, 6)."""
        padding = BLOCK_BYTES + 3 - (len(content) + 4) % BLOCK_BYTES
        length = (1 + len(content) + padding).to_bytes(4, "big")
        plain = b"%c%b%b" % (padding, content, os.urandom(padding))
        iv = self._next_iv(len(length) + len(plain) + TAG_BYTES)
        return length + bytes(self._engine.encrypt(iv, plain, length))
