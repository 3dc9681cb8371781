"""How do few large virtual machines compare with many small ones that fill the same host?"""

from __future__ import annotations

from labkit.claims import published
from labkit.condition import Condition
from labkit.setting import Setting
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_cpu import GuestCpus
from labkit.settings.guest_power import GuestPower
from labkit.settings.guest_size import VirtualNuma
from labkit.study import Study
from labkit.workloads.dvdstore import DvdStore

SMALL, LARGE = ("guest", "guest2"), "large"
SCALED = "scaled to the box, PostgreSQL in place of SQL Server, guests emulated by QEMU"
BUSY = ("steal", "load generator", "clock step", "paused")


def running(*guests: str) -> tuple[Setting, ...]:
    """These guests run, and the others do not."""
    return tuple(GuestPower("on" if name in guests else "paused", name) for name in (LARGE, *SMALL))


def _large(name: str, means: str, here: str, *settings: Setting) -> Condition:
    return Condition(
        name, means, here, (GuestPower("on", LARGE), *settings),
        tuple(GuestPower("paused", small) for small in SMALL),
        {"server": LARGE}, expects=BUSY, in_guest=True,
    )  # fmt: skip


study = Study(
    name="sqlserver_monster",
    draft="neither its box nor its conditions have run yet",
    title="Monster virtual machines: few large ones against many small ones",
    question="How many orders a minute does a host process with guests of few CPUs and of many, "
    "and what do affinity, nodes and latency sensitivity change?",
    source="Monster Performance with SQL Server VMs on vSphere 5.5",
    workload=DvdStore(duration=20, warm_up=10, users=4, buffers=32),
    quick={"repeats": 1, "duration": 4, "warm_up": 4},
    metric="orders per minute",
    unit="1/min",
    topology="monsters",
    conditions=(
        Condition(
            "VM [vcpus=8]",
            means="eight guests of eight CPUs fill the host",
            here=f"{SCALED}: two guests of one CPU",
            settings=running(*SMALL),
            roles={"server": SMALL},
            expects=BUSY,
            in_guest=True,
        ),
        Condition(
            "VM [vcpus=16]",
            means="guests of sixteen CPUs fill the host",
            here=f"{SCALED}: one guest of two CPUs, with as many customers as the two small ones",
            settings=running(LARGE),
            roles={"server": LARGE},
            expects=BUSY,
            knobs={"users": 8},
            in_guest=True,
        ),
        Condition(
            "VM [vcpus=32]",
            means="guests of thirty-two CPUs fill the host",
            here="none: it would take four CPUs",
            roles={"server": "larger"},
            expects=BUSY,
            in_guest=True,
        ),
        Condition(
            "VM [vcpus=64]",
            means="one guest of sixty-four CPUs fills the host",
            here="none: it would take eight CPUs",
            roles={"server": "largest"},
            expects=BUSY,
            in_guest=True,
        ),
        _large("VM [cpus=cores]", "a guest whose CPUs run on eight cores",
               "none: the machine shows no hyper-threads",
               GuestCpus(vm=LARGE, cpus="0,2,4,6,8,10,12,14")),
        _large("VM [cpus=threads]", "the same guest on four cores and their hyper-threads",
               "none: the machine shows no hyper-threads", GuestCpus(vm=LARGE, cpus="0-7")),
        _large("VM [vnuma=1]", "a guest whose CPUs are shown as nodes of their own",
               "none: the box gives its guests one node", VirtualNuma(vm=LARGE, cpus_per_node=1)),
        _large("VM, latency-sensitive", "a guest with Latency Sensitivity set to High",
               f"{SCALED}: the guest of two CPUs with real-time priority, on the host's last CPU",
               ExclusiveCpu(guest=LARGE)),
    ),
    claims=published.of("sqlserver_monster"),
)  # fmt: skip
