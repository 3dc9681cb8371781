"""The bytes to copy, in blocks: each has a hash, so that what is there already need not be sent."""

from __future__ import annotations

import hashlib
import os
import platform
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from labkit.errors import BadInput
from labkit.files.pipe import CHUNK
from labkit.files.scripts import UNIT

SHORTEST = 1 << 20
LARGEST_PIECE = 256 << 20
# Bits of a byte the other way round: zlib's CRC counts them from the other end than cksum's.
_MIRRORED = bytes(int(f"{n:08b}"[::-1], 2) for n in range(256))


class Cksum:
    """The checksum of POSIX cksum, for hosts that have nothing better."""

    def __init__(self) -> None:
        self._crc, self._size = 0xFFFFFFFF, 0

    def update(self, content: bytes | bytearray | memoryview) -> None:
        """Take some bytes more."""
        self._crc = zlib.crc32(bytes(content).translate(_MIRRORED), self._crc)
        self._size += len(content)

    def hexdigest(self) -> str:
        """In decimal, for that is how cksum prints it."""
        length = self._size.to_bytes(-(-self._size.bit_length() // 8), "little")
        crc = zlib.crc32(length.translate(_MIRRORED), self._crc)
        return str(int(f"{crc:032b}"[::-1], 2))


class Hash(Protocol):
    """A hash that takes its bytes some at a time."""

    def update(self, content: bytes | bytearray | memoryview, /) -> None:
        """Take some bytes more."""

    def hexdigest(self) -> str:
        """The hash of all that it took."""


def hash_of(kind: str) -> Hash:
    """The hash that the host computes too: sha256, or cksum where it has no better."""
    return Cksum() if kind == "cksum" else hashlib.sha256()


def digest(kind: str, content: bytes | bytearray | memoryview) -> str:
    """The hash of some bytes."""
    taken = hash_of(kind)
    taken.update(content)
    return taken.hexdigest()


@dataclass(frozen=True)
class Piece:
    """Bytes of a file that lie side by side: from `start` on, `size` of them."""

    start: int
    size: int

    @property
    def units(self) -> tuple[str, str]:
        """Its start and its length, as dd counts."""
        return str(self.start // UNIT), str(-(-self.size // UNIT))


Read = Callable[[int, int], bytes | memoryview]


@dataclass(frozen=True)
class Blocks:
    """A file of `size` bytes in some 100 blocks, of 1 MiB at least: what is sent again is small."""

    size: int

    @property
    def length(self) -> int:
        """The size of each block, the last one aside."""
        return max(SHORTEST, 1 << (self.size // 100).bit_length())

    @property
    def words(self) -> tuple[str, str]:
        """The lengths of the file and of a block, as dd counts."""
        return str(-(-self.size // UNIT)), str(self.length // UNIT)

    def lacking(self, read: Read, kind: str, theirs: Sequence[str]) -> list[int]:
        """Our blocks that the other side lacks, or has otherwise; `theirs` are its hashes."""
        count = -(-self.size // self.length)
        return [
            number
            for number in range(count)
            if number >= len(theirs)
            or theirs[number] != digest(kind, read(number * self.length, self.length))
        ]

    def total(self, numbers: Sequence[int]) -> int:
        """The bytes that some blocks have together."""
        return sum(min(self.length, self.size - number * self.length) for number in numbers)

    def pieces(self, lacking: Sequence[int], lanes: int) -> list[Piece]:
        """The lacking blocks, joined where they lie side by side, a share for each lane."""
        share = min(max(1, -(-len(lacking) // lanes)), max(1, LARGEST_PIECE // self.length))
        runs: list[list[int]] = []
        for number in lacking:
            if runs and runs[-1][-1] == number - 1 and len(runs[-1]) < share:
                runs[-1].append(number)
            else:
                runs.append([number])
        return [Piece(run[0] * self.length, self.total(run)) for run in runs]


class Source:
    """Bytes in memory, or a local file, read at any place by any thread."""

    def __init__(self, content: bytes | Path) -> None:
        if not isinstance(content, bytes | Path):
            raise BadInput(f"{content!r:.60} cannot be copied", hint="give bytes or a Path")
        self._bytes = content if isinstance(content, bytes) else None
        self._file = -1
        if isinstance(content, Path):
            self._file = _opened(content)
        self.size = len(content) if isinstance(content, bytes) else os.fstat(self._file).st_size
        self.mode = 0o644 if isinstance(content, bytes) else os.fstat(self._file).st_mode & 0o777

    def read(self, start: int, size: int) -> bytes | memoryview:
        """Up to `size` bytes from `start` on."""
        if self._bytes is not None:
            return memoryview(self._bytes)[start : start + size]
        return os.pread(self._file, size, start)

    def chunks(self, piece: Piece) -> Iterator[bytes | memoryview]:
        """The bytes of a piece, some at a time."""
        for start in range(piece.start, piece.start + piece.size, CHUNK):
            yield self.read(start, min(CHUNK, piece.start + piece.size - start))

    @property
    def identity(self) -> str:
        """A text that differs if the content does: nobody can set a file's ctime back."""
        if self._bytes is not None:
            return digest("sha256", self._bytes)
        found = os.fstat(self._file)
        return " ".join(map(str, (
            platform.node(), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns,
            found.st_ctime_ns,
        )))  # fmt: skip

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as refused:
        raise BadInput(f"cannot read {path}", said=str(refused)) from None
    if not path.is_file():
        os.close(file)
        raise BadInput(f"{path} is not a regular file", hint="a folder is copied by put_tree")
    return file
