"""The parts of a box: hosts, guests and containers on them. A value, from a file or built here.

The form of a file, with every key that it may have, stands in notebooks/docs/box.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from labkit.box import growing
from labkit.box.containers.container import ENGINES
from labkit.box.guests.disk import Disk, checked
from labkit.box.machine import Machine
from labkit.box.network.link import LINK_KEYS, LinkPlan
from labkit.errors import BadInput, Unknown
from labkit.machine import records
from labkit.machine.cpus import cpus_of

BUILT_IN = Path(__file__).parent / "topologies"
DOCS = "notebooks/docs/box.md"
ROLE = re.compile(r"[a-z][a-z0-9]{0,14}", re.ASCII)
MEMORY = re.compile(r"([1-9]\d{0,5})M", re.ASCII)
LEAST_MEMORY, LEAST_QEMU_MEMORY, LEAST_CONTAINER_MEMORY = 64, 192, 16
"""MiB; with less none reaches its sshd, or has a session. The root of QEMU's is in its memory."""
AUTO, QEMU = "auto", "qemu"
HOST_ROOT = "host"
ONLY_QEMU = re.compile(r"qcow2|/s\b|=|iothread")
"""Disks that User-Mode Linux has not; it alone has some that copy on write."""
NICS = {"virtio": "virtio-net-pci", "e1000": "e1000-82545em"}
"""Kinds of data NICs of a guest of QEMU, and what QEMU calls each."""
HOST_KEYS = {"cpus", "scratch"}
GUEST_KEYS = {"on", "memory", "backing", "accelerator", "vcpus", "nic"}
CONTAINER_KEYS = {"on", "network", "cpus", "memory", "engine"}
NETWORKS = ("bridge", "host")
IN_GUESTS = ("any", "crun", "runc")
"""A guest starts programs slowly: Docker's engine would take it longer than a study."""
MOST_MACHINES = 200
SHARING = "shared"
SCRATCHES = ("disk", SHARING)
BACKINGS = ("memory", "disk")
ACCELERATORS = (AUTO, "uml", QEMU, "kvm", "tcg")
MOST_VCPUS = 64
HALVES = ("all", "first half", "second half")
ASIDE = {"one aside": "first half", "the others": "all"}
"""One CPU of each 16, and all but these; on fewer than three CPUs these."""
OF_NODES = {"half of each node": "first half", "other half of each node": "second half"}
PARTS = (*HALVES, *ASIDE, *OF_NODES)


