"""A client of RFB (RFC 6143), for a host that has Python: it takes pictures and draws none."""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

ENCODINGS = {"raw": (0,), "zrle": (16, 0), "tight": (7, -254, 0)}
"""Numbers that a client asks for, the best first. None loses a pixel: a server that sends JPEG
mends the picture later, and an update that mends it looks like one that changes it."""
VNC_AUTH = 2
PIXELS = struct.pack("!BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)


def des(key: bytes, data: bytes) -> bytes:
    """Encrypt as VNC does: DES, each byte of the key mirrored; thrice with one key is DES again.

    By the library that Python's own TLS uses: as a word of a command anybody could read the key.
    """
    crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
    for name in ("EVP_CIPHER_CTX_new", "EVP_des_ede3_ecb"):
        getattr(crypto, name).restype = ctypes.c_void_p
    mirror = bytes(int(f"{byte:08b}"[::-1], 2) for byte in key)
    context = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
    out, length = ctypes.create_string_buffer(len(data) + 8), ctypes.c_int()
    cipher = ctypes.c_void_p(crypto.EVP_des_ede3_ecb())
    crypto.EVP_EncryptInit_ex(context, cipher, None, 3 * mirror, None)
    crypto.EVP_EncryptUpdate(context, out, ctypes.byref(length), data, len(data))
    crypto.EVP_CIPHER_CTX_free(context)
    return out.raw[: length.value]


@dataclass
class Screen:
    """A connection to one desktop."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    region: int
    size: tuple[int, int] = (0, 0)
    received: int = 0
    updates: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def reach(cls, desktop: list[Any], encoding: str, region: int) -> Screen:
        """Shake hands, and say how pictures are to come."""
        address, port, password, *_ = desktop
        screen = cls(*await asyncio.open_connection(address, port, limit=1 << 22), region)
        await screen.take(12)
        screen.writer.write(b"RFB 003.008\n")
        kinds = await screen.take((await screen.take(1))[0])
        if VNC_AUTH not in kinds:
            raise ConnectionError(f"the desktop has no password (security types {[*kinds]})")
        screen.writer.write(bytes([VNC_AUTH]))
        screen.writer.write(des(password.encode(), await screen.take(16)))
        if await screen.take(4) != bytes(4):
            raise ConnectionError("the desktop refused the password")
        screen.writer.write(b"\x01")
        width, height = struct.unpack("!HH", await screen.take(4))
        screen.size = width, height
        await screen.take(struct.unpack("!16xI", await screen.take(20))[0])
        numbers = ENCODINGS[encoding]
        screen.writer.write(b"\0\0\0\0" + PIXELS)
        screen.writer.write(struct.pack(f"!BxH{len(numbers)}i", 2, len(numbers), *numbers))
        return screen

    async def take(self, count: int) -> bytes:
        """Read a number of bytes."""
        self.received += count
        return await self.reader.readexactly(count)

    def ask(self, incremental: bool) -> None:
        """Ask for the next update: exactly one request is under way."""
        self.writer.write(struct.pack("!BBHHHH", 3, incremental, 0, 0, *self.size))

    def press(self, keys: Sequence[int]) -> None:
        """Press keys together and let them go."""
        for down, key in [*((1, key) for key in keys), *((0, key) for key in reversed(keys))]:
            self.writer.write(struct.pack("!BBxxI", 4, down, key))

    def point(self, button: int, x: int, y: int) -> None:
        """Move the mouse, with a button held or not."""
        self.writer.write(struct.pack("!BBHH", 5, button, x, y))

    async def listen(self) -> None:
        """Take updates for ever, and ask for the next each time; the first one is no change."""
        self.ask(False)
        await self.update()
        while True:
            self.ask(True)
            if await self.update() >= self.region:
                self.updates += 1
                self.changed.set()

    async def update(self) -> int:
        """One message; the largest rectangle of it in pixels, 0 where it brings no picture."""
        kind = (await self.take(1))[0]
        if kind == 3:
            await self.take(struct.unpack("!3xI", await self.take(7))[0])
        elif kind == 1:
            raise ConnectionError("the desktop sends a palette, which was not asked for")
        if kind:
            return 0
        largest = 0
        for _ in range(struct.unpack("!xH", await self.take(3))[0]):
            *_, width, height, encoding = struct.unpack("!HHHHi", await self.take(12))
            await self._skip(encoding, width, height)
            largest = max(largest, width * height)
        return largest

    async def _skip(self, encoding: int, width: int, height: int) -> None:
        if encoding == 0:
            await self.take(4 * width * height)
        elif encoding == 16:
            await self.take(struct.unpack("!I", await self.take(4))[0])
        elif encoding == 7:
            await self._skip_tight(width, height)
        else:
            raise ConnectionError(f"the desktop sends encoding {encoding}, which was not asked for")

    # Tight: a fill or zlib, the last with a palette or without (rfbproto, 7.7.6).
    async def _skip_tight(self, width: int, height: int) -> None:
        control = (await self.take(1))[0] >> 4
        if control == 8:
            await self.take(3)
            return
        if control > 8:
            raise ConnectionError("the desktop sends JPEG, which was not asked for")
        size, has_filter = 3 * width * height, control & 4
        if has_filter and (await self.take(1))[0] == 1:
            colours = (await self.take(1))[0] + 1
            await self.take(3 * colours)
            size = (width + 7) // 8 * height if colours == 2 else width * height
        await self.take(size if size < 12 else await self._length())

    async def _length(self) -> int:
        length = 0
        for shift in (0, 7, 14):
            byte = (await self.take(1))[0]
            length |= (byte & (0x7F if shift < 14 else 0xFF)) << shift
            if not byte & 0x80:
                break
        return length
