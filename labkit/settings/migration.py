"""Moving a running guest to another host: how fast, on how many streams, with how long a stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from labkit.errors import Impossible
from labkit.host import Host
from labkit.setting import Details, Setting, Way
from labkit.settings._esxi import of_advanced
from labkit.settings._libvirt import of_capability, of_parameter, of_virsh, virsh
from labkit.settings._machine import OfMachine
from labkit.settings._ways import ROOT, OnHost, matching, on_or_off, picked, whole

PROGRAMS = ("esxcli",)

MIB = 2**20
TAG = ("esxcli", "network", "ip", "interface", "tag")


@dataclass(frozen=True)
class MigrationBandwidth(OfMachine):
    """The most that moving a guest may take of the network, in MiB per second.

    QEMU by itself starts with 128, which a fast link outruns.
    """

    mib_per_second: int

    elsewhere: ClassVar = {"esxi": "vMotion takes the line's rate; NetIOC of vCenter limits it"}

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("bandwidth of a migration", self.mib_per_second, 1, 1_000_000, "MiB/s")

    @property
    def wanted(self) -> str:
        """In MiB per second."""
        return str(self.mib_per_second)

    def on_kvm(self, host: Host) -> Way:
        """libvirt counts MiB/s; QEMU counts bytes, and would take -1 without a word."""
        if not self.plain:
            return of_virsh(
                "p", ("migrate-getspeed", self.vm),
                lambda value: (virsh("migrate-setspeed", self.vm, value),),
            )  # fmt: skip
        way = of_parameter(self.vm, "max-bandwidth")
        return replace(
            way,
            value=lambda text: f"{int(text) / MIB:.17g}",
            writes=lambda value: way.writes(f"{float(value) * MIB:.0f}"),
        )


@dataclass(frozen=True)
class MigrationDowntime(OfMachine):
    """Milliseconds that a guest may stand still when it changes hosts; a goal, not a promise."""

    ms: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("downtime", self.ms, 1, 2_000_000, "ms")

    @property
    def wanted(self) -> str:
        """In milliseconds."""
        return str(self.ms)

    def on_kvm(self, host: Host) -> Way:
        """QEMU goes over when what is left fits into that time."""
        if self.plain:
            return of_parameter(self.vm, "downtime-limit")
        return of_virsh(
            "p", ("migrate-getmaxdowntime", self.vm),
            lambda value: (virsh("migrate-setmaxdowntime", self.vm, value),),
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """An option of the host, for all of its machines."""
        legal = "100 to 100000 ms"
        return replace(
            of_advanced("/Migrate/PreCopySwitchoverTimeGoal"), legal=legal,
            refuses=lambda text: "" if 100 <= self.ms <= 100_000 else legal,
        )  # fmt: skip


@dataclass(frozen=True)
class MigrationNetwork(OnHost):
    """Whether a vmkernel interface carries vMotion; several that do share the work.

    Both hosts need one, and each of several its own physical NIC in one subnet.
    """

    interface: str
    carries: bool = True

    elsewhere: ClassVar = {"kvm": "virsh takes an address with each migration: --migrateuri"}

    def __post_init__(self) -> None:
        super().__post_init__()
        matching("vmkernel interface", self.interface, r"vmk\d{1,3}", "vmk1")

    @property
    def which(self) -> str:
        """The interface."""
        return self.interface

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.carries)

    def on_esxi(self, host: Host) -> Way:
        """The interface's tag VMotion."""
        return Way(
            picked(r"s/^ *Tags: *//p", *TAG, "get", "-i", self.interface),
            lambda value: ((*TAG, "add" if value == "on" else "remove",
                            "-i", self.interface, "-t", "VMotion"),),
            lambda text: on_or_off("VMotion" in text.replace(",", " ").split()),
            needs=ROOT, legal="on or off",
            more=Details(persists=True, seconds=1),
        )  # fmt: skip


@dataclass(frozen=True)
class MigrationStreams(OfMachine):
    """The number of connections that carry a moving guest's memory; on ESXi, 0 lets it choose."""

    streams: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("streams of a migration", self.streams, 0, 255)

    @property
    def wanted(self) -> str:
        """The number."""
        return str(self.streams)

    def clash(self, other: Setting) -> str:
        """Several streams, and yet only one."""
        off = isinstance(other, MigrationParallel) and not other.parallel and other.vm == self.vm
        return "memory goes on one stream only" if off and self.streams > 1 else ""

    def on_kvm(self, host: Host) -> Way:
        """Channels of QEMU's multifd, the same on both hosts; libvirt takes them with each move."""
        way = of_parameter(_plain(self, "--parallel-connections"), "multifd-channels")
        return replace(way, legal="1 to 255").plus(Details(after=("MigrationParallel",)))

    def on_esxi(self, host: Host) -> Way:
        """An option of the host; since 7.0 U2 its default 0 adapts to the link."""
        return replace(
            of_advanced("/Migrate/VMotionStreamHelpers"),
            legal="0 to 112, in older releases 0 to 32",
        )


@dataclass(frozen=True)
class MigrationParallel(OfMachine):
    """Whether QEMU moves memory on several streams at all; both hosts need the same."""

    parallel: bool = True

    elsewhere: ClassVar = {"esxi": "vMotion always does"}

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.parallel)

    def on_kvm(self, host: Host) -> Way:
        """The ability `multifd`, by the machine's socket."""
        return of_capability(_plain(self, "--parallel"), "multifd")


@dataclass(frozen=True)
class MigrationThrottle(OfMachine):
    """Whether a guest that writes faster than it can be moved is slowed down until it can."""

    throttle: bool = True

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.throttle)

    def on_kvm(self, host: Host) -> Way:
        """The ability `auto-converge`, by the machine's socket."""
        return of_capability(_plain(self, "--auto-converge"), "auto-converge")

    def on_esxi(self, host: Host) -> Way:
        """Stun During Page Send, an option of the host: 2 is on when needed, 0 is off."""
        way = of_advanced("/Migrate/SdpsEnabled")
        return replace(
            way,
            value=lambda text: {"0": "off", "2": "on"}.get(text.strip(), text.strip()),
            writes=lambda value: way.writes({"off": "0", "on": "2"}.get(value, value)),
        )


# What is an option of one `virsh migrate` cannot be set beforehand.
def _plain(setting: OfMachine, option: str) -> str:
    if not setting.plain:
        raise Impossible(
            f"libvirt takes this for {setting.vm} with each migration, not before",
            hint=f"virsh migrate {option}",
        )
    return setting.vm
