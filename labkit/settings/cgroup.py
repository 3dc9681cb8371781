"""Resources that a control group of Linux may use: CPUs, CPU time, memory, and a disk."""

from dataclasses import replace
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way
from labkit.settings._fields import CPU_SHARES, amount, cpu_set, pattern, rule, share
from labkit.settings._ways import ROOT, OnHost, by, script

PERIOD = 100_000
MIB = 16 * 2**20
NO_LIMIT = "no limit"
# In version 2 an empty list of CPUs is that of the group above.
OF_PARENT = "inherited"
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
QUOTA_SCRIPT = beside(__file__, "cgroup_quoted.sh")
THROTTLE = """\
said=$(cat "$1") || exit
printf '%s\\n' "$said" | sed -n "s/^$2 //p\""""


def _bytes(mib: int) -> str:
    return str(mib * 2**20)


PATH = r"[A-Za-z0-9_][\w.@:-]*(/[A-Za-z0-9_][\w.@:-]*)*"


class OfGroup(OnHost):
    """A setting of the control group `group`, a path below the root of the groups."""

    group: str = pattern("control group", PATH, "machine.slice/lab.scope", which=True)
    gaps: ClassVar = {
        "esxi": "its resource pools are vCenter's; the settings named Guest... are there",
    }  # fmt: skip


def _of_file(group: str, new: str, controller: str = "", old: str = "") -> Way:
    paths = [f"/sys/fs/cgroup/{group}/{new}"] if new else []
    paths += [f"/sys/fs/cgroup/{controller}/{group}/{old}"] if old else []
    return Way(
        script(READ, *paths),
        lambda value: (script(WRITE, value.replace(OF_PARENT, ""), *paths),),
        lambda text: text.strip() or OF_PARENT, needs=ROOT,
    )  # fmt: skip


class GroupCpus(OfGroup):
    """The CPUs that processes of a control group may run on."""

    cpus: str = cpu_set()
    # In version 1 the group must have its memory nodes first.
    on_linux = by(lambda s: replace(
        _of_file(s.group, "cpuset.cpus", "cpuset", "cpuset.cpus"), after=("GroupNuma",)
    ))  # fmt: skip


class GroupNuma(OfGroup):
    """The NUMA nodes whose memory processes of a control group may get."""

    nodes: str = cpu_set(legal="")
    on_linux = by(lambda s: _of_file(s.group, "cpuset.mems", "cpuset", "cpuset.mems"))


class GroupCpuLimit(OfGroup):
    """The most CPU time that a control group gets, in CPUs: 1.5 is one and a half."""

    cpus: float = share("the limit", 0.01, 4096, "CPUs")

    def on_linux(self, host: Host) -> Way:
        """A quota of each period of 100 ms."""
        groups = (f"/sys/fs/cgroup/{self.group}", f"/sys/fs/cgroup/cpu/{self.group}")
        return Way(
            script(QUOTA, *groups), lambda value: (script(QUOTA_SCRIPT, *groups, *_quota(value)),),
            _cpus, needs=ROOT, legal="0.01 CPUs and more",
        )  # fmt: skip


class GroupCpuShares(OfGroup):
    """A control group's part of a wanted CPU, 2 to 262144; of version 1, where 1024 is usual."""

    shares: int = amount("CPU shares", *CPU_SHARES)
    on_linux = by(lambda s: _of_file(s.group, "", "cpu", "cpu.shares"))


class GroupCpuWeight(OfGroup):
    """A control group's part of a wanted CPU, 1 to 10000; of version 2, where 100 is usual."""

    weight: int = amount("CPU weight", 1, 10_000)
    on_linux = by(lambda s: _of_file(s.group, "cpu.weight"))


class GroupMemoryLimit(OfGroup):
    """The most memory that a control group gets, its part of the page cache included, in MiB.

    Below what it uses, the kernel takes memory away, and ends processes when that is not enough.
    """

    mib: int = amount("the limit", 1, MIB, "MiB", _bytes)
    on_linux = by(lambda s: _of_file(s.group, "memory.max", "memory", "memory.limit_in_bytes"))


class GroupMemoryReservation(OfGroup):
    """Memory of a control group that the kernel takes away for nobody, in MiB; of version 2."""

    mib: int = amount("the reservation", 0, MIB, "MiB", _bytes)
    on_linux = by(lambda s: _of_file(s.group, "memory.min"))


class GroupDiskLimit(OfGroup):
    """The most that a control group may ask of one disk, `MAJOR:MINOR`, in requests per second.

    Version 1 counts only what does not go through the page cache.
    """

    disk: str = pattern("disk", r"\d{1,4}:\d{1,7}", "254:0", which=True)
    per_second: int = amount("the limit", 1, 2**31, "requests per second")
    write: bool = rule(bool, ("read", "write").__getitem__, default=False, which=True)

    def on_linux(self, host: Host) -> Way:
        """`blkio.throttle`; the `io` controller of version 2 is not there yet."""
        way = "write" if self.write else "read"
        path = f"/sys/fs/cgroup/blkio/{self.group}/blkio.throttle.{way}_iops_device"
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
