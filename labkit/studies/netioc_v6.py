"""Several kinds of traffic want one uplink: shares, reservations and limits divide it."""

from dataclasses import replace

import numpy as np

from labkit.condition import Condition
from labkit.results import Results
from labkit.setting import Setting
from labkit.settings.egress import Link, NetIoControl, Traffic
from labkit.settings.mtu import PacketsAtOnce
from labkit.settings.sockets import CongestionControl
from labkit.study import Study
from labkit.workloads.uplink import BULK, LATENCY, MIGRATION, STORAGE, WIRE, Uplink

LINE = 500
"""Mbit/s of the uplink: slower than anything that sends, so that the line is what is divided."""
FLOW = Traffic(LATENCY, 100, reservation_mbit=20)
"""The latency flow sends little; within its reservation it waits for nobody's turn."""
SHARED = (FLOW, Traffic(STORAGE, 100), Traffic(BULK, 25), Traffic(MIGRATION, 75))
RESERVED = 150
"""Mbit/s that storage has for itself where it has hardly a share."""
SCARCE = (FLOW, Traffic(STORAGE, 1, RESERVED), Traffic(BULK, 100), Traffic(MIGRATION, 100))
LIMIT = 60
LIMITED = (*SHARED[:3], replace(SHARED[3], limit_mbit=LIMIT))
SENDING = (PacketsAtOnce(1), CongestionControl("reno"))
"""A queue that gets 64 KB as one piece divides by turns of that, whatever the shares.

A stream under bbr has too little under way to use its turn; any network namespace may use reno.
"""
FILLED = ("retransmits",)
"""A line that is full drops packets: so TCP learns how fast it is."""
PACED = "storage asks for 200 Mbit/s"


def conditions(line: int = LINE) -> tuple[Condition, ...]:
    """Conditions on an uplink of `line` Mbit/s; reservations stay as they are."""
    divided = {kind: NetIoControl(line, traffic) for kind, traffic in (
        ("shares", SHARED), ("reservation", SCARCE), ("limit", LIMITED),
    )}  # fmt: skip
    queue = f"one queue of {line} Mbit/s (tc tbf)"
    classes = f"classes of a queue of {line} Mbit/s (tc htb)"

    def condition(name: str, means: str, here: str, setting: Setting, **knobs: int) -> Condition:
        return Condition(name, means, here, (*SENDING, setting), knobs=knobs, in_guest=False,
                         expects=FILLED)  # fmt: skip

    return (
        condition("No NetIOC, alone", "one kind of traffic at a time, and no I/O control",
                  f"{queue}, {PACED}", Link(line), alone=True),
        condition("NetIOC, alone", "one kind of traffic at a time, under I/O control",
                  f"{classes}, {PACED}", divided["shares"], alone=True),
        condition("No NetIOC, contended", "all kinds of traffic at once, and no I/O control",
                  f"{queue}, {PACED}", Link(line)),
        condition("NetIOC, contended", "all kinds of traffic at once, divided by shares",
                  f"{classes} by shares: storage 100, bulk 25, migration 75; {PACED}",
                  divided["shares"]),
        condition("Reserved, contended", "all kinds at once, one of them with a reservation",
                  f"{classes}: {RESERVED} Mbit/s for storage, which has 1 share of 201",
                  divided["reservation"], writes=8, storage_mbit=0, reserved_mbit=RESERVED),
        condition("Limited, contended", "all kinds at once, one of them with a limit",
                  f"{classes} by the same shares, a migration of {LIMIT} Mbit/s at most; {PACED}",
                  divided["limit"]),
    )  # fmt: skip


def over(study: Study, line: int) -> Study:
    """The study on an uplink of `line` Mbit/s."""
    return replace(study, conditions=conditions(line))


def reserved(study: Study) -> dict[str, float]:
    """Mbit/s that a reservation leaves for what storage sends, by the conditions with one."""
    knobs = {condition.name: condition.knobs for condition in study.conditions}
    return {name: float(some["reserved_mbit"]) / WIRE for name, some in knobs.items()
            if "reserved_mbit" in some}  # fmt: skip


def rates(study: Study, results: Results) -> dict[str, list[float]]:
    """Mbit/s of storage, bulk and migration under each condition in which all are there."""
    measured = study.measured(results)
    kinds = ("", "bulk_throughput: ", "migration_throughput: ")
    names = (condition.name for condition in study.conditions)
    return {
        name: [float(np.mean([v.mean() for v in measured[f"{kind}{name}"].values()]))
               for kind in kinds]
        for name in names if f"{kinds[-1]}{name}" in measured
    }  # fmt: skip


study = Study(
    name="netioc_v6",
    title="Fair shares: four kinds of traffic on one uplink",
    question="Do shares, reservations and limits keep one kind of traffic from another's harm? "
    "And what do they cost where nobody competes?",
    source="Network I/O Control in vSphere 6 (announcement of a paper)",
    workload=Uplink(), quick={"repeats": 1, "duration": 1},
    metric="throughput", unit="Mbit/s", topology="uplink",
    conditions=conditions(),
)  # fmt: skip
