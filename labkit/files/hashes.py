"""The hashes that both sides of a copy can compute: SHA-256, or cksum on a host without it."""

import hashlib
import zlib

# Bits of a byte the other way round: zlib's CRC counts them from the other end than cksum's.
_MIRROR = bytes(int(f"{n:08b}"[::-1], 2) for n in range(256))


class Hashes:
    """Both hashes of some bytes, which come some at a time."""

    def __init__(self) -> None:
        self._sha256, self._crc, self.size = hashlib.sha256(), 0xFFFFFFFF, 0

    def update(self, content: bytes) -> None:
        """Take some bytes more."""
        self._sha256.update(content)
        self._crc = zlib.crc32(content.translate(_MIRROR), self._crc)
        self.size += len(content)

    @property
    def sha256(self) -> str:
        """SHA-256 in hexadecimal."""
        return self._sha256.hexdigest()

    @property
    def cksum(self) -> str:
        """The checksum of POSIX cksum, in decimal as that prints it."""
        length = self.size.to_bytes(-(-self.size.bit_length() // 8), "little")
        crc = zlib.crc32(length.translate(_MIRROR), self._crc)
        return str(int(f"{crc:032b}"[::-1], 2))
