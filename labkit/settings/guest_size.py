"""The make-up of a virtual machine: CPUs, memory, nodes, disks, graphics, and its promises."""

from dataclasses import replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Setting, Way
from labkit.settings._fields import amount, word
from labkit.settings._guest import OfMachine, numbers, of_definition, of_lines, of_option
from labkit.settings._ways import by, script
from labkit.settings.esxi import of_vmx
from labkit.settings.guest_cpu import GuestCpuReservation

MIB = 16 * 2**20
SIZES = """\
s/^ *<memory unit='KiB'>\\([0-9]*\\)<.*/max=\\1/p
s/^ *<currentMemory unit='KiB'>\\([0-9]*\\)<.*/now=\\1/p"""
# A guest that was off stays off, and one that was paused is paused again.
RESTART = beside(__file__, "guest_size_restart.sh")
BY_RESTART = frozenset({"guest restart"})
CONTROLLERS = ("pvscsi", "lsilogic", "lsisas1068", "buslogic")
LEVELS = ("low", "normal", "medium", "high")
RENDERERS = ("off", "software", "hardware", "automatic")


class GuestMemoryReservation(OfMachine):
    """Memory that the host keeps for a guest whatever others want, in MiB; it is not swapped."""

    mib: int = amount("the reservation", 0, MIB, "MiB", "{} MiB".format)
    gaps: ClassVar = {
        "box": "MemoryLock keeps all memory of a guest",
        "kvm": "it is in the machine's definition: <memoryBacking><locked/>, by hand",
    }

    def clash(self, setting: Setting) -> str:
        """Not more can be reserved than there is."""
        if isinstance(setting, GuestMemory) and setting.vm == self.vm and setting.mib < self.mib:
            return f"{self.vm} does not have that much memory"
        return ""

    def on_esxi(self, host: Host) -> Way:
        """Reserve memory; latency sensitivity and passed-through devices need all the guest's."""
        lines = {"sched.mem.min": str(self.mib), "sched.mem.minSize": str(self.mib),
                 "sched.mem.pin": "TRUE" if self.mib else None}  # fmt: skip
        return of_vmx(self.vm, self.wanted, lines, after=("GuestMemory",))


class GuestMemory(OfMachine):
    """The memory of a guest, in MiB."""

    mib: int = amount("memory", 4, MIB, "MiB", "{} MiB".format)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mib % 4:
            raise BadInput(f"memory is a multiple of 4 MiB, not {self.mib}")

    def on_kvm(self, host: Host) -> Way:
        """Both the most that it can have and what it gets."""
        vm, shows = self.vm, ("dumpxml", self.vm, "--inactive")
        return replace(of_definition(SIZES, shows, vm, lambda n: _sizes(vm, n)), value=_memory)

    on_esxi = by(lambda s: of_vmx(s.vm, s.wanted, {"memSize": str(s.mib)}))

    def on_box(self, host: Host) -> Way:
        """The guest of that name; a change restarts it."""
        return Way(
            ("guest", f"@{self.vm}", "get", "memory"),
            lambda value: (script(RESTART, self.vm, f"memory={value.replace(' MiB', 'M')}"),),
            lambda text: text.strip().replace("M", " MiB"),
            needs=BY_RESTART, legal="64 MiB and more", seconds=4,
        )  # fmt: skip


class GuestCpuCount(OfMachine):
    """The number of CPUs of a guest; on KVM, up to what the machine is defined for."""

    cpus: int = amount("CPUs of a guest", 1, 768)
    gaps: ClassVar = {"box": "its topology says how many: vcpus"}
    on_kvm = by(
        lambda s: of_definition(
            "p", ("vcpucount", s.vm, "--config", "--current"), s.vm,
            lambda value: [f"setvcpus {s.vm} {value} --config"],
        )
    )  # fmt: skip
    on_esxi = of_lines("numvcpus")


class GuestNuma(OfMachine):
    """The NUMA node of the host whose memory and, on ESXi, CPUs a guest uses."""

    node: int = amount("the NUMA node", 0, 63)
    gaps: ClassVar = {"box": "its topology places a guest's host on CPUs, and so on nodes"}

    def on_kvm(self, host: Host) -> Way:
        """`numatune`, of memory; what an idle guest has does not move at once."""
        script = "s/^numa_nodeset *: *//p"
        way = of_option(script, "numatune", "--nodeset", "{}", "--live")(self, host)
        reason = f"{self.vm} was started without a nodeset, and could not have none again"
        return replace(way, refuses=lambda text: "" if text.strip() else reason)

    on_esxi = of_lines("numa.nodeAffinity")


