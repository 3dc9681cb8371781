"""The document's scale on a lab: what it takes, and what the lab lacks; known before the start."""

import re
from collections.abc import Iterator, Mapping

from labkit.box import topology
from labkit.box.box import DEFAULT
from labkit.box.machine import Machine
from labkit.errors import BadInput
from labkit.runs.capacity import Capacity
from labkit.study import DOCUMENT, FIT, Had, Study

FIRMWARE = 0.9
"""The share of its memory that a machine shows at least: its firmware takes some."""
GIB = 1 << 20
"""In KiB."""


def takes(study: Study) -> list[str]:
    """Sizes and machines of the document, and the line between them: a text each."""
    sizes = ", ".join(f"{name} = {value}" for name, value in study.document.sizes.items())
    machines = []
    for role, had in study.document.machines.items():
        parts = {"CPUs": had.cpus, "GiB": had.gib, "NUMA nodes": had.nodes}
        texts = [f"{value:g} {unit}" for unit, value in parts.items() if value]
        machines.append(f"{role}: {', '.join(texts)}")
    line = [f"line: {study.document.line:g} Gbit/s"] if study.document.line else []
    return [*([sizes] if sizes else []), *machines, *line]


def of_box(study: Study, machine: Machine) -> list[str]:
    """Lacks of a box on this machine, against the document's scale: a text each."""
    plan = topology.find(study.topology or DEFAULT, machine)
    machines = {guest.role: Had(int(guest.vcpus), guest.mebibytes / 1024) for guest in plan.guests}
    for host in plan.hosts:
        cpus = {*host.among(machine.cpus, machine.by_node)}
        nodes = sum(bool(cpus & {*node}) for node in machine.by_node)
        machines[host.role] = Had(len(cpus), machine.free / 1024, nodes)
    bits, line = plan.link("client").bits, study.document.line
    slow = [f"the line: {bits / 1e9:g} of {line:g} Gbit/s"] if 0 < bits < line * 1e9 else []
    return [*_absent(study, {*plan.roles}), *_smaller(study, machines), *slow]


def of_hosts(study: Study, capacities: Mapping[str, Capacity]) -> list[str]:
    """Lacks of hosts that were asked, against the document's scale: a text each."""
    hosts = capacities.items()
    machines = {name: Had(host.cpus, host.memory / GIB, host.nodes) for name, host in hosts}
    return list(_smaller(study, machines))


def check_box(study: Study) -> None:
    """Refuse the document's scale where a box here cannot carry it, before the box is started."""
    if study.scale == DOCUMENT:
        refuse(study, "a box on this machine", of_box(study, Machine.read()))


def refuse(study: Study, place: str, lacks: list[str]) -> None:
    """Refuse the document's scale for what is lacking, if anything is."""
    if lacks:
        command = f"labkit plan {study.name} -p scale=document"
        hint = f"scale = {FIT}, or single sizes: `{command}` lists all of them"
        problem = f"{study.name}: {place} cannot carry the document's scale"
        raise BadInput(problem, said="; ".join(lacks), hint=hint)


# All that the conditions play a role with; those that follow each other stand as a span.
def _absent(study: Study, roles: set[str]) -> Iterator[str]:
    players = dict.fromkeys(
        player for c in study.conditions for load in study.loads for role in load.roles
        for player in c.players(role)
    )  # fmt: skip
    families: dict[str, list[str]] = {}
    for player in sorted(players.keys() - roles, key=_number):
        families.setdefault(player.rstrip("0123456789"), []).append(player)
    for names in families.values():
        yield f"no {' to '.join(dict.fromkeys((names[0], names[-1])))}"


def _number(role: str) -> int:
    return int(re.sub(r"\D", "", role) or 1)


def _smaller(study: Study, machines: Mapping[str, Had]) -> Iterator[str]:
    for role, had in study.document.machines.items():
        like = {name: host for name, host in machines.items() if name.rstrip("0123456789") == role}
        lacks: dict[str, list[str]] = {}
        for name, host in sorted(like.items(), key=lambda item: _number(item[0])):
            lacks.setdefault(_lack(had, host), []).append(name)
        for lack, names in lacks.items():
            yield from [f"{', '.join(names)}: {lack}"] if lack else []


def _lack(had: Had, host: Had) -> str:
    parts = (("CPUs", host.cpus, had.cpus, 1), ("GiB", host.gib, had.gib, FIRMWARE),
             ("NUMA nodes", host.nodes, had.nodes, 1))  # fmt: skip
    return ", ".join(f"{have:.3g} of {need:g} {unit}" for unit, have, need, share in parts
                     if have < need * share)  # fmt: skip
