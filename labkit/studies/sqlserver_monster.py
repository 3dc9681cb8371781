"""Few large virtual machines compared with many small ones that fill the same host."""

from collections.abc import Iterable
from typing import Any

from labkit.box.growing import numbered
from labkit.condition import Condition
from labkit.setting import Setting
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_cpu import GuestCores
from labkit.settings.guest_power import GuestPower
from labkit.settings.guest_size import VirtualNuma
from labkit.study import Had, OfDocument, Study
from labkit.workloads.dvdstore import DvdStore

FITTING = {"small": 2, "large": 1, "larger": 1}
"""Guests that fill the smallest host: the document's has eight of 8 CPUs, four of 16, two of 32."""
KINDS = {8: "guest", 16: "large", 32: "larger", 64: "largest"}
"""Roles of the first guests, by their CPUs."""
SMALL, LARGE = KINDS[8], KINDS[16]
USERS = 4
"""Customers of each small guest; the others share as many as all small ones have together."""
SCALED = "scaled to the box, PostgreSQL in place of SQL Server, guests emulated by QEMU"
BUSY = ("steal", "busy client", "clock step", "paused")


def _resting(guests: Iterable[str]) -> dict[str, Any]:
    """These guests do not run, and whatever else is set of them is left so."""
    names = tuple(guests)
    nodes = (VirtualNuma(vm=LARGE, cpus_per_node=1),) if LARGE in names else ()
    owned = (ExclusiveCpu(guest=SMALL),) if SMALL in names else ()
    paused = tuple(GuestPower("paused", guest) for guest in names)
    return {"optional": paused, "indifferent": (*nodes, *owned)}


def _conditions(small: int, large: int, larger: int) -> tuple[Condition, ...]:
    counts = {8: small, 16: large, 32: larger, 64: 1}
    named = {cpus: numbered(KINDS[cpus], many) for cpus, many in counts.items()}
    customers = {cpus: max(1, USERS * small // many) for cpus, many in counts.items()}
    every = (*named[16], *named[8])

    def run(
        where: str | tuple[str, ...], cpus: int, name: str, means: str, stand_in: str,
        *settings: Setting,
    ) -> Condition:  # fmt: skip
        guests = (where,) if isinstance(where, str) else where
        return Condition(
            name, means, stand_in, (*(GuestPower("on", guest) for guest in guests), *settings),
            roles={"server": where}, expects=BUSY, in_guest=True,
            knobs={} if cpus == 8 else {"users": customers[cpus]},
            **_resting(guest for guest in every if guest not in guests),
        )  # fmt: skip

    def fill(cpus: int, means: str, stand_in: str) -> Condition:
        return run(named[cpus], cpus, f"VM [vcpus={cpus}]", means, stand_in)

    return (
        fill(8, "eight guests of eight CPUs fill the host",
              f"{SCALED}: {small} guests"),
        fill(16, "guests of sixteen CPUs fill the host",
              f"{SCALED}: {large} of twice as many CPUs, with as many customers in all"),
        fill(32, "guests of thirty-two CPUs fill the host",
              f"{SCALED}: of four times as many CPUs; none on fewer than four CPUs"),
        fill(64, "one guest of sixty-four CPUs fills the host",
              f"{SCALED}: with all CPUs; none on fewer than eight"),
        run(LARGE, 16, "VM [cpus=cores]", "a guest whose CPUs are bound to physical cores",
            f"{SCALED}: the guest of two CPUs on two cores, where these have hyper-threads",
            GuestCores(vm=LARGE)),
        run(LARGE, 16, "VM [cpus=threads]", "the same guest bound to as many hyper-threads",
            f"{SCALED}: the same guest on the two hyper-threads of one core",
            GuestCores(vm=LARGE, each="threads")),
        run(LARGE, 16, "VM [vnuma=1]", "a guest whose CPUs are shown as nodes of their own",
            f"{SCALED}: the guest of two CPUs sees each of them as a NUMA node",
            VirtualNuma(vm=LARGE, cpus_per_node=1)),
        run(SMALL, 8, "VM", "a guest as it comes",
            f"{SCALED}: one guest of one CPU, and the other CPU idle but for the customers",
            ExclusiveCpu(False, guest=SMALL)),
        run(SMALL, 8, "VM, latency-sensitive", "a guest with Latency Sensitivity set to High",
            f"{SCALED}: the same guest with real-time priority, on the host's last CPU",
            ExclusiveCpu(guest=SMALL)),
    )  # fmt: skip


study = Study(
    name="sqlserver_monster",
    title="Monster virtual machines: few large ones against many small ones",
    question="How many orders a minute does a host process with guests of few CPUs and of many? "
    "And what do affinity, nodes and latency sensitivity change?",
    source="Monster Performance with SQL Server VMs on vSphere 5.5",
    workload=DvdStore(duration=10, warm_up=8, users=USERS, buffers=32),
    quick={"repeats": 1, "duration": 4, "warm_up": 6},
    metric="orders per minute", unit="1/min", topology="monsters",
    conditions=_conditions(**FITTING), sizes=FITTING, made=_conditions,
    grows={"small": "guest", "large": "large", "larger": "larger"},
    document=OfDocument(
        {"small": 8, "large": 4, "larger": 2},
        {"server": Had(cpus=64), **{role: Had(cpus=cpus) for cpus, role in KINDS.items()}},
    ),
    takes={"sqlserver-monster-03": "hyper-threads and CPUs to spare"},
)  # fmt: skip
