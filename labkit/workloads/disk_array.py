"""An array of disks under Iometer's profile: a RAID group, or a pool on the same disks."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.programs.packages import brings
from labkit.workload import Sample, Workload, choice, knob
from labkit.workloads import _pairs
from labkit.workloads._brought import bring, could_bring
from labkit.workloads._sections import parted
from labkit.workloads.fio import jobs_of

PROGRAMS = ("blkid", "dmsetup", "fio", "mdadm", "modprobe")
MODULES = ("raid456", "dm_thin_pool", "dm_delay")

KINDS = ("raid", "pool")
MAKE, LOAD = beside(__file__, "disk_array.sh"), beside(__file__, "disk_array_load.sh")
FIND = f"PATH=$PATH:/usr/sbin:/sbin; {_pairs.FIND}"
KERNEL = beside(__file__, "disk_array_kernel.sh")
LEAST_DISKS = 3
METADATA_MIB = 8
"""The beginning of the array, which a pool has its metadata in; a RAID group leaves it free."""
TAKEN_CODE = 3
"""The script's code for a disk that is not free."""
SEGMENT_SECONDS, MOST_SEGMENTS, MAKE_SECONDS = 2, 8, 300
READS, READ_MS, WRITES, WRITE_MS = 0, 3, 4, 7
"""Columns of the kernel's `stat` of a disk."""
MEMBER = re.compile(r"(\S+) (\S+)", re.ASCII)


