"""Who is where in a box: addresses, hardware addresses and CPUs, all from its name and number."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network

from labkit.errors import BadInput

NAME = re.compile(r"[a-z][a-z0-9-]{0,9}")
BENCHMARKING = IPv4Network("198.18.0.0/15")
"""Set aside for tests between networks (RFC 2544), so nothing real is there."""
PAIRS = 256
SEATS = {"root": 1, "client": 2, "server": 3, "guest": 4}
HOSTS = ("client", "server")
GUEST = "guest"
INTERFACES = {"client": "data0", "server": "data0", "guest": "vec1"}
OUR_MAC = "02:6c:6b"
"""Begins the hardware address of every link that a box makes, which tells ours from others'."""


@dataclass(frozen=True)
class Layout:
    """A box: `pair` numbers its two subnets, `cpus` are those it may use, `guest` if it has one."""

    name: str
    pair: int
    cpus: tuple[int, ...]
    guest: bool = True

    @property
    def roles(self) -> tuple[str, ...]:
        """The hosts that labkit can reach, guests last."""
        return (*HOSTS, GUEST) if self.guest else HOSTS

    @property
    def link(self) -> str:
        """The link in this machine's own network that leads to the box."""
        return link_name(self.name)

    def control(self, role: str) -> str:
        """The address that SSH goes to."""
        return str(control_net(self.pair)[SEATS[role]])

    def data(self, role: str) -> str:
        """The address that test traffic goes to."""
        return str(data_net(self.pair)[SEATS[role]])

    def mac(self, net: int, role: str) -> str:
        """A hardware address that no other link of any box has."""
        return f"{OUR_MAC}:{self.pair:02x}:{net:02x}:{SEATS[role]:02x}"

    def cpus_of(self, role: str) -> tuple[int, ...]:
        """The client has the first half of the CPUs, the server and its guest the second."""
        half = len(self.cpus) // 2
        return (self.cpus[:half] if role == "client" else self.cpus[half:]) or self.cpus

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """The layout that `to_json` wrote."""
        kept = json.loads(text)
        return cls(kept["name"], kept["pair"], tuple(kept["cpus"]), kept["guest"])


def control_net(pair: int) -> IPv4Network:
    """The subnet for SSH of box number `pair`."""
    return IPv4Network((int(BENCHMARKING.network_address) + (2 * pair << 8), 24))


def data_net(pair: int) -> IPv4Network:
    """The subnet for test traffic of box number `pair`."""
    return IPv4Network((int(BENCHMARKING.network_address) + ((2 * pair + 1) << 8), 24))


def link_name(name: str) -> str:
    """The link in this machine's own network that leads to box `name`."""
    return f"lk-{name}"


def check_name(name: str) -> None:
    """Refuse a name that could not become part of a link's name."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be the name of a box",
            hint="use 1 to 10 small letters, digits and dashes, a letter first",
        )


def cpu_list(cpus: Sequence[int]) -> str:
    """CPU numbers as the kernel writes them: `0-3,6`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
