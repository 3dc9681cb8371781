"""Disks: in what order and how deep they are asked, how much is read ahead, and what is cached."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from labkit.host import Host
from labkit.setting import Setting, Way, Words, held
from labkit.settings._device import DISK, DISKS
from labkit.settings._fields import amount, name, pattern
from labkit.settings._guest import OfMachine, of_virsh
from labkit.settings._ways import (
    OWN_KERNEL,
    ROOT,
    OnHost,
    by,
    of_choice,
    of_machine,
    on_or_off,
    picked,
    script,
)

PROGRAMS = ("esxcli", "losetup")

DEVICE = ("esxcli", "storage", "core", "device")


class OfDisk(OnHost):
    """A setting of one disk, by its name in /sys/block, or on ESXi by its naa. name.

    On Linux it is about that very disk from the first look on, whatever name that gets.
    """

    disk: str = name("disk", which=True)


def _queue(disk: str, file: str, of: Callable[[str], Way] = of_machine) -> Way:
    real, way = (of(f"/sys/block/{name}/queue/{file}") for name in (disk, DISK))
    return replace(way, probe=real.probe)


def _of_disk(disk: str, file: str) -> Way:
    return DISKS.way(_queue(disk, file), disk)


class DiskScheduler(OfDisk):
    """In what order requests go to a disk: none, mq-deadline, kyber, bfq, as the kernel has."""

    scheduler: str = pattern("scheduler", r"[a-z][a-z0-9-]{1,20}", "mq-deadline")

    def clash(self, setting: Setting) -> str:
        """It brings a queue of its own."""
        if isinstance(setting, DiskQueue) and setting.disk == self.disk:
            return "a new scheduler brings its own queue; set the queue in a block inside its block"
        return ""

    def on_linux(self, host: Host) -> Way:
        """A new one brings its own DiskQueue; with the first scheduler the first queue comes back.

        So the first look is at both; later ones are at the scheduler alone.
        """
        scheduler = _queue(self.disk, "scheduler", of_choice)
        files = (f"/sys/block/{DISK}/queue/{name}" for name in ("nr_requests", "scheduler"))
        reads_both = DISKS.way(replace(scheduler, reads=("cat", *files)), self.disk)
        later, queue = DISKS.way(scheduler, self.disk), _of_disk(self.disk, "nr_requests")
        return replace(reads_both, held=partial(_with_queue, later, queue))


def _with_queue(way: Way, queue: Way, text: str) -> tuple[Way, str]:
    device, requests, scheduler = text.split("\n", 2)
    very, text_now = held(way, f"{device}\n{scheduler}")
    queue_way, _ = held(queue, f"{device}\n")
    first = very.value(text_now)

    def writes(value: str) -> tuple[Words, ...]:
        writes_queue = queue_way.writes(requests) if value == first else ()
        return (*very.writes(value), *writes_queue)

    return replace(very, writes=writes), text_now


class DiskQueue(OfDisk):
    """The number of requests that may wait for a disk; on ESXi, while several machines want it."""

    requests: int = amount("requests", 1, 65_536)
    on_linux = by(lambda s: _of_disk(s.disk, "nr_requests"))

    def on_esxi(self, host: Host) -> Way:
        """The number of requests while several worlds compete for the disk."""
        return Way(
            picked(r"s/^ *No of outstanding IOs with competing worlds: //p",
                   *DEVICE, "list", "-d", self.disk),
            lambda value: ((*DEVICE, "set", f"--sched-num-req-outstanding={value}",
                            f"--device={self.disk}"),),
            needs=ROOT, legal="1 to 256", persists=True, seconds=1,
        )  # fmt: skip


class ReadAhead(OfDisk):
    """KiB read from a disk beyond what was asked for, in whole pages of 4 KiB; 0 for none."""

    kib: int = amount("read-ahead", 0, 2**20, "KiB")
    on_linux = by(lambda s: _of_disk(s.disk, "read_ahead_kb"))


class DirectIo(OfDisk):
    """Whether a disk that is a file (a loop device) goes past the cache of the host's files.

    A workload's own direct I/O is an option of the workload, and in vain above a cached file.
    """

    disk: str = pattern("loop device", r"loop\d{1,4}", "loop0", which=True)
    direct: bool = True
    gaps: ClassVar = {"esxi": "its datastores are not cached in the host's memory"}

    def on_linux(self, host: Host) -> Way:
        """`losetup`; the file's own file system must have it."""
        return DISKS.way(Way(
            ("cat", f"/sys/block/{DISK}/loop/dio"),
            lambda value: (("losetup", f"--direct-io={value}", f"/dev/{DISK}"),),
            lambda text: on_or_off(text.strip() == "1"), needs=ROOT, probe=script(OWN_KERNEL),
        ), self.disk)  # fmt: skip


class GuestDiskLimit(OfMachine):
    """The most that a guest may ask of one of its disks, in requests per second; 0: no limit."""

    disk: str = name("disk of a guest", which=True)
    per_second: int = amount("requests per second", 0, 10_000_000)
    gaps: ClassVar = {
        "box": "its topology says so: a disk of `64M raw 200/s`",
        "esxi": "it is a property of the disk, which vCenter or the host's API sets",
    }

    # Reads and writes together.
    on_kvm = by(lambda s: of_virsh(
        "s/^total_iops_sec *: //p", ("blkdeviotune", s.vm, s.disk),
        lambda value: ("blkdeviotune", s.vm, s.disk, "--live", "--total-iops-sec", value),
    ))  # fmt: skip


class CacheBudget(OnHost):
    """Percentage of memory at which the host starts writing its cache to disk."""

    percent: int = amount("the cache's part", 1, 100, "percent")
    gaps: ClassVar = {"esxi": "it has no cache of files"}
    on_linux = by(
        replace(
            of_machine("/proc/sys/vm/dirty_background_ratio"),
            refuses=lambda text: "it is set in bytes there" if text.strip() == "0" else "",
        )
    )
