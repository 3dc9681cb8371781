"""The contents of a tree, listed on this machine or by a host that may be hostile."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import BadInput, CopyFailed
from labkit.files.pipe import CHUNK, Pipe

MOST_FILES = 100_000
MOST_BYTES = 64 << 30
LONGEST_PATH = 4000
SMALL_FILE = 8 << 20
"""Larger ones are copied block by block."""
# One command's worth; a small sshd takes no longer command line.
BATCH_FILES, BATCH_BYTES, BATCH_WORDS = 400, 8 << 20, 6000
LONGEST_PART = 4 << 20
_ROW = re.compile(r"([0-9a-f]{1,8}) (\d{1,18}) -?(\d{1,18})")


@dataclass(frozen=True)
class Entry:
    """A file or folder of a tree; `name` begins with `./`, and the tree's own folder is `.`."""

    name: str
    folder: bool
    mode: int
    size: int
    changed: int = 0


@dataclass(frozen=True)
class Listing:
    """All files and folders of a tree, each folder before what it holds."""

    entries: tuple[Entry, ...]
    others: tuple[str, ...] = ()
    """Links, devices and the like."""

    @property
    def folders(self) -> list[Entry]:
        """The folders but the tree's own."""
        return [entry for entry in self.entries if entry.folder and entry.name != "."]

    @property
    def files(self) -> list[Entry]:
        """The files."""
        return [entry for entry in self.entries if not entry.folder]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(entry.size for entry in self.files)

    @property
    def identity(self) -> str:
        """A hash that differs if the tree is another one."""
        rows = [repr((e.name, e.folder, e.mode, e.size, e.changed)) for e in self.entries]
        return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogateescape")).hexdigest()

    def without_others(self, path: str, skip: bool) -> Listing:
        """Refuse links, devices and the like by name, unless they are to be left out."""
        if self.others and not skip:
            shown = ", ".join(self.others[:5])
            more = f" and {len(self.others) - 5} more" if len(self.others) > 5 else ""
            raise BadInput(
                f"{path} holds entries that are neither files nor folders: {shown}{more}",
                hint="links are not followed; skip_others=True leaves these out",
            )
        return self

    def check(self, path: str, most_files: int, most_bytes: int) -> None:
        """Refuse more than is allowed."""
        _enough(path, len(self.entries), most_files)
        if self.size > most_bytes:
            raise CopyFailed(
                f"{path} holds {self.size} bytes, more than {most_bytes}",
                hint="allow more with most_bytes=",
            )


def local(source: Path) -> Listing:
    """List what a folder of this machine holds; an error names what may not be read."""
    entries, others, closed = [_entry(".", os.stat(source))], [], []
    waiting = ["."]
    while waiting:
        folder = waiting.pop()
        try:
            found = sorted(os.scandir(source / folder), key=lambda one: one.name)
        except OSError:
            closed.append(folder)
            continue
        for one in found:
            entry = _entry(f"{folder}/{one.name}", one.stat(follow_symlinks=False))
            if one.is_symlink() or not (one.is_file() or one.is_dir()):
                others.append(entry.name)
                continue
            if not os.access(one.path, os.R_OK):
                closed.append(entry.name)
            entries.append(entry)
            if entry.folder:
                waiting.append(entry.name)
    if closed:
        raise CopyFailed(f"cannot read all of {source}", said="\n".join(sorted(closed)[:3]))
    return Listing(tuple(entries), tuple(sorted(others)))


@dataclass
class Remote:
    """A folder as its host lists it, read bit by bit: nothing that leads out is taken."""

    path: str
    most_files: int
    names: list[str] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    kind: str = ""

    def read(self, pipe: Pipe) -> Listing:
        """The hash that the host offers, then names and facts in turn, each ended by a NUL."""
        facts = False
        for part in _parts(pipe, self.path):
            text = part.decode("utf-8", "surrogateescape")
            if not self.kind:
                self.kind = text
            elif facts:
                self._facts(text.splitlines())
                facts = False
            elif text:
                self.names.append(text)
                _enough(self.path, len(self.entries) + len(self.names), self.most_files)
            else:
                facts = True
        code, said = pipe.ended()
        if code:
            raise CopyFailed(f"cannot read all of {self.path}", said=said)
        if not self.entries:
            raise self._refused("nothing")
        return Listing(tuple(self.entries.values()), tuple(sorted(self.others)))

    def _facts(self, rows: Sequence[str]) -> None:
        if len(rows) != len(self.names):
            raise CopyFailed(f"{self.path} changed while it was listed")
        for name, row in zip(self.names, rows, strict=True):
            found = _ROW.fullmatch(row)
            if not found or name in self.entries or not self._inside(name):
                raise self._refused(name)
            mode, size, changed = int(found[1], 16), int(found[2]), int(found[3])
            folder = stat.S_ISDIR(mode)
            if not folder and not stat.S_ISREG(mode):
                self.others.append(name)
                continue
            size = 0 if folder else size
            self.entries[name] = Entry(name, folder, mode & 0o777, size, 0 if folder else changed)
        self.names = []

    # Its folder has been listed, so that all of them lead to the tree's own.
    def _inside(self, name: str) -> bool:
        if name == ".":
            return not self.entries
        folder, _, last = name.rpartition("/")
        above = self.entries.get(folder)
        plain = last not in ("", ".", "..") and len(os.fsencode(name)) <= LONGEST_PATH
        return bool(above and above.folder and plain)

    def _refused(self, name: str) -> CopyFailed:
        return CopyFailed(
            f"{self.path}: the host lists {name[:200]!r}, which cannot be in it",
            hint="nothing was written; do not trust that host",
        )


def _parts(pipe: Pipe, path: str) -> Iterator[bytes]:
    rest = b""
    while content := pipe.recv(CHUNK):
        *parts, rest = (rest + content).split(b"\0")
        yield from parts
        if len(rest) > LONGEST_PART:
            raise CopyFailed(f"{path}: the host sent an invalid file name")
    if rest:
        pipe.ended()  # if the connection was lost, that is what is wrong
        raise CopyFailed(f"{path}: the host's list has no end")


def _enough(path: str, count: int, most: int) -> None:
    if count > most:
        raise CopyFailed(
            f"{path} holds more than {most} files and folders",
            hint="allow more with most_files=",
        )


def batches(files: Sequence[Entry], alone: bool = False) -> Iterator[list[Entry]]:
    """Files for one command each; `alone` gives each file its own."""
    batch: list[Entry] = []
    size = words = 0
    for entry in files:
        length = len(shlex.quote(entry.name)) + 1
        full = len(batch) == BATCH_FILES or size + entry.size > BATCH_BYTES
        if batch and (alone or full or words + length > BATCH_WORDS):
            yield batch
            batch, size, words = [], 0, 0
        batch.append(entry)
        size, words = size + entry.size, words + length
    if batch:
        yield batch


def _entry(name: str, found: os.stat_result) -> Entry:
    folder = stat.S_ISDIR(found.st_mode)
    changed = found.st_ctime_ns if not folder else 0
    size = 0 if folder else found.st_size
    return Entry(name, folder, found.st_mode & 0o777, size, changed)
