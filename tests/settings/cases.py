"""For each setting and kind of host: values to try, and whether this machine has it at all."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from worlds import GROUP

from labkit.commands._setting import setting_of

PROGRAMS = ("unshare",)

NO_GROUP = "no control group"
CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Case:
    """Settings of one thing; whichever is not in force already is tried.

    `lacks` says independently of the setting whether the machine has no such thing; then the
    setting must be refused, and `says` is what the refusal is about. `lone`: the machine has only
    one value to offer, so it is written over itself. `world`: the host, where it is no plain one
    of its kind.
    """

    kind: str
    settings: tuple
    lacks: bool = False
    says: str = ""
    lone: bool = False
    world: str = ""

    @property
    def name(self):
        return type(self.settings[0]).__name__


def case(kind, text, **more):
    """A case of settings as a user types them."""
    return Case(kind, tuple(map(setting_of, text.split("; "))), **more)


def linux(text, **more):
    return case("linux", text, **more)


def at(*paths):
    return any(Path(path).exists() for path in paths)


def writable(path):
    return at(path) and bool(Path(path).stat().st_mode & 0o200)


def kernel_has(queue):
    """Whether a kind of queue can be made: found out in a namespace that is thrown away."""
    words = ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", *queue.split()]
    return subprocess.run(words, capture_output=True).returncode == 0


V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()


def group_has(controller):
    """Whether a control group at the top has files of that controller."""
    if V2:
        return controller in Path("/sys/fs/cgroup/cgroup.subtree_control").read_text().split()
    return at(f"/sys/fs/cgroup/{controller}")


def an_interrupt():
    """One that has a name and whose CPUs can be chosen: the serial line's, where there is one."""
    text = Path("/proc/interrupts").read_text()
    names = re.findall(r"^ *\d+:.* (ttyS0|[a-z]+\d+-[a-z]+)[.\w]*$", text, re.MULTILINE)
    return "ttyS0" if "ttyS0" in names else [*names, "nothing"][0]