class VirtualNuma(OfMachine):
    """The number of a guest's CPUs in each NUMA node that the guest sees.

    By itself ESXi shows nodes only to guests with more than 8 CPUs.
    """

    cpus_per_node: int = amount("CPUs of a node", 1, 768)
    gaps: ClassVar = {"kvm": "it is in the machine's definition: <cpu><numa>, by hand"}
    on_esxi = of_lines("numa.vcpu.maxPerVirtualNode", "numa.vcpu.min")

    def on_box(self, host: Host) -> Way:
        """A guest of QEMU, by its memory and its tables; a change restarts it."""
        return Way(
            ("guest", f"@{self.vm}", "get", "per_node"),
            lambda value: (script(RESTART, self.vm, f"per_node={value}"),),
            needs=BY_RESTART, legal="1 and more, or all", seconds=10,
        )  # fmt: skip


class GuestDiskController(OfMachine):
    """The controller of a guest's disks: `pvscsi`, made for virtual machines, or an emulated one.

    The guest must own the driver of a controller before its system's disk moves there.
    """

    controller: str = word("controller", CONTROLLERS, default="pvscsi")
    gaps: ClassVar = {
        "box": "disks of its guests have the controller of what runs the guest",
        "kvm": "it is in the machine's definition: <target bus='virtio'/>, by hand",
    }
    on_esxi = of_lines("scsi0.virtualDev")


class LatencySensitivity(OfMachine):
    """`high` gives a guest CPUs of its own, and its interrupts no delay.

    ESXi powers such a guest on only with all of its memory reserved (GuestMemoryReservation). It
    has CPUs of its own only with all of its CPU time reserved (GuestCpuReservation). Releases after
    5.5 power it on only with both.
    """

    level: str = word("latency sensitivity", LEVELS, default="high")
    gaps: ClassVar = {
        "kvm": "there it is many: GuestCpus, EmulatorCpus, IdleStates, HaltPolling, InterruptCpus",
        "box": "there it is ExclusiveCpu and GuestNic",
        "linux": "there it is many: ProcessCpus, IdleStates, InterruptCpus, Coalescing",
    }  # fmt: skip

    def clash(self, setting: Setting) -> str:
        """A guest that waits for nobody has all that it wants, reserved and without a limit."""
        if self.level != "high" or getattr(setting, "vm", "") != self.vm:
            return ""
        if isinstance(setting, GuestCpuReservation) and (setting.limit_mhz or not setting.mhz):
            return "it must have its CPU time reserved, and no limit"
        if isinstance(setting, GuestMemoryReservation) and not setting.mib:
            return "it must have its memory reserved"
        return ""

    # A key that is absent means normal.
    on_esxi = of_lines(
        "sched.cpu.latencySensitivity",
        after=("GuestMemory", "GuestMemoryReservation", "GuestCpuReservation"),
    )


class Guest3d(OfMachine):
    """`software` draws on the host's CPUs, `hardware` on its graphics card, `off` not at all.

    `automatic` takes a card where there is one; a guest on it cannot move to a host without.
    """

    renderer: str = word("renderer", RENDERERS, default="software")
    gaps: ClassVar = {
        "box": "its guests have no screen",
        "kvm": "it is in the definition: <acceleration accel3d>, by hand",
    }

    def on_esxi(self, host: Host) -> Way:
        """`mks.enable3d` and `mks.use3dRenderer`."""
        on = self.renderer != "off"
        lines = {"mks.enable3d": "TRUE" if on else "FALSE",
                 "mks.use3dRenderer": self.renderer if on else None}  # fmt: skip
        return of_vmx(self.vm, self.wanted, lines)


# --- between the tools' words and ours --------------------------------------------------------


def _memory(text: str) -> str:
    sizes = numbers(text)
    if sizes["max"] == sizes["now"] and not sizes["max"] % 1024:
        return f"{sizes['max'] // 1024} MiB"
    return f"{sizes['now']} of {sizes['max']} KiB"


def _sizes(vm: str, value: str) -> list[str]:
    current, _, limit = value.removesuffix(" KiB").partition(" of ")
    if value.endswith(" MiB"):
        current = limit = str(int(value.removesuffix(" MiB")) * 1024)
    return [f"setmaxmem {vm} {limit} --config", f"setmem {vm} {current} --config"]