@dataclass(frozen=True)
class DiskArray(Workload):
    """4 KiB at random places, 70 % of it read, 64 under way (RAID Groups versus Storage Pools).

    The volume's array is made for each run and taken down after it. `allocated` percent of it are
    filled with data that nothing can compress. A `used` part of each disk is taken, and each
    request of a disk takes `latency` ms longer. The document warmed up for an hour: here segments
    of 2 s are repeated until three in a row are alike.
    """

    roles = ("server",)
    loop = "closed"
    name = "disk_array"
    longest = 0.0
    """None: the array goes with the process that asked for it."""
    measures = ("throughput", "latency", "latency p99", "read latency", "write latency",
                "disk requests per write", "disk requests", "disk time", "warm-up")  # fmt: skip
    programs = ("fio",)
    ours = ("fio",)

    kind: str = choice("raid", KINDS)
    allocated: int = knob(50, 10, 100)
    volume: int = knob(16, 8, 1 << 24)
    """MiB of the volume under load; the document's had 100 GB."""
    used: int = knob(16, 16, 1 << 24)
    """MiB of each disk."""
    latency: int = knob(1, 0, 1000)
    depth: int = knob(64, 1, 1024)
    reads: int = knob(70, 0, 99)
    duration: int = knob(8, 1, 86_400)

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return 20.0 + 4 * (SEGMENT_SECONDS + 1) + self.duration + self.used / 4

    @property
    def scaled(self) -> str:
        """The sizes that are not the document's."""
        return f"a volume of {self.volume} MiB of 100 GB; {self.duration} s are measured"

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Disks that the lab file names, and what makes an array of them."""
        host = hosts["server"]
        if len(host.disks) < LEAST_DISKS:
            return (
                f"the lab file names {len(host.disks)} disks of {host.name}, and {LEAST_DISKS} or "
                'more are needed: disks = "/dev/sdb /dev/sdc /dev/sdd", which hold nothing'
            )
        if self.volume > self._room(host):
            return (
                f"no space: a volume of {self.volume} MiB does not fit into the "
                f"{self._room(host)} MiB that may be allocated on {host.name}"
            )
        missing = host.run("sh", "-c", FIND, "find", *PROGRAMS).stdout.split()
        if missing and not could_bring("arrays", host):
            return f"{missing[0]} is missing on {host.name}: {brings(*PROGRAMS)}"
        if not host.run("sh", "-c", KERNEL, "kernel", *MODULES).ok:
            return f"the kernel of {host.name} lacks one of {', '.join(MODULES)}"
        return ""

    # MiB that may be allocated, as the script counts them.
    def _room(self, host: Host) -> int:
        return int(((len(host.disks) - 1) * (self.used - 2) - METADATA_MIB) * self.allocated / 100)

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Make the array and fill it, wait until the load on it is steady, and measure."""
        host = hosts["server"]
        with self.made(host):
            self.slow_down(host)
            words = (SEGMENT_SECONDS, MOST_SEGMENTS, self.duration, self.depth, self.reads)
            text = host.check("sh", "-c", LOAD, "load", *map(str, words), *host.disks,
                              seconds=120 + 10 * self.seconds)  # fmt: skip
        if disk := _find_lost(text):
            raise HostError(
                f"{host.name}: the array is degraded: it lost {disk} in the middle of the run",
                hint="`dmesg | tail` there says why; another disk, or the same once it is mended",
            )
        return text

    @contextmanager
    def made(self, host: Host, image: str = "") -> Iterator[None]:
        """The array and its volume, filled, on disks of the host that hold nothing.

        The volume holds what a file of the host does, if there is one of that name.
        """
        if host.run("sh", "-c", FIND, "find", *PROGRAMS).stdout:
            bring("arrays", host)
        used = (str(self.used), *host.disks)
        look = host.run("sh", "-c", MAKE, "array", "look", *used, seconds=MAKE_SECONDS)
        if look.code == TAKEN_CODE:
            raise BadInput(f"{host.name}: {look.stdout.strip()}: nothing was written",
                           hint="name disks in the lab file that hold nothing")  # fmt: skip
        if not look.ok:
            raise HostError(f"{host.name}: its disks cannot be looked at", said=look.stderr)
        try:
            make = (self.kind, *map(str, (self.used, self.volume, self.allocated)), image)
            host.check("sh", "-c", MAKE, "array", "make", *make, *host.disks, seconds=MAKE_SECONDS)
            yield
        finally:
            end = host.run("sh", "-c", MAKE, "array", "unmake", *used, seconds=MAKE_SECONDS)
            if not end.ok:
                raise HostError(f"{host.name}: its array is still there", said=end.stderr,
                                hint="the next run takes it down")  # fmt: skip

    def slow_down(self, host: Host) -> None:
        """From now on each request of its disks takes longer; what fills it comes before."""
        words = ("slow", str(self.latency), *host.disks)
        host.check("sh", "-c", MAKE, "array", *words, seconds=MAKE_SECONDS)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Requests a second, how long each took, and what they cost at the disks."""
        parts = parted(text, "warm-up", "disks before", "fio", "disks after", "array")
        if "steady no" in parts["array"]:
            raise ResultsError("disk array: the load never became steady", said=parts["warm-up"])
        job = jobs_of(parts["fio"])[0]
        reads, writes = (_latencies(job[side]) for side in ("read", "write"))
        latencies = np.concatenate((reads, writes))
        rate = job["read"]["iops"] + job["write"]["iops"]
        before, after = (_requests(parts[f"disks {moment}"]) for moment in ("before", "after"))
        disks = [after[name] - row for name, row in before.items()]
        totals = np.array([[disk[READS] + disk[WRITES], disk[READ_MS] + disk[WRITE_MS]]
                           for disk in disks], float)  # fmt: skip
        spread = (("latency", latencies), ("read latency", reads), ("write latency", writes))
        return [
            Sample.single("throughput", "1/s", rate),
            Sample.single("latency p99", "ms", np.percentile(latencies, 99)),
            Sample.single("disk requests per write", "1",
                          (totals[:, 0].sum() - len(reads)) / len(writes)),
            Sample.single("warm-up", "s", SEGMENT_SECONDS * len(parts["warm-up"].split())),
            *(Sample(name, "ms", values) for name, values in spread),
            *(Sample.single(f"{name} [disk={number}]", unit, value)
              for number, (requests, time) in enumerate(totals, 1)
              for name, unit, value in (
                  ("disk requests", "1/s", 1000 * requests / job["job_runtime"]),
                  ("disk time", "ms", time / max(requests, 1)))),
        ]  # fmt: skip


# In ms, from fio's bins of completion times.
def _latencies(side: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    bins = side["clat_ns"].get("bins", {})
    if not bins:
        raise ResultsError("disk array: it read or wrote nothing")
    return np.repeat([int(at) / 1e6 for at in bins], [int(count) for count in bins.values()])


def _requests(text: str) -> dict[str, npt.NDArray[np.int64]]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: np.array([int(word) for word in row[1:]]) for row in rows}


# The members of the array that are not in use any more.
def _find_lost(text: str) -> str:
    lines = parted(text, "array")["array"].splitlines()
    if "degraded 0" in lines:
        return ""
    members = {at[1]: at[2] for line in lines if (at := MEMBER.fullmatch(line))}
    return ", ".join(name for name, state in members.items() if "faulty" in state) or "a disk"
