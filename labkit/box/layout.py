"""Places in a box: addresses, hardware addresses and CPUs, all from its name and number."""

from __future__ import annotations

import functools
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network

from labkit.box.cgroup import Limits
from labkit.box.containers.container import ContainerPlan
from labkit.box.guests.disk import device
from labkit.box.guests.guest_plan import GuestPlan
from labkit.box.network.link import LinkPlan
from labkit.box.topology import SHARING, HostPlan, Topology
from labkit.errors import BadInput
from labkit.machine.cpus import ranges

NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
MOST_IN_A_LINK = 12
"""Letters of a box's name in that of its link, behind `lk-`."""
BENCHMARKING = IPv4Network("198.18.0.0/15")
"""Set aside for tests between networks (RFC 2544), so nothing real is there."""
PAIRS = 256
ROOT = "root"
"""The role of this machine itself, at the first address of the control network."""
PROBE_SEAT = 254
HOST_INTERFACE, GUEST_INTERFACE, CONTAINER_INTERFACE = "data0", "vec1", "eth0"
FIRST_GUEST_UID = 64010
"""A guest's processes run as a user of its own, who is in no passwd file and owns nothing."""
OUR_MAC = "02:6c:6b"
"""Begins the hardware address of every link that a box makes: by it ours are known from others'."""


