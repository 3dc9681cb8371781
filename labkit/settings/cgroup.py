"""Resources that a control group of Linux may use: CPUs, CPU time, memory, and a disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way
from labkit.settings._cpu import CpuShares, CpuTime, OnCpus
from labkit.settings._ways import ROOT, OnHost, cpu_list, matching, script, whole

PERIOD = 100_000
MIB = 16 * 2**20
NO_LIMIT = "no limit"
# In version 2 an empty list of CPUs is that of the group above.
INHERITED = "inherited"
# The first of the files that the host has: those of version 2 are in one tree, those of version 1
# in one for each controller.
READ = """\
for file; do [ ! -e "$file" ] || exec cat "$file"; done
echo "no control group with such a file: $*" >&2; exit 1"""
WRITE = """\
text=$1; shift
for file; do [ ! -e "$file" ] || { printf '%s\\n' "$text" | tee "$file" >/dev/null; exit; }; done
echo "no control group with such a file: $*" >&2; exit 1"""
# Version 2 says "QUOTA PERIOD" in one file, version 1 has one for each.
QUOTA = """\
if [ -e "$1/cpu.max" ]; then cat "$1/cpu.max"
else cat "$2/cpu.cfs_quota_us" "$2/cpu.cfs_period_us" | tr '\\n' ' '; fi"""
# The shorter period would be too short for the old quota, so no quota stands in between.
QUOTED = beside(__file__, "cgroup_quoted.sh")
THROTTLE = """\
said=$(cat "$1") || exit
printf '%s\\n' "$said" | sed -n "s/^$2 //p\""""


