"""A guest's disks: "64M", "256M qcow2" or "64M raw 300/s" in a topology, a file of its own each."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BadInput

MOST_DISKS = 8
PLAN = re.compile(r"([1-9]\d{0,5})M(?: (raw|qcow2))?(?: ([1-9]\d{0,5})/s)?", re.ASCII)
CLUSTER, MAGIC = 1 << 16, b"QFI\xfb"
SEEN_BY_HOSTS = "/run/labkit/disks"
"""The storage that all hosts of a box share, where they find the disks of all its guests."""


@dataclass(frozen=True)
class Disk:
    """One disk: `mebibytes` as the guest sees it, which its file grows to at most."""

    mebibytes: int
    format: str = "raw"
    rate: int = 0
    """The most requests a second that QEMU lets it do; 0 for no limit."""

    @classmethod
    def of(cls, text: object, guest: str, accelerator: str) -> Disk:
        """The disk that a topology asks for."""
        match = PLAN.fullmatch(text) if isinstance(text, str) else None
        if not match:
            raise BadInput(f"{guest} cannot have a disk {text!r}",
                           hint='write it as "64M", "64M qcow2" or "64M raw 200/s"')  # fmt: skip
        disk = cls(int(match[1]), match[2] or "raw", int(match[3] or 0))
        if accelerator == "uml" and (disk.rate or disk.format != "raw"):
            limit = "only QEMU has rates and qcow2"
            raise BadInput(f"{guest} cannot have a disk {text!r}: {limit}",
                           hint='accelerator = "qemu"')  # fmt: skip
        return disk

    def __str__(self) -> str:
        return f"{self.mebibytes}M {self.format}" + (f" {self.rate}/s" if self.rate else "")


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
        size = disk.mebibytes << 20
        with open(name, "wb") as out:
            os.fchmod(out.fileno(), 0o600)
            os.fchown(out.fileno(), uid, uid)
            out.write(_qcow2(size) if disk.format == "qcow2" else b"")
            out.truncate(4 * CLUSTER if disk.format == "qcow2" else size)
    os.chown(folder, uid, uid)


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
