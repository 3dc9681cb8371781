"""A host's backing of memory: large pages, merged pages, pages that follow their CPU."""

from dataclasses import replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Way
from labkit.settings._fields import amount, rule, word
from labkit.settings._ways import OnHost, by, of_choice, of_machine, script, switched
from labkit.settings.esxi import of_advanced

SIZES = {2048: "2 MiB", 1_048_576: "1 GiB"}
TIDY = "test ! -w /proc/sys/vm/compact_memory || echo 1 >/proc/sys/vm/compact_memory"
BOX = {"box": "memory is the machine's"}


def _check_size(kib: object) -> None:
    if kib not in SIZES:
        raise BadInput(f"a huge page has {' or '.join(map(str, SIZES))} KiB, not {kib}")


class HugePages(OnHost):
    """The number of huge pages of `kib` each that the host keeps ready, on one NUMA node or on all.

    The kernel gives as many as it finds in one piece, which may be fewer; then it did not take.
    """

    count: int = amount("huge pages", 0, 2**32)
    kib: int = rule(_check_size, SIZES.__getitem__, default=2048, which=True)
    node: int | None = amount(
        "the NUMA node", 0, 1023, text="node {}".format, default=None, which=True
    )
    gaps: ClassVar = {**BOX, "esxi": "there it is GuestLargePages"}

    def on_linux(self, host: Host) -> Way:
        """Free memory is brought into large pieces before they are asked for."""
        node = "kernel/mm" if self.node is None else f"devices/system/node/node{self.node}"
        way = of_machine(f"/sys/{node}/hugepages/hugepages-{self.kib}kB/nr_hugepages")
        return replace(way, writes=lambda value: (script(TIDY), *way.writes(value)))


class TransparentHugePages(OnHost):
    """Whether the kernel gives huge pages by itself: always, to who asks (madvise), or never."""

    mode: str = word("mode", ("always", "madvise", "never"))
    gaps: ClassVar = HugePages.gaps
    on_linux = by(of_choice("/sys/kernel/mm/transparent_hugepage/enabled"))


class GuestLargePages(OnHost):
    """Whether ESXi backs the memory of guests with large pages, once they touch it."""

    large: bool = True
    gaps: ClassVar = {**BOX, "linux": "there it is HugePages and TransparentHugePages"}
    on_esxi = by(switched(of_advanced("/Mem/AllocGuestLargePage")))


class PageSharing(OnHost):
    """Whether equal pages of guests are kept once: KSM on Linux; off is as they come."""

    sharing: bool = False
    gaps: ClassVar = {"esxi": "AdvancedOption: /Mem/ShareForceSalting"}
    on_linux = by(switched(of_machine("/sys/kernel/mm/ksm/run")))


class NumaBalancing(OnHost):
    """Whether pages follow the CPU that uses them to another NUMA node."""

    balancing: bool = False
    on_linux = by(switched(of_machine("/proc/sys/kernel/numa_balancing")))
    on_esxi = by(switched(of_advanced("/Numa/RebalanceEnable")))


class HaltPolling(OnHost):
    """Nanoseconds that KVM waits awake for work when a guest's CPU has none."""

    ns: int = amount("the time", 0, 10_000_000, "ns")
    gaps: ClassVar = {"box": "KVM has one value for all guests of the machine"}
    # Some kernels let nobody write it.
    on_linux = by(of_machine("/sys/module/kvm/parameters/halt_poll_ns"))
