"""A file that is being written on this machine: beside its place, then in it, never half."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BadInput, CopyFailed, LabkitError

FORGOTTEN_SECONDS = 2 * 86_400.0


@dataclass
class Arrival:
    """The part file of a copy to `to`, the same again for the same `content`."""

    to: Path
    content: str
    size: int
    again: bool = False
    """Whether what is in its place already is ours, and to be looked at before it is replaced."""

    def __enter__(self) -> Arrival:
        check_target(self.to)
        self.part = self.to.parent / f"{_beginning(self.to)}{_short(self.content, 24)}.part"
        _forget_old(self.to)
        fresh = not self.part.exists()
        if self.again and self.to.exists():
            os.replace(self.to, self.part)
        try:
            self._opened()
        except OSError as refused:
            raise cannot_write(self.to, refused) from refused
        except LabkitError:
            if fresh:
                self.drop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.file)

    @property
    def there(self) -> int:
        """The number of bytes that an earlier try left."""
        return os.fstat(self.file).st_size

    def grow(self, size: int) -> None:
        """Give it its final size, so that blocks can come in any order."""
        os.ftruncate(self.file, size)

    def fill(self, content: bytes) -> int:
        """Write all of it at once; how much that is."""
        os.ftruncate(self.file, 0)
        self.write(0, content)
        return len(content)

    def write(self, start: int, content: bytes) -> None:
        """Write some bytes at their place."""
        try:
            left = memoryview(content)
            while left:
                written = os.pwrite(self.file, left, start)
                left, start = left[written:], start + written
        except OSError as refused:
            raise cannot_write(self.to, refused) from refused

    def read(self, start: int, size: int) -> bytes:
        """The bytes that were written at a place."""
        return os.pread(self.file, size, start)

    def commit(self, mode: int) -> None:
        """Everything is there and right: put it in its place."""
        try:
            os.fchmod(self.file, mode)
            os.fsync(self.file)
            check_target(self.to)
            os.replace(self.part, self.to)
            kept(self.to.parent)
        except OSError as refused:
            raise cannot_write(self.to, refused) from refused

    def drop(self) -> None:
        """Nothing is to be kept of it."""
        with suppress(OSError):
            self.part.unlink()

    def _opened(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        self.file = os.open(self.part, flags, 0o600)
        try:
            found = os.fstat(self.file)
            ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
            if not ours or found.st_nlink != 1:
                raise BadInput(
                    f"{self.part} is in the way", hint="labkit did not create it: remove it"
                )
            check_room(self.to.parent, self.size - 512 * found.st_blocks)
        except BaseException:
            os.close(self.file)
            raise


def check_room(folder: Path, size: int) -> None:
    """Refuse what does not fit, before anything of it is written."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise CopyFailed(f"cannot write in {folder}: it needs {size} bytes and {free} are free")


def check_target(to: Path) -> None:
    """Refuse a place that we would have to follow a link to, or that is no file."""
    if to.is_symlink():
        raise BadInput(f"{to} is a link, and links are not followed")
    if to.exists() and not to.is_file():
        raise BadInput(f"{to} is there and is not a regular file", hint="name the file to write")
    if not to.parent.is_dir():
        raise BadInput(f"there is no folder {to.parent}", hint="make it first")


def cannot_write(to: Path, refused: OSError) -> CopyFailed:
    """The system's words for why a local file cannot be written."""
    return CopyFailed(f"cannot write {to}", said=refused.strerror or str(refused))


def kept(folder: Path) -> None:
    """Make a folder's own entries outlast a power cut."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def stage_name(to: Path, content: str) -> str:
    """The folder beside `to` in which a tree is made ready."""
    return f"{_beginning(to)}{_short(content, 24)}"


def _beginning(to: Path) -> str:
    return f".labkit-{_short(to.name, 8)}-"


def _short(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:length]


def _forget_old(to: Path) -> None:
    for left in to.parent.glob(f"{_beginning(to)}*.part"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > FORGOTTEN_SECONDS:
                left.unlink()
