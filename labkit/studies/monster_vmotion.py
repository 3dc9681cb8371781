"""A guest that writes all over a large memory moves: how fast can it, and what limits it?"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from labkit.condition import Condition
from labkit.events.migration import LiveMigration
from labkit.study import Study
from labkit.workloads.dirty_memory import DirtyMemory

SCALE = 40.0
"""10 Gb/s of the document are 250 Mb/s, unless another scale is asked for."""
MEBIBYTES = 80
MOVED = ("clock step", "paused")
"""A guest that stands still as it moves loses that time, and its clock shows it."""
SLOW, HIGH = 2_000, 12_000
"""Pages written a second, where the document says no figure."""
ALL, FAST = {"rate": 0}, 40
"""The document's program writes without a pause, as here over lines from 40 Gb/s on.

At a chosen rate the guest would be there before its bandwidth was seen often enough.
"""
LEAST_SECONDS, PASSES = 10.0, 3
"""Seconds and passes for which a guest that writes without a pause moves; then it stops."""
SCALED = "whether a line that is slower is filled is the scale's doing"
RELEASE = "its locks are those of vSphere 5.5: both releases are one mover here, in channels apart"

SHARED = (
    "CPUs that emulate the guest are never free for the helpers, and lines slower than the "
    "document's ask for less of them"
)


# Those of Figure 5, then that of Figure 6, then two chosen rates of writing: over lines that are
# `scale` times slower than the document's, with so much memory that is written.
def _conditions(scale: float = SCALE, mebibytes: int = MEBIBYTES) -> Iterator[Condition]:
    over = partial(_over, scale, mebibytes)
    for gbps in (10, 20, 40, 80):
        yield over(f"5.5 [gbps={gbps}]", gbps, 2, "its two helper threads")
    for many, gbps in ((4, 40), (4, 80), (8, 80)):
        yield over(f"5.5, {many} helpers [gbps={gbps}]", gbps, many, f"{many} helper threads")
    rates = {"6.0 [dirty=low]": SLOW, "6.0 [dirty=high]": HIGH}
    lines = {**{f"6.0 [gbps={gbps}]": gbps for gbps in (10, 20, 40)},
             "6.0 [gbps=80, dirty=all]": 80, **dict.fromkeys(rates, 20)}  # fmt: skip
    for name, gbps in lines.items():
        knobs = {"rate": rates[name]} if name in rates else {}
        yield over(name, gbps, max(1, gbps // 10), "a channel for each 10 Gb/s", **knobs)


def _over(
    scale: float, mebibytes: int, name: str, gbps: int, channels: int, helpers: str, **knobs: int
) -> Condition:
    line = 1000 * gbps / scale
    if gbps >= FAST:
        knobs = ALL
    late = max(LEAST_SECONDS, PASSES * mebibytes * 2**20 * 8e-6 / line)
    how = LiveMigration(channels=channels, rate_mbit=line, escape="stop and copy",
                        deadline=late if knobs == ALL else 2 * late)  # fmt: skip
    writes = {SLOW: "; the guest writes little", HIGH: "; the guest writes much"}
    beside = writes.get(knobs.get("rate", 0), "")
    part = "" if scale == 1 else f" (1/{scale:g})"
    return Condition(
        name, means=f"vSphere {name[:3]} over {gbps} Gb/s, {helpers}{beside}",
        here=f"QEMU over {line:g} Mb/s{part}, memory on {channels} channels",
        roles={"server": "guest"}, expects=MOVED, events=(how,), knobs=knobs,
    )  # fmt: skip


def over(study: Study, slower: float) -> Study:
    """The study over lines that are `slower` times slower than the document's; 1 is its own."""
    names = {condition.name for condition in study.conditions}
    load = study.workload
    assert isinstance(load, DirtyMemory)
    every = _conditions(slower, load.mebibytes)
    return replace(study, conditions=tuple(c for c in every if c.name in names))


study = Study(
    name="monster_vmotion",
    title="Moving a monster: how fast a large guest's memory goes over",
    question="How much of a fast line does a live migration fill, what limits it, and what does "
    "a guest that writes a lot change?",
    source="VMware Pushes the Envelope with vSphere 6.0 vMotion",
    workload=DirtyMemory(mebibytes=MEBIBYTES), quick={"repeats": 1, "mebibytes": 60},
    few=("5.5 [gbps=10]", "6.0 [gbps=20]", "6.0 [gbps=40]", "6.0 [gbps=80, dirty=all]"),
    metric="bandwidth", unit="Mbit/s", topology="monster",
    conditions=tuple(_conditions()),
    lines={c.name: c.events[0].rate_mbit for c in _conditions(scale=1)
           if isinstance(c.events[0], LiveMigration)},
    untold={
        **{f"cpu_of_the_helpers: 5.5 [gbps={gbps}]": SHARED for gbps in (40, 80)},
        **{f"share_of_line: 5.5 [gbps={gbps}]": SCALED for gbps in (10, 20)},
        **{f"5.5 [gbps={gbps}]": SCALED for gbps in (40, 80)},
        "share_of_line: 5.5, 4 helpers [gbps=40]": SCALED,
        **{f"share_of_line: 6.0 [gbps={gbps}]": SCALED for gbps in (10, 20, 40)},
        "share_of_line: 6.0 [gbps=80, dirty=all]": SCALED,
        "monster-vmotion-10": SCALED,
    },
    unmeasured={
        "5.5, 8 helpers [gbps=80]": RELEASE,
        **{
            f"helpers_per_connection: 6.0 [{line}]": "no mover here chooses its number of "
            "channels: the study names it"
            for line in ("gbps=10", "gbps=40", "gbps=80, dirty=all")
        },
    },
)  # fmt: skip
