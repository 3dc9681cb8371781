"""A guest's disks: "64M", "256M qcow2" or "64M raw 300/s" in a topology, a file of its own each.

"64M raw cache=none aio=native iothread" says how QEMU does what the guest asks of it.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BadInput

MOST_DISKS = 8
FORMATS = {"uml": ("raw", "cow"), "qemu": ("raw", "qcow2")}
"""QEMU makes no difference between its accelerators here."""
CACHES = "writeback|none|writethrough|directsync|unsafe"
PLAN = re.compile(
    r"([1-9]\d{0,5})M(?: (raw|qcow2|cow))?(?: ([1-9]\d{0,5})/s)?"
    rf"(?: cache=({CACHES}))?(?: aio=(threads|native|io_uring))?(?: (iothread))?",
    re.ASCII,
)
CLUSTER, MAGIC = 1 << 16, b"QFI\xfb"
SECTOR, PAGE, BASE = 512, 4096, ".base"
SEEN_BY_HOSTS = "/run/labkit/disks"
"""The storage that all hosts of a box share, where they find the disks of all its guests."""


@dataclass(frozen=True)
class Disk:
    """One disk: `mebibytes` as the guest sees it, which its file grows to at most."""

    mebibytes: int
    format: str = "raw"
    rate: int = 0
    """The most requests a second that QEMU lets it do; 0 for no limit."""
    cache: str = ""
    """Use of the machine's page cache and of flushes; empty for QEMU's default."""
    aio: str = ""
    """Threads of QEMU, or the kernel's calls, that do requests; empty for QEMU's default."""
    iothread: str = ""
    """The word itself for a disk with a thread of its own; else empty."""

    @classmethod
    def of(cls, text: object, guest: str, accelerator: str) -> Disk:
        """The disk that a topology asks for."""
        kinds = FORMATS["uml" if accelerator == "uml" else "qemu"]
        match = PLAN.fullmatch(text) if isinstance(text, str) else None
        if not match or (match[2] or "raw") not in kinds:
            words = " and ".join(kinds)
            raise BadInput(
                f"{guest} cannot have a disk {text!r}",
                hint=f'write it as "64M" or "64M {kinds[1]}"; a guest of {accelerator} has {words}',
            )
        if any(match.groups()[2:]) and accelerator == "uml":
            limit = "only QEMU has rates, caches, aio and iothreads of disks"
            raise BadInput(f"{guest} cannot have a disk {text!r}: {limit}",
                           hint='accelerator = "qemu"')  # fmt: skip
        if match[5] == "native" and match[4] not in ("none", "directsync"):
            raise BadInput(f"{guest} cannot have a disk {text!r}: aio=native goes past the cache",
                           hint="cache=none aio=native")  # fmt: skip
        options = [word or "" for word in match.groups()[3:]]
        return cls(int(match[1]), match[2] or "raw", int(match[3] or 0), *options)

    def __str__(self) -> str:
        options = {f"{self.rate}/s": self.rate, f"cache={self.cache}": self.cache,
                   f"aio={self.aio}": self.aio, "iothread": self.iothread}  # fmt: skip
        return " ".join(
            [f"{self.mebibytes}M {self.format}", *(text for text in options if options[text])]
        )

    @property
    def drive(self) -> str:
        """Options of QEMU's drive, with QEMU's own where nothing is asked."""
        return f"cache={self.cache or 'writeback'},aio={self.aio or 'threads'}"

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.mebibytes << 20


def checked(guest: str, accelerator: str, texts: Iterable[object]) -> tuple[Disk, ...]:
    """All disks of a guest, or a refusal."""
    disks = tuple(Disk.of(text, guest, accelerator) for text in texts)
    if len(disks) > MOST_DISKS:
        raise BadInput(f"{guest} has {len(disks)} disks", hint=f"a guest has up to {MOST_DISKS}")
    return disks


def device(number: int, accelerator: str) -> str:
    """The guest's name for its disk `number`, counted from 0."""
    return f"{'ubd' if accelerator == 'uml' else 'vd'}{'abcdefgh'[number]}"


def files(folder: str, disks: Iterable[Disk], accelerator: str) -> Iterator[tuple[str, Disk]]:
    """The file that takes what the guest writes, for each disk."""
    for number, disk in enumerate(disks):
        yield f"{folder}/{device(number, accelerator)}.{disk.format}", disk


def make(folder: Path, disks: Iterable[Disk], accelerator: str, uid: int) -> None:
    """Make the files of a guest, empty and its own; none takes room before it is written to."""
    folder.mkdir(0o700)
    for name, disk in files(str(folder), disks, accelerator):
        file, size = Path(name), disk.bytes
        if disk.format == "cow":
            base = file.with_suffix(BASE)
            _write(base, b"", size, uid)
            place = f"{SEEN_BY_HOSTS}/{folder.name}/{base.name}"
            _write(file, *_copy_on_write(place, int(base.stat().st_mtime), size), uid)
        elif disk.format == "qcow2":
            _write(file, _qcow2(size), 4 * CLUSTER, uid)
        else:
            _write(file, b"", size, uid)
    os.chown(folder, uid, uid)


def _write(file: Path, head: bytes, size: int, uid: int) -> None:
    with file.open("wb") as out:
        os.fchmod(out.fileno(), 0o600)
        os.fchown(out.fileno(), uid, uid)
        out.write(head)
        out.truncate(size)


# Version 3, as arch/um/drivers/cow_user.c of Linux reads it: the header, then a bit for each
# sector that is here and no longer in the base, then the sectors.
def _copy_on_write(base: str, mtime: int, size: int) -> tuple[bytes, int]:
    header = struct.pack(
        ">4sIIQIII4096s", b"OOOM", 3, mtime & 0xFFFFFFFF, size, SECTOR, PAGE, 0, base.encode()
    )
    bits = -(-len(header) // PAGE) * PAGE
    sectors = -(-(bits + -(-size // (8 * SECTOR))) // PAGE) * PAGE
    return header, sectors + size


# Version 3, as docs/interop/qcow2.txt of QEMU has it: four clusters, for the header, the table of
# reference counts, their first block, and the first level of addresses, which are all still empty.
def _qcow2(size: int) -> bytes:
    reach = CLUSTER // 8 * CLUSTER
    entries = -(-size // reach)
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        MAGIC, 3, 0, 0, 16, size, 0, entries, 3 * CLUSTER, CLUSTER, 1, 0, 0, 0, 0, 0, 4, 104,
    )  # fmt: skip
    tables = (header, struct.pack(">Q", 2 * CLUSTER), struct.pack(">4H", 1, 1, 1, 1))
    return b"".join(table.ljust(CLUSTER, b"\0") for table in tables)
