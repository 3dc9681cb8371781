"""Eight Redis servers behind balancers, and one asked directly: what eight do more than one."""

from dataclasses import replace
from typing import Any

from labkit.box.growing import numbered
from labkit.condition import Condition
from labkit.settings.guest_power import GuestPower
from labkit.settings.processes import FIRST_NODE, TEST_NIC, InterruptCpus, ServiceRunning
from labkit.studies._places import place
from labkit.study import Had, OfDocument, Study
from labkit.workloads.redis_scaleout import SERVERS, RedisScaleout

# Many clients with a pipeline keep their CPUs busy, and so do their balancers.
ASKING = ("busy client",)
KINDS = {"Native": "", "Native-Docker": "container", "VM": "guest", "VM-Docker": "inner"}
FITTING = 2
"""Guests, and containers of each kind, on the smallest lab; a larger one has up to eight."""


# Guests that serve nothing are paused: those of the bare machine, and all but the first of one.
def _condition(name: str, alone: bool, many: int) -> Condition:
    plain, guests, kind = place(name), numbered("guest", many), KINDS[name]
    where = numbered(kind, many) if kind else ("server",)
    used = (1 if alone else len(guests)) if plain.in_guest else 0
    knobs: dict[str, Any] = {"servers": 1} if alone else {}
    if used:
        knobs["guests"] = guests[:used]
    several = f"eight servers in {many} of these" if kind else "eight servers"
    return replace(
        plain,
        name=f"{name} [servers=1]" if alone else name,
        means=f"{plain.means}: "
        f"{'one server' if alone else 'eight servers, each in one of its own'}",
        here=f"{plain.here}: {'one server' if alone else several}",
        settings=tuple(GuestPower("on", guest) for guest in guests) if used else (),
        optional=() if used else tuple(GuestPower("paused", guest) for guest in guests),
        roles={"host": "server", **{r: where[n % len(where)] for n, r in enumerate(SERVERS)}},
        indifferent=(), expects=ASKING, knobs=knobs,
    )  # fmt: skip


# A box has neither an irqbalance nor interrupts of its own, so it cannot do what is asked.
def _pinned(many: int) -> Condition:
    plain = _condition("Native", False, many)
    return replace(
        plain,
        name="Native-pinned",
        means="Linux on the bare machine, all servers and interrupts on the CPUs of one NUMA node",
        here="not in the box: its network has no interrupts that could be bound to CPUs",
        settings=(*plain.settings, ServiceRunning("irqbalance", False),
                  InterruptCpus(TEST_NIC, FIRST_NODE)),
        knobs={"pin": "node"},
    )  # fmt: skip


def _conditions(guests: int) -> tuple[Condition, ...]:
    conditions = (_condition(name, alone, guests) for alone in (True, False) for name in KINDS)
    return (*conditions, _pinned(guests))


study = Study(
    name="redis_scaleout",
    title="Eight Redis servers behind balancers, beside one asked directly",
    question="How much more do eight servers do than one, on the bare machine, in containers, in "
    "virtual machines, and in both?",
    source="Bergamasco, Scaling Out Redis Performance with Docker on vSphere 6.0",
    workload=RedisScaleout(duration=2), quick={"repeats": 1, "duration": 1},
    few=tuple(f"{kind}{one}" for one in (" [servers=1]", "") for kind in KINDS if "VM" not in kind),
    metric="throughput", unit="1/s", topology="scaleout",
    conditions=_conditions(FITTING), sizes={"guests": FITTING}, made=_conditions,
    grows={"guests": "guest"},
    document=OfDocument(
        {"guests": 8, "keys": 250_000_000},
        {"server": Had(cpus=32, gib=96, nodes=2), "guest": Had(cpus=2, gib=11)}, line=10,
    ),
    # One CPU for each server: else a speed-up is bound to stay small, and no thread can move.
    least_cpus={f"redis-scaleout-{n}": len(SERVERS) for n in ("06", "07", "08", "09", "12")},
    unmeasured={
        "kernel=3.18.1": "labkit starts no host with another kernel",
        "kernel=3.10.0": "labkit starts no host with another kernel",
    },
)  # fmt: skip