@dataclass(frozen=True)
class OfGroup(OnHost):
    """A setting of the control group `group`, a path below the root of the groups."""

    group: str

    elsewhere: ClassVar = {
        "esxi": "its resource pools are vCenter's; the settings named Guest... are there"
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        matching("control group", self.group, r"[A-Za-z0-9_][\w.@:-]*(/[A-Za-z0-9_][\w.@:-]*)*",
                 "machine.slice/lab.scope")  # fmt: skip

    @property
    def which(self) -> str:
        """The group."""
        return self.group

    def _file(self, new: str, controller: str = "", old: str = "") -> Way:
        paths = [f"/sys/fs/cgroup/{self.group}/{new}"] if new else []
        paths += [f"/sys/fs/cgroup/{controller}/{self.group}/{old}"] if old else []
        return Way(
            script(READ, *paths),
            lambda value: (script(WRITE, value.replace(INHERITED, ""), *paths),),
            lambda text: text.strip() or INHERITED, needs=ROOT,
        )  # fmt: skip


@dataclass(frozen=True)
class GroupCpus(OnCpus, OfGroup):
    """The CPUs that processes of a control group may run on."""

    def on_linux(self, host: Host) -> Way:
        """`cpuset.cpus`; in version 1 the group must have its memory nodes first."""
        return self._file("cpuset.cpus", "cpuset", "cpuset.cpus").plus(
            Details(after=("GroupNuma",))
        )


@dataclass(frozen=True)
class GroupNuma(OfGroup):
    """The NUMA nodes whose memory processes of a control group may get."""

    nodes: str

    def __post_init__(self) -> None:
        super().__post_init__()
        cpu_list(self.nodes)

    @property
    def wanted(self) -> str:
        """The list of nodes."""
        return cpu_list(self.nodes)

    def on_linux(self, host: Host) -> Way:
        """`cpuset.mems`."""
        return self._file("cpuset.mems", "cpuset", "cpuset.mems")


@dataclass(frozen=True)
class GroupCpuLimit(CpuTime, OfGroup):
    """The most CPU time that a control group gets, in CPUs: 1.5 is one and a half."""

    def on_linux(self, host: Host) -> Way:
        """A quota of each period of 100 ms."""
        groups = (f"/sys/fs/cgroup/{self.group}", f"/sys/fs/cgroup/cpu/{self.group}")
        return Way(
            script(QUOTA, *groups), lambda value: (script(QUOTED, *groups, *_quota(value)),),
            _cpus, needs=ROOT, legal="0.01 CPUs and more",
        )  # fmt: skip


@dataclass(frozen=True)
class GroupCpuShares(CpuShares, OfGroup):
    """A control group's part of a wanted CPU, 2 to 262144; of version 1, where 1024 is usual."""

    def on_linux(self, host: Host) -> Way:
        """`cpu.shares`; version 2 has GroupCpuWeight."""
        return self._file("", "cpu", "cpu.shares")


@dataclass(frozen=True)
class GroupCpuWeight(OfGroup):
    """A control group's part of a wanted CPU, 1 to 10000; of version 2, where 100 is usual."""

    weight: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("CPU weight", self.weight, 1, 10_000)

    @property
    def wanted(self) -> str:
        """The number."""
        return str(self.weight)

    def on_linux(self, host: Host) -> Way:
        """`cpu.weight`; version 1 has GroupCpuShares."""
        return self._file("cpu.weight")


@dataclass(frozen=True)
class GroupMemoryLimit(OfGroup):
    """The most memory that a control group gets, its part of the page cache included, in MiB.

    Below what it uses, the kernel takes memory away, and ends processes when that is not enough.
    """

    mib: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("the limit", self.mib, 1, MIB, "MiB")

    @property
    def wanted(self) -> str:
        """In bytes, as the kernel writes it."""
        return str(self.mib * 2**20)

    def on_linux(self, host: Host) -> Way:
        """`memory.max`, or version 1's `memory.limit_in_bytes`."""
        return self._file("memory.max", "memory", "memory.limit_in_bytes")


@dataclass(frozen=True)
class GroupMemoryReservation(OfGroup):
    """Memory of a control group that the kernel takes away for nobody, in MiB."""

    mib: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("the reservation", self.mib, 0, MIB, "MiB")

    @property
    def wanted(self) -> str:
        """In bytes, as the kernel writes it."""
        return str(self.mib * 2**20)

    def on_linux(self, host: Host) -> Way:
        """`memory.min`; the soft limit of version 1 is no reservation."""
        return self._file("memory.min")


@dataclass(frozen=True)
class GroupDiskLimit(OfGroup):
    """The most that a control group may ask of one disk, `MAJOR:MINOR`, in requests per second.

    Version 1 counts only what does not go through the page cache.
    """

    disk: str
    per_second: int
    write: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        matching("disk", self.disk, r"\d{1,4}:\d{1,7}", "254:0")
        whole("the limit", self.per_second, 1, 2**31, "requests per second")

    @property
    def which(self) -> str:
        """The group, the disk, and which way."""
        return f"{self.group} {self.disk} {self._way}"

    @property
    def _way(self) -> str:
        return "write" if self.write else "read"

    @property
    def wanted(self) -> str:
        """Requests per second."""
        return str(self.per_second)

    def on_linux(self, host: Host) -> Way:
        """`blkio.throttle`; the `io` controller of version 2 is not there yet."""
        path = f"/sys/fs/cgroup/blkio/{self.group}/blkio.throttle.{self._way}_iops_device"
        return Way(
            script(THROTTLE, path, self.disk),
            lambda value: (script(WRITE, f"{self.disk} {value.replace(NO_LIMIT, '0')}", path),),
            lambda text: text.strip() or NO_LIMIT, needs=ROOT,
        )  # fmt: skip


def _cpus(text: str) -> str:
    quota, period = text.split()
    if quota in ("max", "-1"):
        return NO_LIMIT if int(period) == PERIOD else f"{NO_LIMIT} of {period} us"
    return f"{int(quota) / PERIOD:g}" if int(period) == PERIOD else f"{quota} of {period} us"


def _quota(value: str) -> tuple[str, str]:
    quota, _, period = value.removesuffix(" us").partition(" of ")
    if quota == NO_LIMIT:
        return "max", period or str(PERIOD)
    return (quota, period) if period else (f"{float(quota) * PERIOD:.0f}", str(PERIOD))
