"""The queues of a NIC: how many, how long, and how many packets go by one interrupt."""

from dataclasses import field
from typing import Any, ClassVar

from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._device import OfCard, nic
from labkit.settings._values import amount, switch
from labkit.settings._ways import ROOT, picked, script

PROGRAMS = ("esxcli",)

TRUE = {"on": "true", "off": "false"}
VMNIC = (r"vmnic\d+", "vmnic1")
COLUMNS = """\
said=$(esxcli network nic coalesce get -n "$1") || exit
printf '%s\\n' "$said" | awk -v nic="$1" "$2\""""

# Its kernel (6.1) panics at that question.
RINGS = """\
! grep -q 'User Mode Linux' /proc/cpuinfo || {
    echo 'User-Mode Linux cannot be asked for its rings' >&2; exit 1; }"""


def _count(what: str, name: str, low: int, high: int, default: int | None = None) -> Any:
    text = f"{name}={{}}".format
    return field(default=default, metadata=amount(f"{what}: {name}", low, high, text=text))


class NicQueues(OfCard):
    """The test interface's number of queues; a driver has either combined ones or rx and tx."""

    combined: int | None = _count("queues", "combined", 1, 1024, 1)
    rx: int | None = _count("queues", "rx", 1, 1024)
    tx: int | None = _count("queues", "tx", 1, 1024)
    what, letter = "queues", "l"
    gaps: ClassVar = {"esxi": "the driver's option RSS decides: ModuleOptions"}


class NicRing(OfCard):
    """Packets that the rings of the test interface hold: descriptors for rx and for tx."""

    rx: int | None = _count("a ring", "rx", 1, 65536, 4096)
    tx: int | None = _count("a ring", "tx", 1, 65536)
    what, letter = "a ring", "g"

    def on_linux(self, host: Host) -> Way:
        """The same, where the kernel can be asked."""
        return super().on_linux(host).plus(Details(probe=script(RINGS)))

    def on_esxi(self, host: Host) -> Way:
        """`esxcli network nic ring`; what the NIC allows is its preset."""
        dev = nic(host, *VMNIC)
        command, flags = ("esxcli", "network", "nic", "ring", "current"), {"rx": "-r", "tx": "-t"}
        lines = ";".join(f"/^   {name.upper()}: /p" for name in self.names)
        return Way(
            picked(lines, *command, "get", "-n", dev),
            lambda value: ((*command, "set", "-n", dev, *_options(value, flags)),),
            lambda text: " ".join(text.lower().replace(": ", "=").split()),
            needs=ROOT, legal="up to the NIC's preset",
            more=Details(cuts_management=True),
        )  # fmt: skip


class Coalescing(OfCard):
    """The test interface's wait before an interrupt, in microseconds and in packets.

    0 microseconds is an interrupt for each packet; `adaptive` leaves it to the driver.
    """

    rx_usecs: int | None = _count("coalescing", "rx-usecs", 0, 65535, 0)
    tx_usecs: int | None = _count("coalescing", "tx-usecs", 0, 65535)
    rx_frames: int | None = _count("coalescing", "rx-frames", 0, 65535)
    adaptive_rx: bool | None = field(
        default=None, metadata=switch("adaptive-rx=off", "adaptive-rx=on")
    )
    what, letter = "coalescing", "c"

    def shows(self, name: str) -> str:
        """The driver's choice is shown otherwise."""
        if name != "adaptive-rx":
            return super().shows(name)
        return r"s/^Adaptive RX: \([a-z/]*\).*/adaptive-rx=\1/p"

    def on_esxi(self, host: Host) -> Way:
        """`esxcli network nic coalesce`, of a physical NIC."""
        dev = nic(host, *VMNIC)
        command = ("esxcli", "network", "nic", "coalesce")
        columns = {"adaptive-rx": 6, "rx-usecs": 2, "rx-frames": 3, "tx-usecs": 4}
        words = {"adaptive-rx": "--adaptive-rx", "rx-usecs": "--rx-usecs",
                 "tx-usecs": "--tx-usecs", "rx-frames": "--rx-max-frames"}  # fmt: skip
        show = ", ".join(f'"{name}=" tolower(${columns[name]})' for name in self.names)
        return Way(
            script(COLUMNS, dev, f'$1 == nic {{ print {show} }}'),
            lambda value: ((*command, "set", "-n", dev, *_options(value, words)),),
            lambda text: " ".join(text.split()),
            lambda text: f"{dev} of {host.name} has no coalescing" if "n/a" in text else "",
            needs=ROOT, legal="as the driver allows",
        )  # fmt: skip


def _options(value: str, words: dict[str, str]) -> tuple[str, ...]:
    pairs = (pair.partition("=") for pair in value.split())
    return tuple(word for name, _, n in pairs for word in (words[name], TRUE.get(n, n)))
