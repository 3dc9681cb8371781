"""A database moves to a host far away while customers order from it."""

from __future__ import annotations

from labkit.claims import published as claims
from labkit.condition import Condition
from labkit.events.migration import LiveMigration
from labkit.study import Study
from labkit.workloads.dvdstore import DvdStore

MOVED = ("clock step", "paused")
"""A guest that stands still as it moves loses that time, and its clock shows it."""
LINE = 500.0
"""Mbit/s, for the document's 10 Gb/s: a 20th."""
TRIPS = (5, 25, 50, 100, 150)
"""Round trips in ms; 5 and 100 are printed, 150 is said to be supported, the others are drawn.

Claims name 5, 50 and 100, so a run of usual length leaves the others out.
"""
SHARED_TRIPS = (5, 100)
STEADY, SETTLES = 3.0, 5.0
"""Seconds of orders before a move, and after it: the document's database took less than 5."""


def _far(name: str, rtt: int, disks: bool) -> Condition:
    stored = "no storage shared: memory and disk move" if disks else "storage shared: memory moves"
    return Condition(
        f"{name} [rtt={rtt}ms]",
        means=f"a virtual machine with SQL Server moves over a round trip of {rtt} ms, {stored}",
        here=f"a guest of QEMU with PostgreSQL, over {LINE:g} Mb/s and {rtt} ms, {stored}",
        roles={"server": "guest"},
        expects=MOVED,
        events=(
            LiveMigration(rtt_ms=rtt, rate_mbit=LINE, disks=disks, deadline=25, after=STEADY,
                          settle=SETTLES, escape="stop and copy"),
        ),
    )  # fmt: skip


study = Study(
    name="ld_vmotion",
    title="A long way: moving a database while its customers order",
    question="Does a longer way make a live migration take longer, and what do the customers of "
    "the database that moves notice of it?",
    source="VMware Pushes the Envelope with vSphere 6.0 vMotion",
    workload=DvdStore(users=3, duration=12, warm_up=2, buffers=16, patience=30),
    quick={"repeats": 1, "duration": 8},
    few=("VM [rtt=5ms]", "VM [rtt=100ms]"),
    extra=("VM [rtt=25ms]", "VM [rtt=150ms]"),
    metric="migration time",
    unit="s",
    topology="long-distance",
    conditions=(
        *(_far("VM", rtt, True) for rtt in TRIPS),
        *(_far("VM, shared storage", rtt, False) for rtt in SHARED_TRIPS),
    ),
    claims=claims.of("ld_vmotion"),
    untold={
        "VM [rtt=50ms]": "moves last about ten seconds here, and the start of a connection alone "
        "takes more than 5 % of that"
    },
)
