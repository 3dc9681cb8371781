"""The interface that carries test traffic: known by its name in lab.toml, held to by what it is."""

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way
from labkit.settings._device import Devices
from labkit.settings._ways import matching

PROGRAMS = ("ethtool",)

NIC = "@nic"
"""Stands for the interface's name in the words of a way."""
CARDS = Devices(
    "interface", "/sys/class/net", NIC,
    # Where it sits on its bus, and its permanent address; one of software is its name.
    beside(__file__, "_nic_cards.sh"),
)  # fmt: skip


def nic(host: Host, pattern: str = r"[A-Za-z][A-Za-z0-9_.-]{0,14}", like: str = "eth1") -> str:
    """The interface of the host that carries test traffic."""
    if not host.interface:
        raise BadInput(
            f"{host.name}: which interface carries test traffic is not known",
            hint='add interface = "..." to its table in lab.toml',
        )
    matching(f"interface of {host.name}", host.interface, pattern, like)
    return host.interface


def of_nic(host: Host, way: Way) -> Way:
    """A way of the test interface of a Linux host, whose words say NIC."""
    return CARDS.way(way, nic(host))
