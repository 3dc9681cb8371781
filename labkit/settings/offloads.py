"""What a NIC does for its host: merging and cutting of packets, queues, and when it interrupts."""

from dataclasses import field, fields, replace
from typing import Any, ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Way
from labkit.settings._device import NIC, nic, of_nic
from labkit.settings._fields import amount, switch
from labkit.settings._ways import ROOT, OnHost, picked, script

PROGRAMS = ("esxcli", "ethtool")

NONE = "n/a"
TRUE = {"on": "true", "off": "false"}
VMNIC = (r"vmnic\d+", "vmnic1")
COLUMNS = """\
said=$(esxcli network nic coalesce get -n "$1") || exit
printf '%s\\n' "$said" | awk -v nic="$1" "$2\""""

# Its kernel (6.1) panics at that question.
RINGS = """\
! grep -q 'User Mode Linux' /proc/cpuinfo || {
    echo 'User-Mode Linux cannot be asked for its rings' >&2; exit 1; }"""


class _OfCard(OnHost):
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
            needs=ROOT, legal="as the driver allows", cuts_management=self.letter in "lg",
        ))  # fmt: skip


# By name, as it was picked: a number, on, off, or one of these and [fixed].
def _states(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: state for name, _, state in pairs}


# What a driver fixes can only stay as it is.
def _is_fixed(state: str, wanted: str) -> bool:
    return state == NONE or (state.endswith("[fixed]") and state.split()[0] != wanted)


def _count(what: str, name: str, low: int, high: int, default: int | None = None) -> Any:
    text = f"{name}={{}}".format
    return amount(f"{what}: {name}", low, high, text=text, default=default)


class NicQueues(_OfCard):
    """The test interface's number of queues; a driver has either combined ones or rx and tx."""

    combined: int | None = _count("queues", "combined", 1, 1024, 1)
    rx: int | None = _count("queues", "rx", 1, 1024)
    tx: int | None = _count("queues", "tx", 1, 1024)
    what, letter = "queues", "l"
    gaps: ClassVar = {"esxi": "the driver's option RSS decides: ModuleOptions"}


class NicRing(_OfCard):
    """Packets that the rings of the test interface hold: descriptors for rx and for tx."""

    rx: int | None = _count("a ring", "rx", 1, 65536, 4096)
    tx: int | None = _count("a ring", "tx", 1, 65536)
    what, letter = "a ring", "g"

    def on_linux(self, host: Host) -> Way:
        """The same, where the kernel can be asked."""
        return replace(super().on_linux(host), probe=script(RINGS))

    def on_esxi(self, host: Host) -> Way:
        """`esxcli network nic ring`; what the NIC allows is its preset."""
        dev = nic(host, *VMNIC)
        command, flags = ("esxcli", "network", "nic", "ring", "current"), {"rx": "-r", "tx": "-t"}
        lines = ";".join(f"/^   {name.upper()}: /p" for name in self.names)
        return Way(
            picked(lines, *command, "get", "-n", dev),
            lambda value: ((*command, "set", "-n", dev, *_options(value, flags)),),
            lambda text: " ".join(text.lower().replace(": ", "=").split()),
            needs=ROOT, legal="up to the NIC's preset", cuts_management=True,
        )  # fmt: skip


class Coalescing(_OfCard):
    """The test interface's wait before an interrupt, in microseconds and in packets.

    0 microseconds is an interrupt for each packet; `adaptive` leaves it to the driver.
    """

    rx_usecs: int | None = _count("coalescing", "rx-usecs", 0, 65535, 0)
    tx_usecs: int | None = _count("coalescing", "tx-usecs", 0, 65535)
    rx_frames: int | None = _count("coalescing", "rx-frames", 0, 65535)
    adaptive_rx: bool | None = switch("adaptive-rx=off", "adaptive-rx=on", default=None)
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
            script(COLUMNS, dev, f"$1 == nic {{ print {show} }}"),
            lambda value: ((*command, "set", "-n", dev, *_options(value, words)),),
            lambda text: " ".join(text.split()),
            lambda text: f"{dev} of {host.name} has no coalescing" if "n/a" in text else "",
            needs=ROOT, legal="as the driver allows",
        )  # fmt: skip


def _options(value: str, words: dict[str, str]) -> tuple[str, ...]:
    pairs = (pair.partition("=") for pair in value.split())
    return tuple(word for name, _, n in pairs for word in (words[name], TRUE.get(n, n)))


FEATURES = {
    "gro": "generic-receive-offload",
    "gso": "generic-segmentation-offload",
    "tso": "tcp-segmentation-offload",
    "lro": "large-receive-offload",
    "sg": "scatter-gather",
}


class Offloads(_OfCard):
    """Offloads of the interface that carries test traffic; None leaves one as it is."""

    gro: bool | None = switch("gro=off", "gro=on", default=False)
    gso: bool | None = switch("gso=off", "gso=on", default=None)
    tso: bool | None = switch("tso=off", "tso=on", default=None)
    lro: bool | None = switch("lro=off", "lro=on", default=None)
    sg: bool | None = switch("sg=off", "sg=on", default=None)
    role: str = field(default="guest", kw_only=True)  # type: ignore[misc]
    what, letter = "the offloads", "k"
    gaps: ClassVar = {"esxi": "VMkernel has them as AdvancedOption: /Net/UseHwTSO and the like"}

    @property
    def which(self) -> str:
        """Settings that name different offloads of one host are about different things."""
        return " ".join(self.names)

    def shows(self, name: str) -> str:
        """Their names are longer in what ethtool shows."""
        return f"s/^{FEATURES[name]}: /{name}=/p"
