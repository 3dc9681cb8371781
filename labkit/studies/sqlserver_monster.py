"""Few large virtual machines compared with many small ones that fill the same host."""

from __future__ import annotations

from typing import Any

from labkit.claims import published
from labkit.condition import Condition
from labkit.setting import Setting
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_cores import GuestCores
from labkit.settings.guest_power import GuestPower
from labkit.settings.guest_size import VirtualNuma
from labkit.study import Study
from labkit.workloads.dvdstore import DvdStore

SMALL, LARGE = ("guest", "guest2"), "large"
SCALED = "scaled to the box, PostgreSQL in place of SQL Server, guests emulated by QEMU"
BUSY = ("steal", "busy client", "clock step", "paused")


def _resting(*guests: str) -> dict[str, Any]:
    """These guests do not run, and whatever else is set of them is left so."""
    own = (
        (VirtualNuma(vm=LARGE, cpus_per_node=1),) if LARGE in guests else (),
        (ExclusiveCpu(guest=SMALL[0]),) if SMALL[0] in guests else (),
    )
    paused = tuple(GuestPower("paused", guest) for guest in guests)
    return {"optional": paused, "indifferent": (*own[0], *own[1])}


def _alone(guest: str, name: str, means: str, here: str, *settings: Setting) -> Condition:
    others = [one for one in (LARGE, *SMALL) if one != guest]
    return Condition(
        name, means, here, (GuestPower("on", guest), *settings), roles={"server": guest},
        expects=BUSY, knobs={"users": 8} if guest == LARGE else {}, in_guest=True,
        **_resting(*others),
    )  # fmt: skip


study = Study(
    name="sqlserver_monster",
    title="Monster virtual machines: few large ones against many small ones",
    question="How many orders a minute does a host process with guests of few CPUs and of many? "
    "And what do affinity, nodes and latency sensitivity change?",
    source="Monster Performance with SQL Server VMs on vSphere 5.5",
    workload=DvdStore(duration=10, warm_up=8, users=4, buffers=32),
    quick={"repeats": 1, "duration": 4, "warm_up": 6},
    metric="orders per minute",
    unit="1/min",
    topology="monsters",
    conditions=(
        Condition(
            "VM [vcpus=8]",
            means="eight guests of eight CPUs fill the host",
            here=f"{SCALED}: two guests of one CPU",
            settings=tuple(GuestPower("on", guest) for guest in SMALL),
            roles={"server": SMALL},
            expects=BUSY,
            in_guest=True,
            **_resting(LARGE),
        ),
        _alone(LARGE, "VM [vcpus=16]", "guests of sixteen CPUs fill the host",
               f"{SCALED}: one guest of two CPUs, with as many customers as the two small ones"),
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
        _alone(LARGE, "VM [cpus=cores]", "a guest whose CPUs are bound to physical cores",
               f"{SCALED}: the guest of two CPUs on two cores, where these have hyper-threads",
               GuestCores(vm=LARGE)),
        _alone(LARGE, "VM [cpus=threads]", "the same guest bound to as many hyper-threads",
               f"{SCALED}: the same guest on the two hyper-threads of one core",
               GuestCores(vm=LARGE, each="threads")),
        _alone(LARGE, "VM [vnuma=1]", "a guest whose CPUs are shown as nodes of their own",
               f"{SCALED}: the guest of two CPUs sees each of them as a NUMA node",
               VirtualNuma(vm=LARGE, cpus_per_node=1)),
        _alone(SMALL[0], "VM", "a guest as it comes",
               f"{SCALED}: one guest of one CPU, and the other CPU idle but for the customers",
               ExclusiveCpu(False, guest=SMALL[0])),
        _alone(SMALL[0], "VM, latency-sensitive", "a guest with Latency Sensitivity set to High",
               f"{SCALED}: the same guest with real-time priority, on the host's last CPU",
               ExclusiveCpu(guest=SMALL[0])),
    ),
    claims=published.of("sqlserver_monster"),
    takes={"sqlserver-monster-03": "hyper-threads and CPUs to spare"},
)  # fmt: skip
