"""The queues of a NIC: how many, how long, and how many packets go by one interrupt."""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._nic import NIC, nic, of_nic
from labkit.settings._values import amount
from labkit.settings._ways import ROOT, OnHost, on_or_off, picked, script

PROGRAMS = ("esxcli", "ethtool")

VMNIC = (r"vmnic\d+", "vmnic1")
COLUMNS = """\
said=$(esxcli network nic coalesce get -n "$1") || exit
printf '%s\\n' "$said" | awk -v nic="$1" "$2\""""
Values = Mapping[str, int | bool | None]

# Its kernel (6.1) panics at that question.
RINGS = """\
! grep -q 'User Mode Linux' /proc/cpuinfo || {
    echo 'User-Mode Linux cannot be asked for its rings' >&2; exit 1; }"""


class _OfNic(OnHost):
    what: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _names(self._list_values()):
            names = ", ".join(self._list_values())
            raise BadInput(f"name at least one of {self.what}", hint=f"known: {names}")

    def _list_values(self) -> Values:
        names = [slot.name for slot in fields(self) if slot.name != "role"]
        return {name.replace("_", "-"): getattr(self, name) for name in names}

    @property
    def wanted(self) -> str:
        """The named values."""
        values = self._list_values()
        return " ".join(sorted(f"{name}={_word(values[name])}" for name in _names(values)))


class NicQueues(_OfNic):
    """The test interface's number of queues; a driver has either combined ones or rx and tx."""

    combined: int | None = field(default=1, metadata=amount("queues: combined", 1, 1024))
    rx: int | None = field(default=None, metadata=amount("queues: rx", 1, 1024))
    tx: int | None = field(default=None, metadata=amount("queues: tx", 1, 1024))
    what: ClassVar = "queues"
    gaps: ClassVar = {"esxi": "the driver's option RSS decides: ModuleOptions"}

    def on_linux(self, host: Host) -> Way:
        """`ethtool -L`, which may take the link down for a moment."""
        return _ethtool(host, "l", self._list_values())


class NicRing(_OfNic):
    """Packets that the rings of the test interface hold: descriptors for rx and for tx."""

    rx: int | None = field(default=4096, metadata=amount("a ring: rx", 1, 65536))
    tx: int | None = field(default=None, metadata=amount("a ring: tx", 1, 65536))
    what: ClassVar = "a ring"

    def on_linux(self, host: Host) -> Way:
        """`ethtool -G`, which may take the link down for a moment."""
        return _ethtool(host, "g", self._list_values()).plus(Details(probe=script(RINGS)))

    def on_esxi(self, host: Host) -> Way:
        """`esxcli network nic ring`; what the NIC allows is its preset."""
        dev = nic(host, *VMNIC)
        command, flags = ("esxcli", "network", "nic", "ring", "current"), {"rx": "-r", "tx": "-t"}
        lines = ";".join(f"/^   {name.upper()}: /p" for name in _names(self._list_values()))
        return Way(
            picked(lines, *command, "get", "-n", dev),
            lambda value: ((*command, "set", "-n", dev, *_options(value, flags)),),
            lambda text: " ".join(sorted(text.lower().replace(": ", "=").split())),
            needs=ROOT, legal="up to the NIC's preset",
            more=Details(cuts_management=True),
        )  # fmt: skip


class Coalescing(_OfNic):
    """The test interface's wait before an interrupt, in microseconds and in packets.

    0 microseconds is an interrupt for each packet; `adaptive` leaves it to the driver.
    """

    rx_usecs: int | None = field(default=0, metadata=amount("coalescing: rx-usecs", 0, 65535))
    tx_usecs: int | None = field(default=None, metadata=amount("coalescing: tx-usecs", 0, 65535))
    rx_frames: int | None = field(default=None, metadata=amount("coalescing: rx-frames", 0, 65535))
    adaptive_rx: bool | None = None
    what: ClassVar = "coalescing"

    def on_linux(self, host: Host) -> Way:
        """`ethtool -C`; many virtual NICs have nothing of the sort."""
        return _ethtool(host, "c", self._list_values())

    def on_esxi(self, host: Host) -> Way:
        """`esxcli network nic coalesce`, of a physical NIC."""
        dev = nic(host, *VMNIC)
        command = ("esxcli", "network", "nic", "coalesce")
        columns = {"adaptive-rx": 6, "rx-usecs": 2, "rx-frames": 3, "tx-usecs": 4}
        words = {"adaptive-rx": "--adaptive-rx", "rx-usecs": "--rx-usecs",
                 "tx-usecs": "--tx-usecs", "rx-frames": "--rx-max-frames"}  # fmt: skip
        names = _names(self._list_values())
        show = ", ".join(f'"{name}=" tolower(${columns[name]})' for name in names)
        return Way(
            script(COLUMNS, dev, f'$1 == nic {{ print {show} }}'),
            lambda value: ((*command, "set", "-n", dev, *_options(_true(value), words)),),
            lambda text: " ".join(sorted(text.split())),
            lambda text: f"{dev} of {host.name} has no coalescing" if "n/a" in text else "",
            needs=ROOT, legal="as the driver allows",
        )  # fmt: skip


# The numbers that are named.
def _names(values: Values) -> list[str]:
    return [name for name, value in values.items() if value is not None]


def _word(value: int | bool | None) -> str:
    return on_or_off(value) if isinstance(value, bool) else str(value)


def _true(value: str) -> str:
    return value.replace("=on", "=true").replace("=off", "=false")


def _options(value: str, words: dict[str, str]) -> tuple[str, ...]:
    pairs = (pair.partition("=") for pair in value.split())
    return tuple(word for name, _, n in pairs for word in (words[name], n))


# `ethtool -g` shows what `ethtool -G` sets, the values in force below the possible ones.
def _ethtool(host: Host, letter: str, values: Values) -> Way:
    names = _names(values)
    lines = [r"s/^Adaptive RX: \([a-z/]*\).*/adaptive-rx=\1/p" if name == "adaptive-rx" else
             rf"s/^{name}:[[:space:]]*/{name}=/Ip" for name in names]  # fmt: skip
    look = ";".join(lines)
    program = look if letter == "c" else f"/^Current/,${{{look}}}"
    return of_nic(host, Way(
        picked(program, "ethtool", f"-{letter}", NIC),
        lambda value: (("ethtool", f"-{letter.upper()}", NIC, *value.replace("=", " ").split()),),
        lambda text: " ".join(sorted(text.split())),
        lambda text: "" if "n/a" not in text and len(text.split()) == len(names)
        else f"{nic(host)} has no choice of {', '.join(names)}",
        needs=ROOT, legal="as the driver allows",
        more=Details(cuts_management=letter != "c"),
    ))  # fmt: skip
