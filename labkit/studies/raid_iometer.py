"""RAID groups or a pool, half or fully allocated, under small random requests."""

from labkit.condition import Condition
from labkit.study import OfDocument, Study
from labkit.workloads.disk_array import DiskArray

KINDS = {
    "raid": ("RAID", "a RAID 5 group", "pieces of a RAID 5 of Linux MD"),
    "pool": ("Pool", "a storage pool", "volumes of a thin pool on the same RAID 5"),
}
ALLOCATED = {"half": 50, "full": 100}
FILES = "the disks are files here, and spare room is for the cleaning of flash: a file has none"


def _condition(kind: str, share: str) -> Condition:
    name, means, here = KINDS[kind]
    percent = ALLOCATED[share]
    return Condition(
        f"{name}, {share}", f"{means}, {percent} % allocated", f"{here}, {percent} % are filled",
        roles={"server": "guest"}, knobs={"kind": kind, "allocated": percent}, in_guest=True,
    )  # fmt: skip


study = Study(
    name="raid_iometer",
    title="RAID groups and pools: small random requests on the same disks",
    question="Do small random requests go faster on a pool than on a RAID group, and with room to "
    "spare?",
    source="Virtualized Storage Performance: RAID Groups versus Storage Pools",
    workload=DiskArray(), quick={"repeats": 1, "duration": 2},
    metric="throughput", unit="1/s", topology="arrays",
    conditions=tuple(_condition(kind, share) for kind in KINDS for share in ALLOCATED),
    document=OfDocument({"volume": 102_400, "duration": 3600}),
    untold={"raid-iometer-02": FILES, "raid-iometer-03": FILES},
)  # fmt: skip