@dataclass(frozen=True)
class Layout:
    """A box: `pair` numbers its two subnets, `cpus` are those it may use."""

    name: str
    pair: int
    cpus: tuple[int, ...]
    topology: Topology
    kernel: str = ""
    """The kernel of guests of QEMU, and in `image` their root."""
    image: str = ""
    loader: str = ""
    """The first root of those that have their host's files."""
    nodes: tuple[tuple[int, ...], ...] = ()
    """The same CPUs by NUMA node."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The roles of its hosts."""
        return tuple(host.role for host in self.topology.hosts)

    @property
    def guests(self) -> tuple[str, ...]:
        """The roles of its guests."""
        return tuple(guest.role for guest in self.topology.guests)

    @property
    def containers(self) -> tuple[str, ...]:
        """The roles of its containers."""
        return tuple(container.role for container in self.topology.containers)

    @property
    def roles(self) -> tuple[str, ...]:
        """The machines that labkit can reach: hosts, guests, containers."""
        return tuple(self.topology.roles)

    @property
    def link(self) -> str:
        """The link in this machine's own network that leads to the box."""
        return link_name(self.name)

    def seat(self, role: str) -> int:
        """The last number of its addresses: this machine is 1."""
        return 1 if role == ROOT else 2 + self.roles.index(role)

    def number(self, guest: str) -> int:
        """The guest's number, counted from 0."""
        return self.guests.index(guest)

    def uid(self, guest: str) -> int:
        """The user that the processes of a guest run as."""
        return FIRST_GUEST_UID + self.number(guest)

    def plan(self, guest: str) -> GuestPlan:
        """The plan of a guest."""
        return next(plan for plan in self.topology.guests if plan.role == guest)

    def container(self, role: str) -> ContainerPlan:
        """The plan of a container."""
        return next(plan for plan in self.topology.containers if plan.role == role)

    def on(self, role: str) -> str:
        """The host that runs a guest or a container; of a container it may be a guest."""
        return self.container(role).on if role in self.containers else self.plan(role).on

    @property
    def accelerators(self) -> str:
        """The guests' accelerators: uml, kvm, tcg, or several of them."""
        return ", ".join(sorted({plan.accelerator for plan in self.topology.guests}))

    @property
    def wakeups(self) -> str:
        """Of guests of User-Mode Linux: kept, lossy, or both; empty where there are none."""
        kinds = {plan.wakeups for plan in self.topology.guests if plan.accelerator == "uml"}
        return ", ".join(sorted(kinds - {""}))

    @property
    def engines(self) -> str:
        """The containers' engines: docker, crun, runc, or several; those in guests named apart."""
        plans = self.topology.containers
        inner = sorted({plan.engine for plan in plans if plan.on in self.guests})
        engines = sorted({plan.engine for plan in plans if plan.on in self.hosts})
        return ", ".join([*engines, *(f"{engine} in guests" for engine in inner)])

    @property
    def with_disks(self) -> dict[str, GuestPlan]:
        """The guests that have disks."""
        return {plan.role: plan for plan in self.topology.guests if plan.disks}

    def disks_of(self, guest: str) -> dict[str, str]:
        """Descriptions of a guest's disks, by the name that it has for each."""
        plan = self.plan(guest)
        return {
            device(number, plan.accelerator): str(disk) for number, disk in enumerate(plan.volumes)
        }

    def guests_on(self, host: str) -> list[GuestPlan]:
        """The guests that a host runs."""
        return self.topology.guests_on(host)

    def control(self, role: str) -> str:
        """The address that SSH goes to."""
        return str(control_net(self.pair)[self.seat(role)])

    def data(self, role: str) -> str:
        """The address that test traffic goes to."""
        return str(data_net(self.pair)[self.seat(role)])

    def interface(self, role: str) -> str:
        """The interface that carries test traffic."""
        if role in self.guests:
            return GUEST_INTERFACE
        if role in self.hosts:
            return HOST_INTERFACE
        plan = self.container(role)
        return CONTAINER_INTERFACE if plan.network == "bridge" else self.interface(plan.on)

    def mac(self, net: int, role: str) -> str:
        """A hardware address that no other link of any box has."""
        return f"{OUR_MAC}:{self.pair:02x}:{net:02x}:{self.seat(role):02x}"

    @property
    def switch_mac(self) -> str:
        """The hardware address of the data network's bridge."""
        return self.mac(5, ROOT)

    @property
    def probe(self) -> str:
        """The switch's address on the data network while it measures links."""
        return str(data_net(self.pair)[PROBE_SEAT])

    def cpus_of(self, role: str) -> tuple[int, ...]:
        """Its share of the CPUs; a guest has those of its host, and so a container by default."""
        if role in self.containers and (text := self.container(role).cpus):
            return HostPlan(role, text).among(self.cpus, self.nodes)
        return self._host(self.host_of(role)).among(self.cpus, self.nodes)

    def host_of(self, role: str) -> str:
        """The host that a machine is on in the end, be it within a guest."""
        return role if role in self.hosts else self.host_of(self.on(role))

    def memory_of(self, role: str) -> str:
        """The most that a host or container may use, empty without a limit; what a guest has."""
        if role in self.containers:
            return self.container(role).memory
        return self._host(role).memory if role in self.hosts else self.plan(role).memory

    def has_scratch(self, role: str) -> bool:
        """Whether a machine has a folder on a disk: with its host, a guest if it has a disk."""
        with_disk = role not in self.guests or bool(self.plan(role).disks)
        within = role in self.hosts or self.has_scratch(self.on(role))
        return bool(self._host(self.host_of(role)).scratch) and with_disk and within

    def shares_scratch(self, host: str) -> bool:
        """Whether that folder is one that several hosts have."""
        return self._host(host).scratch == SHARING

    def limits(self, host: str) -> Limits:
        """The limits on the processes of a host, those of its guests included."""
        host_plan, cpus = self._host(host), self.cpus_of(host)
        return Limits(host_plan.mebibytes, "" if {*cpus} == {*self.cpus} else ranges(cpus))

    def _host(self, role: str) -> HostPlan:
        return next(plan for plan in self.topology.hosts if plan.role == role)

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """The layout that `to_json` wrote."""
        document = json.loads(text)
        made_of = document["topology"]
        topology = Topology(
            made_of["name"],
            tuple(HostPlan(**host) for host in made_of["hosts"]),
            tuple(_guest(**guest) for guest in made_of["guests"]),
            tuple(LinkPlan(**link) for link in made_of.get("links", ())),
            tuple(ContainerPlan(**container) for container in made_of.get("containers", ())),
        )
        files = (document["kernel"], document["image"], document.get("loader", ""),
                 tuple(map(tuple, document.get("nodes", ()))))  # fmt: skip
        return cls(document["name"], document["pair"], tuple(document["cpus"]), topology, *files)


def _guest(*, disks: Sequence[str] = (), **fields: str) -> GuestPlan:
    return GuestPlan(**fields, disks=tuple(disks))


@functools.cache
def control_net(pair: int) -> IPv4Network:
    """The subnet for SSH of box number `pair`."""
    return IPv4Network((int(BENCHMARKING.network_address) + (2 * pair << 8), 24))


@functools.cache
def data_net(pair: int) -> IPv4Network:
    """The subnet for test traffic of box number `pair`."""
    return IPv4Network((int(BENCHMARKING.network_address) + ((2 * pair + 1) << 8), 24))


def link_name(name: str) -> str:
    """The link in this machine's own network that leads to box `name`.

    The kernel takes 15 letters; a longer name is cut there, and made its own by a checksum.
    """
    if len(name) <= MOST_IN_A_LINK:
        return f"lk-{name}"
    return f"lk-{name[: MOST_IN_A_LINK - 5]}-{zlib.crc32(name.encode()) & 0xFFFF:04x}"


def check_name(name: str) -> None:
    """Refuse a name that could not name links, folders and hosts."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be the name of a box",
            hint="use 1 to 20 small letters, digits and dashes, a letter first",
        )
