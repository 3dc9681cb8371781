"""Places in a box: addresses, hardware addresses and CPUs, all from its name and number."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network

from labkit.box.guests.disk import device
from labkit.box.network.link import LinkPlan
from labkit.box.topology import ContainerPlan, GuestPlan, HostPlan, Topology
from labkit.errors import BadInput
from labkit.machine.cpus import ranges

NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
MOST_IN_A_LINK = 12
"""Letters of a box's name in that of its link, behind `lk-`."""
BENCHMARKING = IPv4Network("198.18.0.0/15")
"""Set aside for tests between networks (RFC 2544), so nothing real is there."""
NETS = tuple(BENCHMARKING.subnets(new_prefix=24))
PAIRS = len(NETS) // 2
ROOT = "root"
"""The role of this machine itself, at the first address of the control network."""
PROBE_SEAT = 254
"""The seat of the switch on the data network while it measures links."""
SWITCH_MAC = 5, ROOT
"""Numbers the hardware address of the data network's bridge."""
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
        return (self.container(role) if role in self.containers else self.plan(role)).on

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

    def cpus_of(self, role: str) -> tuple[int, ...]:
        """Its share of the CPUs; a guest has those of its host, and so a container by default."""
        if role in self.containers and (text := self.container(role).cpus):
            return HostPlan(role, text).among(self.cpus, self.nodes)
        return self._host(self.host_of(role)).among(self.cpus, self.nodes)

    def host_of(self, role: str) -> str:
        """The host that a machine is on in the end, be it within a guest."""
        return role if role in self.hosts else self.host_of(self.on(role))

    def memory_of(self, role: str) -> str:
        """The most that a container may use, empty without a limit; what a guest has."""
        if role in self.hosts:
            return ""
        return (self.container(role) if role in self.containers else self.plan(role)).memory

    def scratch(self, role: str) -> str:
        """The kind of folder on a disk that a machine has with its host; a guest if it has one."""
        if role in self.hosts:
            return self._host(role).scratch
        lacks = role in self.guests and not self.plan(role).disks
        return "" if lacks else self.scratch(self.on(role))

    def limit(self, host: str) -> str:
        """The CPUs of a host and its guests; empty where it may have all."""
        cpus = self.cpus_of(host)
        return "" if {*cpus} == {*self.cpus} else ranges(cpus)

    def _host(self, role: str) -> HostPlan:
        return next(plan for plan in self.topology.hosts if plan.role == role)

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """The layout that `to_json` wrote."""
        fields = json.loads(text)
        made_of = fields["topology"]
        topology = Topology(
            made_of["name"],
            tuple(HostPlan(**host) for host in made_of["hosts"]),
            tuple(GuestPlan(**guest | {"disks": tuple(guest["disks"])})
                  for guest in made_of["guests"]),
            tuple(LinkPlan(**link) for link in made_of["links"]),
            tuple(ContainerPlan(**container) for container in made_of["containers"]),
        )  # fmt: skip
        nodes = tuple(map(tuple, fields["nodes"]))
        return cls(**fields | {"cpus": tuple(fields["cpus"]), "topology": topology, "nodes": nodes})


def control_net(pair: int) -> IPv4Network:
    """The subnet for SSH of box number `pair`."""
    return NETS[2 * pair]


def data_net(pair: int) -> IPv4Network:
    """The subnet for test traffic of box number `pair`."""
    return NETS[2 * pair + 1]


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