IRQ = an_interrupt()
CPU_COUNT = len(list(CPUS.glob("cpu[0-9]*")))
THREADS = (CPUS / "smt/control").read_text().strip() if at(CPUS / "smt/control") else ""
NETWORK = [
    linux("Mtu(9000)"),
    linux("PacketsAtOnce(1)"),
    linux("Link(10); Link(2.5)"),
    linux("Link(0, 20); Link(100, 5)", lacks=not kernel_has("netem delay 1ms"), says="qdisc"),
    linux("NetIoControl(1000, (Traffic(9000, 100, 200), Traffic(5201, 25, 0, 500)))"),
    linux("Offloads(gro=True, role='server'); Offloads(gro=False, role='server')"),
    linux("NicQueues(None, rx=2); NicQueues(None, rx=1, tx=1)"),
    linux("NicRing(rx=512)", lacks=True, says="not supported"),
    linux("Coalescing(rx_usecs=0)", lacks=True, says="not supported"),
    linux("SocketBuffers('receive', 4096, 100000, 3000000)"),
    linux("SocketBuffers('send', 4096, 20000, 3000000)"),
    linux("CongestionControl('reno'); CongestionControl('cubic')"),
    linux("WindowScaling(False); WindowScaling(True)"),
    linux("Sysctl('net.core.somaxconn', '12345')"),
    linux("Neighbour('busy'); Neighbour('memory', 'all CPUs but the last'); Neighbour()"),
    linux("GuestNeighbour('busy', role='server'); GuestNeighbour(role='server')"),
    linux("Halting(False, role='server'); Halting(role='server')"),
    linux("Sriov(4)", lacks=True, says="sriov_numvfs"),
]
GROUPS = [
    linux(f"GroupCpus('{GROUP}', '0')", lacks=not group_has("cpuset"), says=NO_GROUP),
    linux(f"GroupNuma('{GROUP}', '0')", lacks=not group_has("cpuset"), says=NO_GROUP,
          lone=not at("/sys/devices/system/node/node1")),
    linux(f"GroupCpuLimit('{GROUP}', 1.5); GroupCpuLimit('{GROUP}', 0.25)",
          lacks=not group_has("cpu"), says="no such file"),
    linux(f"GroupCpuShares('{GROUP}', 4096)", lacks=V2 or not group_has("cpu"), says=NO_GROUP),
    linux(f"GroupCpuWeight('{GROUP}', 400)", lacks=not V2 or not group_has("cpu"), says=NO_GROUP),
    linux(f"GroupMemoryLimit('{GROUP}', 64)", lacks=not group_has("memory"), says=NO_GROUP),
    linux(f"GroupMemoryReservation('{GROUP}', 16)", lacks=not V2 or not group_has("memory"),
          says=NO_GROUP),
]  # fmt: skip
KERNEL = [
    linux("TransparentHugePages('always'); TransparentHugePages('never')"),
    linux("HugePages(2); HugePages(3)"),
    linux("PageSharing(True); PageSharing(False)"),
    linux("NumaBalancing(True); NumaBalancing(False)",
          lacks=not at("/proc/sys/kernel/numa_balancing"), says="numa_balancing"),
    linux("HaltPolling(0); HaltPolling(1000)", says="halt_poll_ns",
          lacks=not writable("/sys/module/kvm/parameters/halt_poll_ns")),
    linux("CacheBudget(7); CacheBudget(8)"),
    linux("PowerPolicy('performance'); PowerPolicy('saving')", says="frequency",
          lacks=not list(CPUS.glob("cpufreq/policy*/scaling_governor"))),
    linux("IdleStates(0); IdleStates(1000000)", says="idle states",
          lacks=not list(CPUS.glob("cpu0/cpuidle/state*"))),
    # Taking CPUs away would change the CPU sets of everything on this machine for good.
    linux(f"OnlineCpus('{(CPUS / 'online').read_text().strip()}')", lone=True),
    linux("Turbo(False); Turbo(True)", says="turbo",
          lacks=not at(CPUS / "intel_pstate/no_turbo", CPUS / "cpufreq/boost")),
    linux("HyperThreading(False); HyperThreading(True)", lacks=THREADS not in ("on", "off"),
          says=THREADS or "smt"),
    linux(f"InterruptCpus('{IRQ}', '0'); InterruptCpus('{IRQ}', '{CPU_COUNT - 1}')",
          lacks=IRQ == "nothing", says="no interrupt"),
    linux("ServiceRunning('cron', False); ServiceRunning('cron', True)", says="no systemd",
          lacks=not at("/run/systemd/system")),
    # `test_proxmox.py` tries it on a stand-in.
    linux("ProxmoxDevice(100, 'scsi0', 'aio', 'native')", lacks=True, says="qm"),
    linux("BootOptions(('nohz=off', 'intel_idle.max_cstate=0'))"),
    linux("Passthrough('0000:00:00.0')", says="0000:00:00.0",
          lacks=not at("/sys/bus/pci/devices/0000:00:00.0/iommu_group")),
]  # fmt: skip


def of_folder(folder):
    """Settings of disks and processes that the tests have made."""
    disk = Path(folder, "loop").read_text().strip().removeprefix("/dev/")
    throttled = f"/sys/fs/cgroup/blkio/{GROUP}/blkio.throttle.read_iops_device"
    number = Path(f"/sys/block/{disk}/dev").read_text().strip()
    return [
        linux(f"DiskScheduler('{disk}', 'none'); DiskScheduler('{disk}', 'mq-deadline')"),
        linux(f"DiskQueue('{disk}', 64)"),
        linux(f"ReadAhead('{disk}', 512)"),
        linux(f"DirectIo('{disk}', True)"),
        linux(f"GroupDiskLimit('{GROUP}', '{number}', 100)", lacks=not at(throttled),
              says="throttle"),
        linux("ProcessCpus('labkit-sleeps', '0'); ProcessCpus('labkit-sleeps', '1')"),
    ]  # fmt: skip


