"""Availability: when a cluster takes a silent host for dead, and what it does before it restarts.

In a box a load makes the cluster, and it reads there what was asked for. It forgets it at the end.
"""

from collections.abc import Callable
from functools import partial
from string import Template
from typing import ClassVar

from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import amount, name
from labkit.settings._ways import ROOT, OnHost, by, on_or_off, script

PROGRAMS = ("cibadmin", "corosync-cmapctl", "crm_attribute")

TOKEN, RETRANSMITS, FENCES = "token", "token_retransmits_before_loss_const", "stonith-enabled"
"""Keys of Corosync's `totem` and of Pacemaker's `crm_config`."""
TRUE = {"on": "true", "off": "false"}
WISHES = "/run/labkit/cluster"
"""The folder of a box's host with what was asked of its next cluster: a file for each key."""
TOTEM = beside(__file__, "availability_token.sh")
OPTION = beside(__file__, "availability_fencing.sh")
GUARD = beside(__file__, "availability_domain.sh")
DOMAIN = beside(__file__, "availability_domain.xml")


def _told(text: str, unit: str = "") -> str:
    source, _, number = text.strip().partition(" ")
    if source == "set":
        return f"{number}{unit}"
    return f"default of {number}{unit}" if number else "default"


# A key of Corosync, until it starts again.
def _totem(key: str, read: Callable[[str], str]) -> Way:
    def writes(value: str) -> tuple[Words, ...]:
        number = "" if value.startswith("default") else value.removesuffix(" ms")
        return (script(TOTEM, key, "tell", number),)

    return Way(script(TOTEM, key, "show"), writes, read, needs=ROOT, settle_seconds=2)


class FailureDetection(OnHost):
    """Milliseconds that a host may be silent before its cluster takes it for dead.

    All hosts of the cluster need the same; starting the guests elsewhere takes its own time.
    """

    ms: int = amount("the silence", 100, 600_000, "ms", "{} ms".format)
    gaps: ClassVar = {
        "esxi": "vSphere HA is of the cluster, which vCenter keeps: das.config.fdm... options",
    }
    on_linux = by(_totem(TOKEN, partial(_told, unit=" ms")))


class Heartbeats(OnHost):
    """The number of heartbeats that may get lost within the silence, before a host is dead.

    More of them follow each other faster: Corosync sends its token again after that part of it.
    """

    lost: int = amount("heartbeats that get lost", 1, 100)
    gaps: ClassVar = FailureDetection.gaps
    on_linux = by(_totem(RETRANSMITS, _told))


class Fencing(OnHost):
    """Whether a cluster takes the power from a silent host before it starts its guests elsewhere.

    Without it two hosts that do not see each other both run them, and destroy a disk they share.
    """

    on: bool = True
    gaps: ClassVar = {"esxi": "vSphere HA asks the datastores whether a host is still there"}
    on_linux = by(Way(
        script(OPTION, FENCES, "show"),
        lambda value: (script(OPTION, FENCES, "tell", TRUE.get(value, "")),),
        lambda text: _fences(text.strip()), needs=ROOT, settle_seconds=2,
    ))  # fmt: skip


class GuestProtected(OnHost):
    """Whether a cluster that runs already starts the machine `vm` of libvirt on another host.

    Its definition and its disks have to be on storage that all hosts of the cluster have.
    """

    vm: str = name("virtual machine", which=True)
    on: bool = True
    gaps: ClassVar = {"esxi": "vSphere HA is of the cluster, which vCenter keeps"}
    # Once for the cluster: any of its hosts may be told.
    on_linux = by(lambda s: Way(
        script(GUARD, s.vm, "show"), lambda value: (script(GUARD, s.vm, value, s.resource),),
        needs=ROOT, persists=True, settle_seconds=2,
    ))  # fmt: skip

    @property
    def resource(self) -> str:
        """The resource as Pacemaker's schema has it (ocf:heartbeat:VirtualDomain)."""
        return Template(DOMAIN).substitute(vm=self.vm)


# Pacemaker has several words for it.
def _fences(text: str) -> str:
    return "default" if text == "default" else on_or_off(text in ("true", "on", "yes", "1"))
