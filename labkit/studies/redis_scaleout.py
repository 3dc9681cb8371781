"""Eight Redis servers behind balancers, and one asked directly: what eight do more than one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.guest_power import GuestPower
from labkit.studies._places import place
from labkit.study import Study
from labkit.workloads.redis_scaleout import SERVERS, RedisScaleout

# Many clients with a pipeline keep their CPUs busy, and so do their balancers.
ASKING = ("busy client",)
KINDS = {"Native": "", "Native-Docker": "container", "VM": "guest", "VM-Docker": "inner"}
PLACES = ("", "2")
"""Behind the name of a kind: how many there are of each, for the servers in turn."""
GUESTS = tuple(f"guest{n}" for n in PLACES)
ONE: Mapping[str, Any] = {"servers": 1}


def _roles(kind: str) -> dict[str, str]:
    where = [f"{kind}{n}" if kind else "server" for n in PLACES]
    each = {role: where[at % len(where)] for at, role in enumerate(SERVERS)}
    return {"host": "server", **each}


def _served(name: str, one: bool) -> str:
    if one:
        return "one server"
    return "eight servers in two of these" if KINDS[name] else "eight servers"


# Guests that serve nothing are paused: those of the bare machine, and all but the first of one.
def _condition(name: str, one: bool) -> Condition:
    plain = place(name)
    used = (1 if one else len(GUESTS)) if plain.in_guest else 0
    return replace(
        plain,
        name=f"{name} [servers=1]" if one else name,
        means=f"{plain.means}: {'one server' if one else 'eight servers, each in one of its own'}",
        here=f"{plain.here}: {_served(name, one)}",
        settings=tuple(GuestPower("on", guest) for guest in GUESTS) if used else (),
        optional=() if used else tuple(GuestPower("paused", guest) for guest in GUESTS),
        roles=_roles(KINDS[name]),
        indifferent=(),
        expects=ASKING,
        knobs=ONE if one else {},
    )


PINNED = replace(
    _condition("Native", one=False),
    name="Native-pinned",
    means="Linux on the bare machine, all servers and interrupts on the CPUs of one NUMA node",
    here="as Native, with all servers on the CPUs of the first NUMA node, which may be all there "
    "are; interrupts stay where they are",
    knobs={"pin": "node"},
)

study = Study(
    name="redis_scaleout",
    title="Eight Redis servers behind balancers, beside one asked directly",
    question="How much more do eight servers do than one, on the bare machine, in containers, in "
    "virtual machines, and in both?",
    source="Bergamasco, Scaling Out Redis Performance with Docker on vSphere 6.0",
    workload=RedisScaleout(duration=2),
    quick={"repeats": 1, "duration": 1},
    few=tuple(f"{kind}{one}" for one in (" [servers=1]", "") for kind in KINDS if "VM" not in kind),
    metric="throughput",
    unit="1/s",
    topology="scaleout",
    conditions=(
        *(_condition(name, one) for one in (True, False) for name in KINDS),
        PINNED,
    ),
    claims=published.of("redis_scaleout"),
    # One CPU for each server: else a speed-up is bound to stay small.
    least_cpus={f"redis-scaleout-{n}": len(SERVERS) for n in ("06", "07", "08", "09")},
    untold={
        "kernel=3.18.1": "hosts of this lab share one kernel, which is newer",
        "kernel=3.10.0": "hosts of this lab share one kernel, which is newer",
        "node_migrations": "the CPUs of this lab are on one NUMA node, where no thread can move "
        "to another",
    },
)
