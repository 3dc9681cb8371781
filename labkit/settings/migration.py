"""Moving a running guest to another host: how fast, on how many streams, with how long a stop."""

from dataclasses import replace
from typing import ClassVar

from labkit.host import Host
from labkit.setting import Way
from labkit.settings._fields import amount, pattern
from labkit.settings._guest import OfMachine, of_virsh
from labkit.settings._ways import ROOT, OnHost, by, on_or_off, picked, switched
from labkit.settings.esxi import of_advanced

PROGRAMS = ("esxcli",)

WITH_EACH = {"box": "`box.migrate` takes it with each move"}
TAG = ("esxcli", "network", "ip", "interface", "tag")


class MigrationBandwidth(OfMachine):
    """The most that moving a guest may take of the network, in MiB per second."""

    mib_per_second: int = amount("bandwidth of a migration", 1, 1_000_000, "MiB/s")
    gaps: ClassVar = {
        **WITH_EACH,
        "esxi": "vMotion takes the line's rate; NetIOC of vCenter limits it",
    }
    on_kvm = by(lambda s: _of_line(s.vm, "migrate-getspeed", "migrate-setspeed"))


class MigrationDowntime(OfMachine):
    """Milliseconds that a guest may stand still when it changes hosts; a goal, not a promise."""

    ms: int = amount("downtime", 1, 2_000_000, "ms")
    gaps: ClassVar = WITH_EACH
    # QEMU goes over when what is left fits into that time.
    on_kvm = by(lambda s: _of_line(s.vm, "migrate-getmaxdowntime", "migrate-setmaxdowntime"))

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

    interface: str = pattern("vmkernel interface", r"vmk\d{1,3}", "vmk1", which=True)
    carries: bool = True
    gaps: ClassVar = {"kvm": "virsh takes an address with each migration: --migrateuri"}

    def on_esxi(self, host: Host) -> Way:
        """The interface's tag VMotion."""
        return Way(
            picked(r"s/^ *Tags: *//p", *TAG, "get", "-i", self.interface),
            lambda value: ((*TAG, "add" if value == "on" else "remove",
                            "-i", self.interface, "-t", "VMotion"),),
            lambda text: on_or_off("VMotion" in text.replace(",", " ").split()),
            needs=ROOT, persists=True, seconds=1,
        )  # fmt: skip


class MigrationStreams(OfMachine):
    """The number of connections that carry a moving guest's memory; 0 lets the host choose."""

    streams: int = amount("streams of a migration", 0, 255)
    gaps: ClassVar = {**WITH_EACH, "kvm": "virsh takes it with each move: --parallel-connections"}
    # Since 7.0 U2 the default 0 adapts to the link.
    on_esxi = by(replace(
        of_advanced("/Migrate/VMotionStreamHelpers"), legal="0 to 112, in older releases 0 to 32"
    ))  # fmt: skip


class MigrationThrottle(OfMachine):
    """Whether a guest that writes faster than it can be moved is slowed down until it can."""

    throttle: bool = True
    gaps: ClassVar = {**WITH_EACH, "kvm": "virsh takes it with each move: --auto-converge"}
    # Stun During Page Send: 2 is on when needed.
    on_esxi = by(switched(of_advanced("/Migrate/SdpsEnabled"), on="2"))


# virsh shows the one number by one command, and takes it by another.
def _of_line(vm: str, shows: str, takes: str) -> Way:
    return of_virsh("p", (shows, vm), lambda value: (takes, vm, value))
