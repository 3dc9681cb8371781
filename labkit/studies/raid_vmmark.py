"""RAID groups or a pool, half or fully allocated, under a mixed load of many servers."""

from dataclasses import replace

from labkit.studies.raid_iometer import FILES
from labkit.studies.raid_iometer import study as raid_iometer
from labkit.study import OfDocument, Study
from labkit.workloads.tiles import TileLoad

ROLES = {"web": "server", "server": "guest", "standby": "standby"}

study = Study(
    name="raid_vmmark",
    title="Tiles on an array: shop, mail and a social application on RAID groups and pools",
    question="Does a mixed load do as much, and answer as fast, on a pool as on a RAID group? And "
    "with room to spare?",
    source="Virtualized Storage Performance: RAID Groups versus Storage Pools",
    workload=TileLoad(), quick={"repeats": 1, "duration": 8},
    few=("RAID, half", "Pool, half"),
    metric="score", unit="1", topology="tiles",
    conditions=tuple(
        replace(condition, roles=ROLES, expects=("steal", "busy client", "clock step"))
        for condition in raid_iometer.conditions
    ),
    document=OfDocument({"duration": 3600}),
    untold={f"raid-vmmark-0{number}": FILES for number in (2, 3, 4)},
)  # fmt: skip
