"""The promise of ESXi that a virtual machine waits for nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.host import Host
from labkit.setting import Details, Setting, Way
from labkit.settings._esxi import of_vmx
from labkit.settings._machine import OfMachine
from labkit.settings._ways import one_of
from labkit.settings.guest_cpu import GuestCpuReservation
from labkit.settings.guest_size import GuestMemoryReservation


@dataclass(frozen=True)
class LatencySensitivity(OfMachine):
    """`high` gives a guest CPUs of its own, and its interrupts no delay.

    ESXi powers such a guest on only with all of its memory reserved (GuestMemoryReservation). It
    has CPUs of its own only with all of its CPU time reserved (GuestCpuReservation). Releases after
    5.5 power it on only with both.
    """

    level: str = "high"

    elsewhere: ClassVar = {
        "kvm": "there it is many: GuestCpus, EmulatorCpus, IdleStates, HaltPolling, InterruptCpus",
        "box": "there it is ExclusiveCpu and GuestNic",
        "linux": "there it is many: ProcessCpus, IdleStates, InterruptCpus, Coalescing",
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("latency sensitivity", self.level, ("low", "normal", "medium", "high"))

    @property
    def wanted(self) -> str:
        """The level."""
        return self.level

    def clash(self, other: Setting) -> str:
        """A guest that waits for nobody has all that it wants, reserved and without a limit."""
        if self.level != "high" or getattr(other, "vm", "") != self.vm:
            return ""
        if isinstance(other, GuestCpuReservation) and (other.limit_mhz or not other.mhz):
            return "it must have its CPU time reserved, and no limit"
        if isinstance(other, GuestMemoryReservation) and not other.mib:
            return "it must have its memory reserved"
        return ""

    def on_esxi(self, host: Host) -> Way:
        """`sched.cpu.latencySensitivity`; a key that is absent means normal."""
        way = of_vmx(self.vm, self.wanted, {"sched.cpu.latencySensitivity": self.level})
        return way.plus(
            Details(after=("GuestMemory", "GuestMemoryReservation", "GuestCpuReservation"))
        )