def table(kind, text, **more):
    """A case of each line."""
    return [case(kind, line, **more) for line in text.strip().split("\n")]


# Its machine `guest` is off, has one CPU, and its NIC is on labkit-bridge.
KVM = table(
    "kvm",
    """
GuestCpus('lab', '0'); GuestCpus('lab', '1')
EmulatorCpus('lab', '0')
GuestCpuShares('lab', 2048)
GuestCpuLimit('lab', 50); GuestCpuLimit('lab', 12.5)
GuestMemory('idle', 96)
GuestCpuCount('idle', 2)
GuestDiskLimit('lab', 'vda', 100)
MigrationBandwidth('lab', 100)
MigrationDowntime('lab', 500)
GuestNic('direct'); GuestNic('bridge')
GuestNic('direct', 1, False); GuestNic('bridge')
GuestNic('bridge', 128, False)
ExclusiveCpu(owners=('guest',)); ExclusiveCpu(False)
OtherCpus('guest2'); OtherCpus('guest2', False)
Neighbour('busy', 'all CPUs but the last'); Neighbour()
GuestNeighbour('busy', role='server'); GuestNeighbour(role='server')
""",
)
KVM += [case("kvm", "GuestNuma('lab', 0)", lone=True)]
KVM += [case("kvm", "GuestCores('lab')", lacks=True, says="hyper-threads")]
CLUSTER = table("linux", """
FailureDetection(5000)
Heartbeats(9)
Fencing(False); Fencing(True)
GuestProtected('shop')
""", world="cluster")  # fmt: skip
DOCKER = table(
    "docker",
    """
ContainerCpus('lab', '1')
ContainerCpuLimit('lab', 0.5)
ContainerMemory('lab', 32)
ContainerNetwork('free', 'host', ('busy', '/bin/busybox', 'sleep', '1000'))
""",
)
ESXI = table(
    "esxi",
    """
LatencySensitivity('lab')
GuestCpuReservation('lab', 5000, 8000)
GuestMemoryReservation('lab', 4096)
GuestMemory('lab', 8192)
GuestCpuCount('lab', 3)
GuestCpus('lab', '2-3')
GuestCpuShares('lab', 4000)
GuestNuma('lab', 0)
VirtualNuma('lab', 4)
GuestCores('lab', cpus=4); GuestCores('lab', 'threads', 4)
GuestDiskController('lab')
VnicCoalescing('lab'); VnicCoalescing('lab', 'static', 16)
VnicMerging(False)
GuestLargePages(False)
NumaBalancing(False)
PowerPolicy('performance'); PowerPolicy('custom')
IdleStates(10)
IdleStates(1000000)
HyperThreading(False)
KernelOption('hyperthreadingMitigation', False)
ModuleOptions('ixgben', ('max_vfs=8,8', 'InterruptThrottleRate=0,0'))
AdvancedOption('/Net/NetVMTxType', 3)
AdvancedOption('/Net/CoalesceScheme', 'static')
Mtu(9000)
NicRing(rx=4096); NicRing(2048, 1024)
Coalescing(rx_usecs=0, tx_usecs=1, adaptive_rx=True); Coalescing(None, rx_frames=1)
MigrationDowntime('lab', 250)
MigrationStreams('lab', 4)
MigrationThrottle('lab', False)
DiskQueue('naa.600508b1001c', 192)
Passthrough('0000:03:00.0')
MigrationNetwork('vmk1')
MigrationNetwork('vmk0', False); MigrationNetwork('vmk0')
Guest3d('lab', 'hardware'); Guest3d('lab', 'off')
GuestPower('on'); GuestPower('off')
ExclusiveCpu(); ExclusiveCpu(False)
FullReservation(); FullReservation(False)
GuestNic('bridge'); GuestNic('direct')
GuestNic('bridge', 1, False); GuestNic('direct')
""",
)
ESXI += [case("esxi", "OtherCpus('shop')", lone=True)]
