"""Whether this machine has room for a box: looked at before anything of it is started.

That is CPUs, memory, disk, and two subnets that nothing here uses.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Network
from typing import Any

from labkit.box.folder import BOXES, SCRATCH
from labkit.box.layout import BENCHMARKING, PAIRS, control_net, data_net
from labkit.box.machine import Machine
from labkit.box.processes import run
from labkit.box.topology import Topology
from labkit.errors import BoxError
from labkit.machine.cpus import ranges

PROGRAMS = ("ip",)

HOST_KIB, GUEST_KIB, OWN_KIB = 64, 256, 512
"""Of the files of a box; what a host writes is in its memory."""


def check(plan: Topology) -> None:
    """Refuse a box that would come to a stop half-way, and say what to change."""
    check_machine(plan, Machine.read())
    _check_disk(plan)


def check_machine(plan: Topology, machine: Machine) -> None:
    """Refuse a box for which a machine lacks CPUs or memory."""
    for host in plan.hosts:
        if absent := {*host.among(machine.cpus, machine.by_node)} - {*machine.cpus}:
            raise BoxError(
                f"{plan.name}: {host.role} wants CPUs {sorted(absent)}",
                said=f"the box may use {sorted(machine.cpus)}",
                hint='cpus = "all", "first half" and "second half" fit every machine',
            )
    need = sum(guest.mebibytes for guest in plan.guests)
    if need > machine.free:
        raise BoxError(
            f"{plan.name}: its guests want {need} MiB, and {machine.free} MiB are free",
            hint="give them less memory, or use fewer",
        )


def planned(plan: Topology, machine: Machine) -> str:
    """The sizes of a topology on a machine, in words: known before anything of it is started."""
    hosts = [
        f"{host.role} on CPUs {ranges(host.among(machine.cpus, machine.by_node))}"
        for host in plan.hosts
    ]
    families: dict[str, list[str]] = {}
    for guest in plan.guests:
        cpus = f"{guest.vcpus} CPU{'s' * (guest.vcpus != '1')}"
        title = f"{_family(guest.role)} ({cpus}, {guest.mebibytes} MiB each)"
        families.setdefault(title, []).append(guest.role)
    for container in plan.containers:
        families.setdefault(_family(container.role), []).append(container.role)
    inner = [
        title.replace(_family(first), " to ".join(dict.fromkeys([first, *others[-1:]])), 1)
        for title, (first, *others) in families.items()
    ]
    return ", ".join([*hosts, *inner])


def _family(role: str) -> str:
    return role.rstrip("0123456789")


def _check_disk(plan: Topology) -> None:
    need = OWN_KIB + HOST_KIB * len(plan.hosts) + GUEST_KIB * len(plan.guests)
    disks = [disk.mebibytes << 10 for guest in plan.guests for disk in guest.volumes]
    need += sum(disks)
    on_scratch = any(host.scratch for host in plan.hosts)
    place = SCRATCH if on_scratch else BOXES if BOXES.exists() else BOXES.parent
    space = os.statvfs(place)
    free = space.f_bavail * space.f_frsize >> 10
    if free < need:
        raise BoxError(
            f"{plan.name}: writes up to {need} KiB below {place}, and {free} KiB are free",
            hint=f"df {place}; remove what is not needed there"
            + (f", or ask for smaller disks than {sum(disks) >> 10} MiB" if disks else ""),
        )


def free_pair() -> int:
    """The number of a pair of subnets that is free; the caller keeps other boxes from choosing."""
    used, promises = list(_in_use()), set(_promises())
    for pair in range(PAIRS):
        nets = (control_net(pair), data_net(pair))
        if pair not in promises and not any(net.overlaps(a) for net in nets for a in used):
            return pair
    raise BoxError(
        f"no free subnet for the box in {BENCHMARKING}",
        said=", ".join(str(net) for net in used),
        hint="`ip route` shows who uses that range",
    )


# A box of another version of labkit may be made of what this one does not know.
def _promises() -> Iterable[int]:
    for file in BOXES.glob("*/box.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            yield int(json.loads(file.read_text())["pair"])


# A route to everything is no sign that the range is used.
def _in_use() -> Iterable[IPv4Network]:
    routes = [route.get("dst", "") for route in _ip("route", "show", "table", "all")]
    addresses = [at for link in _ip("addr") for at in link.get("addr_info", [])]
    for text in (*routes, *(f"{at['local']}/{at['prefixlen']}" for at in addresses)):
        with suppress(ValueError):
            net = IPv4Network(text, strict=False)
            if net.overlaps(BENCHMARKING) and not net.supernet_of(BENCHMARKING):
                yield net


def _ip(*words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(run(["ip", "-4", "-j", *words]) or "[]")
    return answer
