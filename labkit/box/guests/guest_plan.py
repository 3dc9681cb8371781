"""The plan of a guest: what it is asked to be, and what its accelerator makes of that."""

import re
from dataclasses import dataclass, replace
from typing import Self

from labkit.box.guests.disk import Disk, checked

AUTO, QEMU = "auto", "qemu"
HOST_ROOT = "host"
LEAST_QEMU_MEMORY = 192
"""MiB; its root is in its memory."""
ONLY_QEMU = re.compile(r"qcow2|/s\b|=|iothread")
"""Disks that User-Mode Linux has not; it alone has some that copy on write."""
NICS = {"virtio": "virtio-net-pci", "e1000": "e1000-82545em"}
"""Kinds of data NICs of a guest of QEMU, and what QEMU calls each."""


@dataclass(frozen=True)
class GuestPlan:
    """A virtual machine on the host `on`, with `memory` to see."""

    role: str
    on: str
    memory: str = "128M"
    accelerator: str = AUTO
    vcpus: str = "1"
    disks: tuple[str, ...] = ()
    backing: str = "memory"
    """Of its memory: with `disk` it is a file there, so that its host can take some of it away."""
    wakeups: str = ""
    """Of User-Mode Linux, once it is chosen: kept, or lossy as its kernel has them by itself."""
    nic: str = "virtio"
    """Of QEMU: the kind of its data NIC, paravirtual or an adapter that is emulated."""
    root: str = ""
    """Of QEMU, once it is chosen: `host` where it has its host's files, and stays there."""

    @property
    def kind(self) -> str:
        """The accelerator that is asked for, be it by what only one of them has."""
        if self.accelerator != AUTO:
            return self.accelerator
        if any("cow" in str(disk).split() for disk in self.disks):
            return "uml"
        only = any(ONLY_QEMU.search(str(disk)) for disk in self.disks)
        return QEMU if only or self.vcpus != "1" or self.nic in (*NICS,)[1:] else AUTO

    def run_by(self, accelerator: str) -> Self:
        """The same as this accelerator runs it."""
        if self.kind != AUTO or accelerator in ("", "uml"):
            return replace(self, accelerator=accelerator)
        memory = f"{max(self.mebibytes, LEAST_QEMU_MEMORY)}M"
        return replace(self, accelerator=accelerator, root=HOST_ROOT, memory=memory)

    @property
    def mebibytes(self) -> int:
        """Its memory in MiB."""
        return int(self.memory[:-1])

    @property
    def volumes(self) -> tuple[Disk, ...]:
        """Its disks."""
        return checked(self.role, self.kind, self.disks)
