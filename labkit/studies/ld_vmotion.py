"""A database moves to a host far away while customers order from it."""

from collections.abc import Iterator
from dataclasses import replace

from labkit.condition import Condition
from labkit.events.migration import LiveMigration
from labkit.study import Study
from labkit.workloads.dvdstore import DvdStore

MOVED = ("clock step", "paused")
"""A guest that stands still as it moves loses that time, and its clock shows it."""
LINE = 500.0
"""Mbit/s, for the document's 10 Gb/s: a 20th."""
DEADLINE = 25.0
"""Seconds after which a move is given up: it has not arrived."""
TRIPS = (5, 25, 50, 100, 150)
"""Round trips in ms; 5 and 100 are printed, 150 is said to be supported, the others are drawn.

Claims name 5, 50 and 100, so a run of usual length leaves the others out.
"""
SHARED_TRIPS = (5, 100)
STEADY, SETTLES = 3.0, 5.0
"""Seconds of orders before a move, and after it: the document's database took less than 5."""
SHARES_CPUS = (
    "the copying takes the CPUs that emulate the guest, so its work falls for as long as that lasts"
)


def _conditions(line: float, deadline: float) -> Iterator[Condition]:
    yield from (_far("VM", rtt, True, line, deadline) for rtt in TRIPS)
    yield from (_far("VM, shared storage", rtt, False, line, deadline) for rtt in SHARED_TRIPS)


def _far(name: str, rtt: int, disks: bool, line: float, deadline: float) -> Condition:
    stored = "no storage shared: memory and disk move" if disks else "storage shared: memory moves"
    return Condition(
        f"{name} [rtt={rtt}ms]",
        means=f"a virtual machine with SQL Server moves over a round trip of {rtt} ms, {stored}",
        here=f"a guest of QEMU with PostgreSQL, over {line:g} Mb/s and {rtt} ms, {stored}",
        roles={"server": "guest"},
        expects=MOVED,
        events=(
            LiveMigration(rtt_ms=rtt, rate_mbit=line, disks=disks, deadline=deadline, after=STEADY,
                          settle=SETTLES),
        ),
    )  # fmt: skip


def over(study: Study, line: float, deadline: float) -> Study:
    """The study over a `line` in Mbit/s; what is not there by the `deadline` has not arrived."""
    names = {c.name for c in study.conditions}
    every = _conditions(line, deadline)
    return replace(study, conditions=tuple(c for c in every if c.name in names))


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
    metric="migration time", unit="s", topology="long-distance",
    conditions=tuple(_conditions(LINE, DEADLINE)),
    untold={
        "load_while_copying: VM [rtt=100ms]": SHARES_CPUS,
        "steady_share: VM [rtt=100ms]": SHARES_CPUS,
    },
)  # fmt: skip
