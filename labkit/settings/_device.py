"""Interfaces and disks, held to by what they are from the first look on, whatever name they get."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._ways import ROOT, OnHost, matching, picked, script

PROGRAMS = ("ethtool",)

# FOLDER WHAT SIGN DEV KNOWN COMMAND...: with nothing known the device says what it is; else the one
# that says so is looked for. SIGN in the command's words becomes its name.
HOLD = beside(__file__, "_device_hold.sh")
NIC, DISK = "@nic", "@disk"
"""Stand for the device's name in the words of a way."""
NONE = "n/a"


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

        return self._on(way, dev, "").plus(Details(held=hold))

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


class OfCard(OnHost):
    """Values of the test interface by `ethtool`, each written as NAME=VALUE; None leaves one."""

    what: ClassVar[str]
    letter: ClassVar[str]
    """The option that shows them; its capital sets them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.names:
            known = [slot.name.replace("_", "-") for slot in fields(self) if slot.name != "role"]
            raise BadInput(f"name at least one of {self.what}", hint=f"known: {', '.join(known)}")

    @property
    def names(self) -> list[str]:
        """The values that are named."""
        return [word.partition("=")[0] for word in self.wanted.split()]

    def shows(self, name: str) -> str:
        """The command of sed that makes NAME=VALUE of a line of ethtool."""
        return rf"s/^{name}:[[:space:]]*/{name}=/Ip"

    def on_linux(self, host: Host) -> Way:
        """`ethtool`, which may take the link down for a moment to set queues or rings."""
        names, card = self.names, nic(host)
        lines = ";".join(map(self.shows, names))
        # Of queues and rings the values in force are below the possible ones.
        program = f"/^Current/,${{{lines}}}" if self.letter in "lg" else lines
        sets = ("ethtool", f"-{self.letter.upper()}", NIC)

        def value(text: str) -> str:
            states = _states(text)
            return " ".join(f"{name}={states.get(name, '').split(' ')[0]}" for name in names)

        def refuse(text: str) -> str:
            states, wishes = _states(text), _states(self.wanted.replace(" ", "\n"))
            fixed = [name for name in names if _is_fixed(states.get(name, NONE), wishes[name])]
            problem = f"{host.name}: the driver of {card} has no choice of {', '.join(fixed)}"
            return problem if fixed else ""

        return of_nic(host, Way(
            picked(program, "ethtool", f"-{self.letter}", NIC),
            lambda value: ((*sets, *value.replace("=", " ").split()),), value, refuse,
            needs=ROOT, legal="as the driver allows",
            more=Details(cuts_management=self.letter in "lg"),
        ))  # fmt: skip


# By name, as it was picked: a number, on, off, or one of these and [fixed].
def _states(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: state for name, _, state in pairs}


# What a driver fixes can only stay as it is.
def _is_fixed(state: str, wanted: str) -> bool:
    return state == NONE or (state.endswith("[fixed]") and state.split()[0] != wanted)
