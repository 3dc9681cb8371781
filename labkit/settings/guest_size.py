"""The make-up of a virtual machine: CPUs, memory, nodes, the way to its disks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Setting, Way
from labkit.settings._esxi import of_vmx
from labkit.settings._libvirt import of_definition, of_virsh, virsh
from labkit.settings._machine import OfMachine
from labkit.settings._ways import one_of, script, whole

MIB = 16 * 2**20
SIZES = """\
s/^ *<memory unit='KiB'>\\([0-9]*\\)<.*/max=\\1/p
s/^ *<currentMemory unit='KiB'>\\([0-9]*\\)<.*/now=\\1/p"""
# A guest that was off stays off, and one that was paused is paused again.
RESTART = beside(__file__, "guest_size_restart.sh")


@dataclass(frozen=True)
class GuestMemoryReservation(OfMachine):
    """Memory that the host keeps for a guest whatever others want, in MiB; it is not swapped."""

    mib: int

    elsewhere: ClassVar = {
        "kvm": "it is in the machine's definition: <memoryBacking><locked/>, by hand"
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("the reservation", self.mib, 0, MIB, "MiB")

    @property
    def wanted(self) -> str:
        """In MiB."""
        return f"{self.mib} MiB"

    def clash(self, other: Setting) -> str:
        """Not more can be reserved than there is."""
        if isinstance(other, GuestMemory) and other.vm == self.vm and other.mib < self.mib:
            return f"{self.vm} does not have that much memory"
        return ""

    def on_esxi(self, host: Host) -> Way:
        """Reserve memory; latency sensitivity and passed-through devices need all the guest's."""
        lines = {"sched.mem.min": str(self.mib), "sched.mem.minSize": str(self.mib),
                 "sched.mem.pin": "TRUE" if self.mib else None}  # fmt: skip
        return of_vmx(self.vm, self.wanted, lines).plus(Details(after=("GuestMemory",)))


@dataclass(frozen=True)
class GuestMemory(OfMachine):
    """The memory of a guest, in MiB."""

    mib: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("memory", self.mib, 4, MIB, "MiB")
        if self.mib % 4:
            raise BadInput(f"memory is a multiple of 4 MiB, not {self.mib}")

    @property
    def wanted(self) -> str:
        """In MiB."""
        return f"{self.mib} MiB"

    def on_kvm(self, host: Host) -> Way:
        """Both the most that it can have and what it gets."""
        vm = self.kept
        way = of_definition(
            SIZES,
            ("dumpxml", vm, "--inactive"), vm, lambda value: _sizes(vm, value),
        )  # fmt: skip
        return replace(way, value=_memory)

    def on_esxi(self, host: Host) -> Way:
        """`memSize`."""
        return of_vmx(self.vm, self.wanted, {"memSize": str(self.mib)})

    def on_box(self, host: Host) -> Way:
        """The guest of that name; a change restarts it."""
        return Way(
            ("guest", f"@{self.vm}", "get", "memory"),
            lambda value: (script(RESTART, self.vm, f"memory={value.replace(' MiB', 'M')}"),),
            lambda text: text.strip().replace("M", " MiB"),
            needs=frozenset({"guest restart"}), legal="64 MiB and more",
            more=Details(seconds=4),
        )  # fmt: skip


@dataclass(frozen=True)
class GuestCpuCount(OfMachine):
    """The number of CPUs of a guest."""

    cpus: int

    elsewhere: ClassVar = {"box": "User-Mode Linux has one"}

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("CPUs of a guest", self.cpus, 1, 768)

    @property
    def wanted(self) -> str:
        """The number."""
        return str(self.cpus)

    def on_kvm(self, host: Host) -> Way:
        """`setvcpus`, up to what the machine is defined for."""
        vm = self.kept
        return of_definition(
            "p", ("vcpucount", vm, "--config", "--current"), vm,
            lambda value: [f"setvcpus {vm} {value} --config"],
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """`numvcpus`."""
        return of_vmx(self.vm, self.wanted, {"numvcpus": str(self.cpus)})


@dataclass(frozen=True)
class GuestNuma(OfMachine):
    """The NUMA node of the host whose memory and, on ESXi, CPUs a guest uses."""

    node: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("the NUMA node", self.node, 0, 63)

    @property
    def wanted(self) -> str:
        """The node's number."""
        return str(self.node)

    def on_kvm(self, host: Host) -> Way:
        """`numatune`, of memory; what an idle guest has does not move at once."""
        way = of_virsh(
            "s/^numa_nodeset *: *//p", ("numatune", self.kept),
            lambda value: (virsh("numatune", self.kept, "--nodeset", value, "--live"),),
        )  # fmt: skip
        return replace(
            way, refuses=lambda text: "" if text.strip()
            else f"{self.vm} was started without a nodeset, and could not have none again",
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """`numa.nodeAffinity`."""
        return of_vmx(self.vm, self.wanted, {"numa.nodeAffinity": str(self.node)})


@dataclass(frozen=True)
class VirtualNuma(OfMachine):
    """The number of a guest's CPUs in each NUMA node that the guest sees."""

    cpus_per_node: int

    elsewhere: ClassVar = {"kvm": "it is in the machine's definition: <cpu><numa>, by hand"}

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("CPUs of a node", self.cpus_per_node, 1, 768)

    @property
    def wanted(self) -> str:
        """The number."""
        return str(self.cpus_per_node)

    def on_esxi(self, host: Host) -> Way:
        """By itself ESXi shows nodes only to guests with more than 8 CPUs."""
        lines = {"numa.vcpu.maxPerVirtualNode": self.wanted, "numa.vcpu.min": self.wanted}
        return of_vmx(self.vm, self.wanted, lines)

    def on_box(self, host: Host) -> Way:
        """A guest of QEMU, by its memory and its tables; a change restarts it."""
        return Way(
            ("guest", f"@{self.vm}", "get", "per_node"),
            lambda value: (script(RESTART, self.vm, f"per_node={value}"),),
            str.strip, needs=frozenset({"guest restart"}), legal="1 and more, or all",
            more=Details(seconds=10),
        )  # fmt: skip


@dataclass(frozen=True)
class GuestDiskController(OfMachine):
    """The controller of a guest's disks: `pvscsi`, made for virtual machines, or an emulated one.

    The guest must own the driver of a controller before its system's disk moves there.
    """

    controller: str = "pvscsi"

    elsewhere: ClassVar = {
        "kvm": "it is in the machine's definition: <target bus='virtio'/>, by hand"
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("controller", self.controller, ("pvscsi", "lsilogic", "lsisas1068", "buslogic"))

    @property
    def wanted(self) -> str:
        """The controller."""
        return self.controller

    def on_esxi(self, host: Host) -> Way:
        """Of the first controller."""
        return of_vmx(self.vm, self.wanted, {"scsi0.virtualDev": self.controller})


# --- between the tools' words and ours --------------------------------------------------------


def _numbers(text: str) -> dict[str, int]:
    return {key: int(n) for key, _, n in (word.partition("=") for word in text.split())}


def _memory(text: str) -> str:
    now = _numbers(text)
    if now["max"] == now["now"] and not now["max"] % 1024:
        return f"{now['max'] // 1024} MiB"
    return f"{now['now']} of {now['max']} KiB"


def _sizes(vm: str, value: str) -> list[str]:
    now, _, most = value.removesuffix(" KiB").partition(" of ")
    if value.endswith(" MiB"):
        now = most = str(int(value.removesuffix(" MiB")) * 1024)
    return [f"setmaxmem {vm} {most} --config", f"setmem {vm} {now} --config"]
