"""Conditions of both studies on Hadoop: nodes on bare hosts, or in guests that divide them."""

from typing import Any

from labkit.box.growing import numbered
from labkit.condition import Condition
from labkit.settings.guest_power import GuestPower
from labkit.study import Had, OfDocument
from labkit.workloads.terasort import NODES, SLOT

TOPOLOGY = "hadoop"
HOSTS, QUAD, TEN = 32, 8, 20
"""The document's hosts, and CPUs of each: two sockets with four cores, later with ten."""
BUSY = ("busy client", "retransmits")
"""A shuffle fills links, and their queues drop what is too much."""
MANY = {1: "one", 2: "two", 4: "four", 10: "ten", 20: "twenty"}
STAND_IN = "hosts on this machine's own kernel in place of virtual machines"
REPLACED = (
    "hosts on this machine's own kernel stand in for virtual machines and share its CPUs, so the "
    "substitute decides"
)


def of_document(of_host: int, **sizes: int) -> OfDocument:
    """Its hosts, with one task for each of their CPUs: it does not say how many there were."""
    tasks = HOSTS * of_host
    knobs = {"hosts": HOSTS, "maps": tasks, "reduces": tasks, "memory": of_host * SLOT}
    return OfDocument({**knobs, "block": 256, **sizes}, {"server": Had(cpus=of_host)})


def native(hosts: int, most: int, point: str = "", **knobs: Any) -> Condition:
    """One node on each host itself; no guest runs."""
    return Condition(
        f"Native [{point}]" if point else "Native",
        f"Hadoop on the bare machines, one node each{_processors(knobs)}",
        f"one node on each server, with {_cpus(knobs)}",
        optional=tuple(GuestPower("paused", guest) for guest in numbered("guest", hosts * most)),
        roles=_roles(numbered("server", hosts)), expects=BUSY, in_guest=False,
        knobs={"nodes": hosts, **knobs},
    )  # fmt: skip


def divided(vms: int, hosts: int, most: int, point: str = "", **knobs: Any) -> Condition:
    """The condition with this number of guests on each host, and a node in each."""
    every = numbered("guest", hosts * max(vms, most))
    many, fill = ("as many", " as it has CPUs") if point == "vms=most" else (MANY[vms], "")
    used, others = every[: hosts * vms], every[hosts * vms :]
    return Condition(
        f"VM [{point or f'vms={vms}'}]",
        f"{many} virtual machine{'s' * (vms != 1)} on each host{fill}, a node in each"
        f"{_processors(knobs)}",
        f"{STAND_IN}: {vms}, each with a node, its part of {_cpus(knobs)}, and of the memory",
        optional=(*(GuestPower("on", guest) for guest in used),
                  *(GuestPower("paused", guest) for guest in others)),
        roles=_roles(used), expects=BUSY, in_guest=True,
        knobs={"nodes": len(used), "per_host": vms, **knobs},
    )  # fmt: skip


def _processors(knobs: dict[str, Any]) -> str:
    return "; hosts of two quad-core processors" if knobs else ""


def _cpus(knobs: dict[str, Any]) -> str:
    cpus = knobs.get("cores", 0)
    return f"{cpus} of the CPUs" if cpus else "all CPUs"


# Roles beyond the nodes play no part.
def _roles(where: tuple[str, ...]) -> dict[str, str]:
    players = {role: where[at % len(where)] for at, role in enumerate(NODES)}
    return {"host": "server", **players}
