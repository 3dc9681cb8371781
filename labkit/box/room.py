"""Whether this machine has room for a box: looked at before anything of it is started."""

import os

from labkit.box.folder import BOXES, SCRATCH
from labkit.box.machine import Machine
from labkit.box.topology import Topology
from labkit.errors import BoxError
from labkit.machine.cpus import ranges

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
