"""A host's backing of memory: large pages, merged pages, pages that follow their CPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Way
from labkit.settings._esxi import of_advanced
from labkit.settings._ways import OnHost, of_choice, of_machine, on_or_off, one_of, whole

MODES = ("always", "madvise", "never")
SIZES = {2048: "2 MiB", 1_048_576: "1 GiB"}


@dataclass(frozen=True)
class HugePages(OnHost):
    """The number of huge pages of `kib` each that the host keeps ready, on one NUMA node or on all.

    The kernel gives as many as it finds in one piece, which may be fewer; then it did not take.
    """

    count: int
    kib: int = 2048
    node: int | None = None

    elsewhere: ClassVar = {"box": "memory is the machine's", "esxi": "there it is GuestLargePages"}

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("huge pages", self.count, 0, 2**32)
        if self.kib not in SIZES:
            raise BadInput(f"a huge page has {' or '.join(map(str, SIZES))} KiB, not {self.kib}")
        if self.node is not None:
            whole("the NUMA node", self.node, 0, 1023)

    @property
    def which(self) -> str:
        """Their size, and their node."""
        return SIZES[self.kib] + ("" if self.node is None else f" node {self.node}")

    @property
    def wanted(self) -> str:
        """Their number."""
        return str(self.count)

    def on_linux(self, host: Host) -> Way:
        """`nr_hugepages`; until the host starts again."""
        at = "/sys/kernel/mm" if self.node is None else f"/sys/devices/system/node/node{self.node}"
        return of_machine(f"{at}/hugepages/hugepages-{self.kib}kB/nr_hugepages")


@dataclass(frozen=True)
class TransparentHugePages(OnHost):
    """Whether the kernel gives huge pages by itself: always, to who asks (madvise), or never."""

    mode: str

    elsewhere: ClassVar = {"box": "memory is the machine's", "esxi": "there it is GuestLargePages"}

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("mode", self.mode, MODES)

    @property
    def wanted(self) -> str:
        """The mode."""
        return self.mode

    def on_linux(self, host: Host) -> Way:
        """For memory that is touched afterwards."""
        way = of_choice("/sys/kernel/mm/transparent_hugepage/enabled")
        return replace(way, legal=", ".join(MODES))


@dataclass(frozen=True)
class GuestLargePages(OnHost):
    """Whether ESXi backs the memory of guests with large pages."""

    large: bool = True

    elsewhere: ClassVar = {"linux": "there it is HugePages and TransparentHugePages"}

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.large)

    def on_esxi(self, host: Host) -> Way:
        """/Mem/AllocGuestLargePage, for memory that is touched afterwards."""
        return _switch(of_advanced("/Mem/AllocGuestLargePage"))


@dataclass(frozen=True)
class PageSharing(OnHost):
    """Whether equal pages of guests are kept once: KSM on Linux; off is as they come."""

    sharing: bool = False

    elsewhere: ClassVar = {
        "box": "memory is the machine's",
        "esxi": "AdvancedOption: /Mem/ShareForceSalting",
    }

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.sharing)

    def on_linux(self, host: Host) -> Way:
        """Off leaves what is merged already as it is."""
        return _switch(of_machine("/sys/kernel/mm/ksm/run"))


@dataclass(frozen=True)
class NumaBalancing(OnHost):
    """Whether pages follow the CPU that uses them to another NUMA node."""

    balancing: bool = False

    elsewhere: ClassVar = {"box": "memory is the machine's"}

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.balancing)

    def on_linux(self, host: Host) -> Way:
        """The sysctl kernel.numa_balancing; not in every kernel."""
        return _switch(of_machine("/proc/sys/kernel/numa_balancing"))

    def on_esxi(self, host: Host) -> Way:
        """/Numa/RebalanceEnable."""
        return _switch(of_advanced("/Numa/RebalanceEnable"))


@dataclass(frozen=True)
class HaltPolling(OnHost):
    """Nanoseconds that KVM waits awake for work when a guest's CPU has none."""

    ns: int

    elsewhere: ClassVar = {"box": "its guest is none of KVM's"}

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("the time", self.ns, 0, 10_000_000, "ns")

    @property
    def wanted(self) -> str:
        """In nanoseconds."""
        return str(self.ns)

    def on_linux(self, host: Host) -> Way:
        """A parameter of the module kvm, which some kernels let nobody write."""
        return of_machine("/sys/module/kvm/parameters/halt_poll_ns")


# A switch that reads 1 or 0, and is left alone where it reads anything else.
def _switch(way: Way) -> Way:
    return replace(
        way,
        value=lambda text: {"1": "on", "0": "off"}.get(text.strip(), text.strip()),
        writes=lambda value: way.writes({"on": "1", "off": "0"}.get(value, value)),
        legal="on or off",
    )
