"""The promise of ESXi that a virtual machine waits for nobody."""

from dataclasses import field
from typing import ClassVar

from labkit.setting import Setting
from labkit.settings._machine import OfMachine, of_lines
from labkit.settings._values import word
from labkit.settings.guest_cpu import GuestCpuReservation
from labkit.settings.guest_size import GuestMemoryReservation

LEVELS = ("low", "normal", "medium", "high")


class LatencySensitivity(OfMachine):
    """`high` gives a guest CPUs of its own, and its interrupts no delay.

    ESXi powers such a guest on only with all of its memory reserved (GuestMemoryReservation). It
    has CPUs of its own only with all of its CPU time reserved (GuestCpuReservation). Releases after
    5.5 power it on only with both.
    """

    level: str = field(default="high", metadata=word("latency sensitivity", LEVELS))
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
