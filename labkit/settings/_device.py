"""Interfaces and disks, held to by what they are from the first look on, whatever name they get."""

from dataclasses import dataclass, replace

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import matching
from labkit.settings._ways import script

PROGRAMS = ("ethtool",)

# FOLDER WHAT SIGN DEV KNOWN COMMAND...: with nothing known the device says what it is; else the one
# that says so is looked for. SIGN in the command's words becomes its name.
HOLD = beside(__file__, "_device_hold.sh")
NIC, DISK = "@nic", "@disk"
"""Stand for the device's name in the words of a way."""


@dataclass(frozen=True)
class Devices:
    """Devices of one sort, all in a folder of /sys."""

    what: str
    folder: str
    sign: str
    """Stands for a device's name in the words of a way."""
    told: str
    """A function for the shell: what the device of the name $1 is; `software` when only that."""

    def way(self, way: Way, dev: str) -> Way:
        """A way whose words say the sign: from the first look on it is about that very device.

        One that gets another name is found again, and another that got its name is left alone.
        """

        def hold(text: str) -> tuple[Way, str]:
            device, _, value = text.partition("\n")
            return self._on(way, dev, device), value

        return replace(self._on(way, dev, ""), held=hold)

    def _on(self, way: Way, dev: str, device: str) -> Way:
        def on(words: Words) -> Words:
            return script(self.told + HOLD, self.folder, self.what, self.sign, dev, device, *words)

        return replace(
            way, reads=on(way.reads), writes=lambda value: tuple(map(on, way.writes(value)))
        )


# Where an interface sits on its bus, and its permanent address; one of software is its name.
CARDS = Devices("interface", "/sys/class/net", NIC, beside(__file__, "_device_cards.sh"))
# What a disk says that it is, or which file it stands for; else where it sits on its bus.
DISKS = Devices("disk", "/sys/block", DISK, beside(__file__, "_device_disks.sh"))


def nic(host: Host, pattern: str = r"[A-Za-z][A-Za-z0-9_.-]{0,14}", like: str = "eth1") -> str:
    """The interface of the host that carries test traffic, by its name in lab.toml."""
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
