"""A guest that writes all over a large memory moves: how fast can it, and what limits it?"""

from __future__ import annotations

from labkit.claims import published as claims
from labkit.condition import Condition
from labkit.events.migration import LiveMigration
from labkit.study import Study
from labkit.workloads.dirty_memory import DirtyMemory

SCALE = 40
"""10 Gb/s of the document are 250 Mb/s here."""
MOVED = ("clock step", "paused")
"""A guest that stands still as it moves loses that time, and its clock shows it."""
SLOW, HIGH = 2_000, 12_000
"""Pages written a second, where the document says no figure."""
ALL = {"rate": 0}
"""Without a pause, as the document's program writes.

All conditions write to as much memory: pages that were written once are sent in later runs, too.
"""
SCALED = f"its lines are {SCALE} times slower here, so whether one is filled is the scale's doing"


def _over(name: str, gbps: int, channels: int, here: str, **knobs: int) -> Condition:
    line, late = 1000 * gbps / SCALE, 10.0 if knobs == ALL else 20.0
    how = LiveMigration(channels=channels, rate_mbit=line, deadline=late, escape="stop and copy")
    means = {"5.5": "vSphere 5.5", "6.0": "vSphere 6.0"}[name[:3]]
    return Condition(
        name,
        means=f"{means} over {gbps} Gb/s, {here}",
        here=f"QEMU over {line:g} Mb/s (a {SCALE}th), memory on {channels} channels",
        roles={"server": "guest"},
        expects=MOVED,
        events=(how,),
        knobs=knobs,
    )


def _helped(helpers: int, gbps: int) -> Condition:
    if helpers == 2:
        return _over(f"5.5 [gbps={gbps}]", gbps, 2, "its two helper threads")
    return _over(
        f"5.5, {helpers} helpers [gbps={gbps}]", gbps, helpers, f"{helpers} helper threads"
    )


def _scaling(name: str, gbps: int, **knobs: int) -> Condition:
    return _over(name, gbps, max(1, gbps // 10), "a channel for each 10 Gb/s", **knobs)


study = Study(
    name="monster_vmotion",
    title="Moving a monster: how fast a large guest's memory goes over",
    question="How much of a fast line does a live migration fill, what limits it, and what does "
    "a guest that writes a lot change?",
    source="VMware Pushes the Envelope with vSphere 6.0 vMotion",
    workload=DirtyMemory(mebibytes=80),
    quick={"repeats": 1, "mebibytes": 60},
    few=("5.5 [gbps=10]", "6.0 [gbps=20]", "6.0 [gbps=40]", "6.0 [gbps=80]"),
    metric="bandwidth",
    unit="Mbit/s",
    topology="monster",
    conditions=(
        *(_helped(2, gbps) for gbps in (10, 20, 40, 80)),
        _helped(4, 40),
        _helped(4, 80),
        _helped(8, 80),
        *(_scaling(f"6.0 [gbps={gbps}]", gbps) for gbps in (10, 20, 40, 80)),
        _scaling("6.0 [gbps=80, dirty=all]", 80, **ALL),
        _scaling("6.0 [dirty=low]", 20, rate=SLOW),
        _scaling("6.0 [dirty=high]", 20, rate=HIGH),
    ),
    claims=claims.of("monster_vmotion"),
    untold={
        **{
            f"5.5 [gbps={gbps}]": f"{SCALED}; where two channels stop short is not the document's "
            "18 Gb/s"
            for gbps in (40, 80)
        },
        "share_of_line: 5.5, 4 helpers [gbps=40]": SCALED,
        "share_of_line: 6.0 [gbps=80]": SCALED,
        **{
            f"helpers_per_connection: 6.0 [gbps={gbps}]": "QEMU chooses no number of channels: the "
            "study names it"
            for gbps in (10, 40, 80)
        },
    },
)