@dataclass(frozen=True)
class HostPlan:
    """A host: namespaces and an sshd of its own, on `cpus` of the machine."""

    role: str
    cpus: str = "all"
    scratch: str = ""
    """`disk`: it has a folder on the machine's disk, its containers too, and its guests theirs on
    their first disk, whose file is there. `shared`: all hosts that say so have the same one."""

    def among(self, cpus: Sequence[int], nodes: Sequence[Sequence[int]] = ()) -> tuple[int, ...]:
        """The CPUs that it gets of those that the box may use, which lie on these NUMA nodes."""
        if self.cpus in OF_NODES:
            return tuple(cpu for node in nodes or (cpus,) for cpu in self._part(node))
        if self.cpus in ASIDE and len(cpus) > 2:
            aside = max(1, len(cpus) // 16)
            return tuple(sorted(cpus[:aside] if self.cpus == "one aside" else cpus[aside:]))
        return tuple(sorted(self._part(cpus)))

    def _part(self, cpus: Sequence[int]) -> Sequence[int]:
        part, half = {**ASIDE, **OF_NODES}.get(self.cpus, self.cpus), len(cpus) // 2
        shares = dict(zip(HALVES, (cpus, cpus[:half], cpus[half:]), strict=True))
        return (shares[part] or cpus) if part in shares else _parse_cpus(self.role, self.cpus)


@dataclass(frozen=True)
class GuestPlan:
    """A virtual machine on the host `on`, with `memory` to see."""

    role: str
    on: str
    memory: str = "128M"
    accelerator: str = AUTO
    vcpus: str = "1"
    disks: tuple[str, ...] = ()
    backing: str = "memory"
    """Of its memory: with `disk` it is a file there, so that its host can take some of it away."""
    wakeups: str = ""
    """Of User-Mode Linux, once it is chosen: kept, or lossy as its kernel has them by itself."""
    nic: str = "virtio"
    """Of QEMU: the kind of its data NIC, paravirtual or an adapter that is emulated."""
    root: str = ""
    """Of QEMU, once it is chosen: `host` where it has its host's files, and stays there."""

    @property
    def kind(self) -> str:
        """The accelerator that is asked for, be it by what only one of them has."""
        if self.accelerator != AUTO:
            return self.accelerator
        if any("cow" in str(disk).split() for disk in self.disks):
            return "uml"
        only = any(ONLY_QEMU.search(str(disk)) for disk in self.disks)
        return QEMU if only or self.vcpus != "1" or self.nic in (*NICS,)[1:] else AUTO

    def run_by(self, accelerator: str) -> Self:
        """The same as this accelerator runs it."""
        if self.kind != AUTO or accelerator in ("", "uml"):
            return replace(self, accelerator=accelerator)
        memory = f"{max(self.mebibytes, LEAST_QEMU_MEMORY)}M"
        return replace(self, accelerator=accelerator, root=HOST_ROOT, memory=memory)

    @property
    def mebibytes(self) -> int:
        """Its memory in MiB."""
        return int(self.memory[:-1])

    @property
    def volumes(self) -> tuple[Disk, ...]:
        """Its disks."""
        return checked(self.role, self.kind, self.disks)


@dataclass(frozen=True)
class ContainerPlan:
    """A container on the host or guest `on`; without `cpus` and `memory` it has what that has."""

    role: str
    on: str
    network: str = "bridge"
    """Behind the engine's bridge, or as `host`: on the host's own links."""
    cpus: str = ""
    memory: str = ""
    engine: str = "any"
    """Docker where it is installed, else crun or runc: then its networking is made as Docker's."""

    def __post_init__(self) -> None:
        for key, value, values in (
            ("network", self.network, NETWORKS), ("engine", self.engine, ENGINES)
        ):  # fmt: skip
            if value not in values:
                raise Unknown(f"{key} of container {self.role}", value, values)
        fits = MEMORY.fullmatch(self.memory) and int(self.memory[:-1]) >= LEAST_CONTAINER_MEMORY
        if self.memory and not fits:
            raise BadInput(
                f"cannot give container {self.role} {self.memory!r} of memory",
                hint=f'write it as "256M"; the least is {LEAST_CONTAINER_MEMORY}M',
            )

    @property
    def in_guest(self) -> ContainerPlan:
        """The plan as a guest runs it: for any engine, the one that needs no daemon."""
        return replace(self, engine="crun") if self.engine == "any" else self


@dataclass(frozen=True)
class Topology:
    """The machines of a box, hosts first; the order decides their addresses."""

    name: str
    hosts: tuple[HostPlan, ...]
    guests: tuple[GuestPlan, ...] = ()
    links: tuple[LinkPlan, ...] = ()
    """Links with a requested quality."""
    containers: tuple[ContainerPlan, ...] = ()

    def __post_init__(self) -> None:
        roles, count = self.roles, len(self.roles)
        self._refuse(not self.hosts, "has no hosts", "add a table [hosts.client]")
        most = f"a box has up to {MOST_MACHINES}"
        self._refuse(count > MOST_MACHINES, f"has {count} machines", most)
        for role in roles:
            form = "use up to 15 small letters and digits, a letter first"
            self._refuse(not ROLE.fullmatch(role), f"cannot have a role {role!r}", form)
            twice = roles.count(role) > 1
            self._refuse(twice, f"has {role!r} twice", "give one of them another name")
        for guest in self.guests:
            self._check_guest(guest)
        for container in self.containers:
            self._check_container(container)
        for host in self.hosts:
            if host.scratch:
                _insist_known(f"scratch of {host.role}", host.scratch, SCRATCHES)
            _ = host.cpus in PARTS or _parse_cpus(host.role, host.cpus)
        for link in self.links:
            _insist_known(
                f"host with a link in {self.name}", link.role, [h.role for h in self.hosts]
            )

    def _refuse(self, wrong: bool, problem: str, hint: str) -> None:
        _refuse(wrong, self.name, problem, hint)

    def _check_guest(self, guest: GuestPlan) -> None:
        role, uml = guest.role, guest.kind == "uml"
        _insist_known(f"host for {role} of {self.name}", guest.on, [h.role for h in self.hosts])
        _insist_known(f"accelerator of {role}", guest.accelerator, ACCELERATORS)
        low = LEAST_MEMORY if guest.kind in ("uml", AUTO) else LEAST_QEMU_MEMORY
        fits = MEMORY.fullmatch(guest.memory) and guest.mebibytes >= low
        self._refuse(
            not fits, f"cannot give {role} {guest.memory!r} of memory",
            f'write it as "256M"; the least for {guest.kind} is {low}M',
        )  # fmt: skip
        high = 1 if uml else MOST_VCPUS
        self._refuse(
            not guest.vcpus.isdecimal() or not 1 <= int(guest.vcpus) <= high,
            f"cannot give {role} {guest.vcpus!r} CPUs",
            f'accelerator "{guest.kind}" has 1 to {high}',
        )
        _insist_known(f"backing of {role}", guest.backing, BACKINGS)
        _insist_known(f"nic of {role}", guest.nic, NICS)
        emulated, problem = guest.nic != "virtio" and uml, f"a NIC of kind {guest.nic}"
        self._refuse(emulated, f"{role} cannot have {problem}", "only guests of QEMU can")
        _ = guest.volumes

    def _check_container(self, container: ContainerPlan) -> None:
        role, on = container.role, container.on
        alone = {g.role: g.kind not in (AUTO, "uml") and not g.root for g in self.guests}
        places = [*(host.role for host in self.hosts), *alone]
        _insist_known(f"host for {role} of {self.name}", on, places)
        self._refuse(
            alone.get(on, False), f"cannot run {role} in {on}",
            'guests of accelerator "auto" run containers; one that may move has no engine with it',
        )  # fmt: skip
        self._refuse(
            on in alone and container.engine not in IN_GUESTS,
            f"cannot run {role} by {container.engine} in {on}",
            f"in a guest the engine is {' or '.join(IN_GUESTS)}",
        )
        own = on in alone and bool(container.cpus)
        self._refuse(own, f"cannot give {role} CPUs of its own", f"{on} has one CPU")
        _ = container.cpus in ("", *HALVES) or _parse_cpus(role, container.cpus)

    @property
    def roles(self) -> list[str]:
        """All machines, hosts first, containers last."""
        containers = [container.role for container in self.containers]
        return [h.role for h in self.hosts] + [g.role for g in self.guests] + containers

    def guests_on(self, host: str) -> list[GuestPlan]:
        """The guests that one host runs."""
        return [guest for guest in self.guests if guest.on == host]

    def containers_on(self, host: str) -> list[ContainerPlan]:
        """The containers that one host or guest runs."""
        return [container for container in self.containers if container.on == host]

    def engined(self, choice: Callable[[str], str]) -> Topology:
        """The same with the engine that `choice` makes of each; none leaves the container out."""
        hosts = [host.role for host in self.hosts]
        choices = [(plan, choice((plan if plan.on in hosts else plan.in_guest).engine))
                   for plan in self.containers]  # fmt: skip
        able = tuple(replace(container, engine=engine) for container, engine in choices if engine)
        return replace(self, containers=able)

    def accelerated(self, choice: Callable[[str], str]) -> Topology:
        """The same with the accelerator that `choice` makes of each; none leaves the guest out."""
        guests = [guest.run_by(choice(guest.kind)) for guest in self.guests]
        able = tuple(guest for guest in guests if guest.accelerator)
        absent = {guest.role for guest in guests} - {guest.role for guest in able}
        containers = tuple(container for container in self.containers if container.on not in absent)
        return replace(self, guests=able, containers=containers)

    def woken(self, best: str) -> Topology:
        """The same, where each guest of User-Mode Linux has the `best` wake-ups of this machine."""
        guests = (replace(guest, wakeups=best if guest.accelerator == "uml" else "")
                  for guest in self.guests)  # fmt: skip
        return replace(self, guests=tuple(guests))

    def link(self, role: str) -> LinkPlan:
        """The wanted figures of one host's link; it carries what is on the host, too."""
        return next((link for link in self.links if link.role == role), LinkPlan(role))


def names() -> list[str]:
    """The topologies that come built in."""
    return sorted(path.stem for path in BUILT_IN.glob("*.toml"))


def find(name: str, machine: Machine | None = None) -> Topology:
    """A built-in topology, or the one that a file describes, as large as a machine has room for.

    Without a `machine`, it is this one.
    """
    if name.endswith(".toml"):
        return _read(Path(os.path.expanduser(name)), machine)
    if name not in names():
        raise Unknown("topology", name, [*names(), "FILE.toml"])
    return _read(BUILT_IN / f"{name}.toml", machine)


def _read(path: Path, machine: Machine | None) -> Topology:
    try:
        document = records.read_toml(path)
    except FileNotFoundError:
        raise BadInput(f"no topology {path}", hint=f"built in: {', '.join(names())}") from None
    except (OSError, ValueError) as unreadable:
        raise BadInput(
            f"{path}: cannot be read as TOML", said=str(unreadable), hint=f"{DOCS} has examples"
        ) from None
    return from_tables(path.stem, document, machine)


def from_tables(name: str, document: Mapping[str, Any], machine: Machine | None = None) -> Topology:
    """The topology that tables of TOML or JSON describe."""
    _check_keys(name, "table", document, {"hosts", "guests", "containers", "links"})
    hosts = [HostPlan(role, **_texts(name, role, table, HOST_KEYS))
             for role, table in _tables(name, document, "hosts")]  # fmt: skip
    if growing.grows(document):
        machine = machine or Machine.read()
        # A host with a CPU set aside from it, or none of its own, counts all.
        shares = {
            host.role: len(machine.cpus) if host.cpus in ("all", *ASIDE)
            else len(host.among(machine.cpus, machine.by_node)) for host in hosts
        }  # fmt: skip
        document = growing.grown(name, document, machine, shares)
    guests = []
    for role, table in _tables(name, document, "guests"):
        disks = table.get("disks", []) if isinstance(table, dict) else []
        listed = isinstance(disks, list) and all(isinstance(text, str) for text in disks)
        _refuse(not listed, name, f"{role}: disks must be a list of texts", 'disks = ["64M"]')
        texts = _texts(name, role, table, GUEST_KEYS, {"on"}, others={"disks"})
        guests.append(GuestPlan(role, **texts, disks=tuple(disks)))
    containers = [ContainerPlan(role, **_texts(name, role, table, CONTAINER_KEYS, {"on"}))
                  for role, table in _tables(name, document, "containers")]  # fmt: skip
    links = [LinkPlan(role, **_texts(name, f"link of {role}", table, LINK_KEYS))
             for role, table in _tables(name, document, "links")]  # fmt: skip
    return Topology(name, tuple(hosts), tuple(guests), tuple(links), tuple(containers))


def _tables(name: str, document: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    tables = document.get(kind, {})
    _refuse(not isinstance(tables, dict), name, f"has no tables in {kind}", f"write [{kind}.role]")
    return list(tables.items())


def _texts(
    name: str, role: str, table: Any, keys: set[str], musts: Collection[str] = (),
    others: Collection[str] = (),
) -> dict[str, str]:  # fmt: skip
    _refuse(not isinstance(table, dict), name, f"{role} is not a table", f"write [hosts.{role}]")
    _check_keys(name, f"key of {role}", table, keys | {*others})
    for key in sorted(set(musts) - set(table)):
        raise BadInput(f"{name}: {role} lacks {key} = ...", hint=f"{DOCS} explains it")
    texts = {key: value for key, value in table.items() if key not in others}
    for key, value in texts.items():
        _refuse(not isinstance(value, str), name, f"{role}: {key} must be text", f"not {value!r}")
    return texts


def _check_keys(name: str, kind: str, table: Iterable[str], keys: Collection[str]) -> None:
    for key in table:
        _insist_known(f"{kind} in {name}", key, keys)


def _insist_known(kind: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise Unknown(kind, value, known)


def _refuse(wrong: bool, name: str, problem: str, hint: str) -> None:
    if wrong:
        raise BadInput(f"{name}: {problem}", hint=hint)


def _parse_cpus(role: str, text: str) -> tuple[int, ...]:
    try:
        return cpus_of(text)
    except (BadInput, ValueError):
        raise BadInput(
            f"{role}: {text!r} is not a list of CPUs",
            hint=f"known: {', '.join(PARTS)}, or numbers such as 0-1,3",
        ) from None
