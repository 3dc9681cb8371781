"""Moving a running guest to another host: how fast, on how many streams, with how long a stop."""

from dataclasses import field, replace
from typing import ClassVar

from labkit.errors import Impossible
from labkit.host import Host
from labkit.setting import Details, Setting, Way
from labkit.settings._esxi import of_advanced
from labkit.settings._libvirt import of_capability, of_parameter, of_virsh, virsh
from labkit.settings._machine import OfMachine
from labkit.settings._values import NAMING, amount, pattern
from labkit.settings._ways import ROOT, OnHost, by, on_or_off, picked, switched

PROGRAMS = ("esxcli",)

MIB = 2**20
WITH_EACH = {"box": "`box.migrate` takes it with each move"}
TAG = ("esxcli", "network", "ip", "interface", "tag")


class MigrationBandwidth(OfMachine):
    """The most that moving a guest may take of the network, in MiB per second.

    QEMU by itself starts with 128, which a fast link outruns.
    """

    mib_per_second: int = field(metadata=amount("bandwidth of a migration", 1, 1_000_000, "MiB/s"))
    gaps: ClassVar = {
        **WITH_EACH,
        "esxi": "vMotion takes the line's rate; NetIOC of vCenter limits it",
    }

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


class MigrationDowntime(OfMachine):
    """Milliseconds that a guest may stand still when it changes hosts; a goal, not a promise."""

    ms: int = field(metadata=amount("downtime", 1, 2_000_000, "ms"))
    gaps: ClassVar = WITH_EACH

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


class MigrationNetwork(OnHost):
    """Whether a vmkernel interface carries vMotion; several that do share the work.

    Both hosts need one, and each of several its own physical NIC in one subnet.
    """

    interface: str = field(metadata=NAMING | pattern("vmkernel interface", r"vmk\d{1,3}", "vmk1"))
    carries: bool = True
    gaps: ClassVar = {"kvm": "virsh takes an address with each migration: --migrateuri"}

    def on_esxi(self, host: Host) -> Way:
        """The interface's tag VMotion."""
        return Way(
            picked(r"s/^ *Tags: *//p", *TAG, "get", "-i", self.interface),
            lambda value: ((*TAG, "add" if value == "on" else "remove",
                            "-i", self.interface, "-t", "VMotion"),),
            lambda text: on_or_off("VMotion" in text.replace(",", " ").split()),
            needs=ROOT, more=Details(persists=True, seconds=1),
        )  # fmt: skip


class MigrationStreams(OfMachine):
    """The number of connections that carry a moving guest's memory; on ESXi, 0 lets it choose."""

    streams: int = field(metadata=amount("streams of a migration", 0, 255))
    gaps: ClassVar = WITH_EACH

    def clash(self, setting: Setting) -> str:
        """Several streams, and yet only one."""
        off = (
            isinstance(setting, MigrationParallel)
            and not setting.parallel
            and setting.vm == self.vm
        )
        return "memory goes on one stream only" if off and self.streams > 1 else ""

    def on_kvm(self, host: Host) -> Way:
        """Channels of QEMU's multifd, the same on both hosts; libvirt takes them with each move."""
        way = of_parameter(_plain(self, "--parallel-connections"), "multifd-channels")
        return replace(way, legal="1 to 255").plus(Details(after=("MigrationParallel",)))

    # Since 7.0 U2 the default 0 adapts to the link.
    on_esxi = by(
        replace(
            of_advanced("/Migrate/VMotionStreamHelpers"),
            legal="0 to 112, in older releases 0 to 32",
        )
    )


class MigrationParallel(OfMachine):
    """Whether QEMU moves memory on several streams at all; both hosts need the same."""

    parallel: bool = True
    gaps: ClassVar = {**WITH_EACH, "esxi": "vMotion always does"}
    on_kvm = by(lambda s: of_capability(_plain(s, "--parallel"), "multifd"))


class MigrationThrottle(OfMachine):
    """Whether a guest that writes faster than it can be moved is slowed down until it can."""

    throttle: bool = True
    gaps: ClassVar = WITH_EACH
    on_kvm = by(lambda s: of_capability(_plain(s, "--auto-converge"), "auto-converge"))
    # Stun During Page Send, an option of the host: 2 is on when needed.
    on_esxi = by(switched(of_advanced("/Migrate/SdpsEnabled"), on="2"))


# What is an option of one `virsh migrate` cannot be set beforehand.
def _plain(setting: OfMachine, option: str) -> str:
    if not setting.plain:
        raise Impossible(
            f"libvirt takes this for {setting.vm} with each migration, not before",
            hint=f"virsh migrate {option}",
        )
    return setting.vm
