"""The queues of a NIC: how many, how long, and how many packets go by one interrupt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._nic import NIC, nic, of_nic
from labkit.settings._ways import ROOT, OnHost, on_or_off, picked, script, whole

PROGRAMS = ("esxcli", "ethtool")

VMNIC = (r"vmnic\d+", "vmnic1")
COLUMNS = """\
said=$(esxcli network nic coalesce get -n "$1") || exit
printf '%s\\n' "$said" | awk -v nic="$1" "$2\""""
Asked = Mapping[str, int | bool | None]

# Its kernel (6.1) panics at that question.
RINGS = """\
! grep -q 'User Mode Linux' /proc/cpuinfo || {
    echo 'User-Mode Linux cannot be asked for its rings' >&2; exit 1; }"""


@dataclass(frozen=True)
class NicQueues(OnHost):
    """The test interface's number of queues; a driver has either combined ones or rx and tx."""

    combined: int | None = 1
    rx: int | None = None
    tx: int | None = None

    elsewhere: ClassVar = {"esxi": "the driver's option RSS decides: ModuleOptions"}

    def __post_init__(self) -> None:
        super().__post_init__()
        _some_whole("queues", self._asked(), 1, 1024)

    def _asked(self) -> Asked:
        return {"combined": self.combined, "rx": self.rx, "tx": self.tx}

    @property
    def wanted(self) -> str:
        """The named numbers."""
        return _pairs(self._asked())

    def on_linux(self, host: Host) -> Way:
        """`ethtool -L`, which may take the link down for a moment."""
        return _ethtool(host, "l", self._asked())


@dataclass(frozen=True)
class NicRing(OnHost):
    """Packets that the rings of the test interface hold: descriptors for rx and for tx."""

    rx: int | None = 4096
    tx: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _some_whole("a ring", self._asked(), 1, 65536)

    def _asked(self) -> Asked:
        return {"rx": self.rx, "tx": self.tx}

    @property
    def wanted(self) -> str:
        """The named sizes."""
        return _pairs(self._asked())

    def on_linux(self, host: Host) -> Way:
        """`ethtool -G`, which may take the link down for a moment."""
        return _ethtool(host, "g", self._asked()).plus(Details(probe=script(RINGS)))

    def on_esxi(self, host: Host) -> Way:
        """`esxcli network nic ring`; what the NIC allows is its preset."""
        dev = nic(host, *VMNIC)
        command, flags = ("esxcli", "network", "nic", "ring", "current"), {"rx": "-r", "tx": "-t"}
        shown = ";".join(f"/^   {name.upper()}: /p" for name in _named(self._asked()))
        return Way(
            picked(shown, *command, "get", "-n", dev),
            lambda value: ((*command, "set", "-n", dev, *_options(value, flags)),),
            lambda text: " ".join(sorted(text.lower().replace(": ", "=").split())),
            needs=ROOT, legal="up to the NIC's preset",
            more=Details(cuts_management=True),
        )  # fmt: skip


@dataclass(frozen=True)
class Coalescing(OnHost):
    """The test interface's wait before an interrupt, in microseconds and in packets.

    0 microseconds is an interrupt for each packet; `adaptive` leaves it to the driver.
    """

    rx_usecs: int | None = 0
    tx_usecs: int | None = None
    rx_frames: int | None = None
    adaptive_rx: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _some_whole("coalescing", self._asked(), 0, 65535, switch="adaptive-rx")

    def _asked(self) -> Asked:
        return {"adaptive-rx": self.adaptive_rx, "rx-usecs": self.rx_usecs,
                "tx-usecs": self.tx_usecs, "rx-frames": self.rx_frames}  # fmt: skip

    @property
    def wanted(self) -> str:
        """The named values."""
        return _pairs(self._asked())

    def on_linux(self, host: Host) -> Way:
        """`ethtool -C`; many virtual NICs have nothing of the sort."""
        return _ethtool(host, "c", self._asked())

    def on_esxi(self, host: Host) -> Way:
        """`esxcli network nic coalesce`, of a physical NIC."""
        dev = nic(host, *VMNIC)
        command = ("esxcli", "network", "nic", "coalesce")
        columns = {"adaptive-rx": 6, "rx-usecs": 2, "rx-frames": 3, "tx-usecs": 4}
        words = {"adaptive-rx": "--adaptive-rx", "rx-usecs": "--rx-usecs",
                 "tx-usecs": "--tx-usecs", "rx-frames": "--rx-max-frames"}  # fmt: skip
        asked = _named(self._asked())
        show = ", ".join(f'"{name}=" tolower(${columns[name]})' for name in asked)
        return Way(
            script(COLUMNS, dev, f'$1 == nic {{ print {show} }}'),
            lambda value: ((*command, "set", "-n", dev, *_options(_true(value), words)),),
            lambda text: " ".join(sorted(text.split())),
            lambda text: f"{dev} of {host.name} has no coalescing" if "n/a" in text else "",
            needs=ROOT, legal="as the driver allows",
        )  # fmt: skip


# The numbers that are named, and that there is one.
def _named(asked: Asked) -> list[str]:
    return [name for name, value in asked.items() if value is not None]


def _some_whole(what: str, asked: Asked, low: int, high: int, switch: str = "") -> None:
    if not _named(asked):
        raise BadInput(f"name at least one of {what}", hint=f"known: {', '.join(asked)}")
    for name in _named(asked):
        if name != switch:
            whole(f"{what}: {name}", asked[name], low, high)
        elif not isinstance(asked[name], bool):
            raise BadInput(f"{what}: {name} is True or False, not {asked[name]!r}")


def _word(value: int | bool | None) -> str:
    return on_or_off(value) if isinstance(value, bool) else str(value)


def _pairs(asked: Asked) -> str:
    return " ".join(sorted(f"{name}={_word(asked[name])}" for name in _named(asked)))


def _true(value: str) -> str:
    return value.replace("=on", "=true").replace("=off", "=false")


def _options(value: str, words: dict[str, str]) -> tuple[str, ...]:
    pairs = (pair.partition("=") for pair in value.split())
    return tuple(word for name, _, n in pairs for word in (words[name], n))


# `ethtool -g` shows what `ethtool -G` sets, the values in force below the possible ones.
def _ethtool(host: Host, letter: str, asked: Asked) -> Way:
    names = _named(asked)
    lines = [r"s/^Adaptive RX: \([a-z/]*\).*/adaptive-rx=\1/p" if name == "adaptive-rx" else
             rf"s/^{name}:[[:space:]]*/{name}=/Ip" for name in names]  # fmt: skip
    shown = ";".join(lines)
    program = shown if letter == "c" else f"/^Current/,${{{shown}}}"
    return of_nic(host, Way(
        picked(program, "ethtool", f"-{letter}", NIC),
        lambda value: (("ethtool", f"-{letter.upper()}", NIC, *value.replace("=", " ").split()),),
        lambda text: " ".join(sorted(text.split())),
        lambda text: "" if "n/a" not in text and len(text.split()) == len(names)
        else f"{nic(host)} has no choice of {', '.join(names)}",
        needs=ROOT, legal="as the driver allows",
        more=Details(cuts_management=letter != "c"),
    ))  # fmt: skip
