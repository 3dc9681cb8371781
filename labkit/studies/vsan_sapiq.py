"""Which way partial answers travel between nodes of a database, and what a warm cache is worth."""

from labkit.condition import Condition
from labkit.setting import Setting
from labkit.settings.egress import Link, NetIoControl, Traffic
from labkit.study import Study
from labkit.workloads.distributed_query import EXCHANGE_PORT, NODES, DistributedQuery

NODE_ROLES = dict(zip(NODES, ("client", "server", "server2", "server3"), strict=True))
"""The lab's name of each node: its client is the leader."""
BY = {"storage": "as files on the shared storage", "network": "over the network between nodes"}
DISK_MBIT, SLOW_MBIT = 100, 8
DISKS = (Link(DISK_MBIT, role="store"),)
"""What the store sends, at the rate of a few magnetic disks that are read at random places."""
SLOW = tuple(
    NetIoControl(1000, (Traffic(EXCHANGE_PORT, limit_mbit=SLOW_MBIT),), role=node)
    for node in list(NODE_ROLES.values())[1:]
)
"""What workers send to the leader's port for partial answers."""


def _condition(
    way: str, beside: str, here: str, settings: tuple[Setting, ...] = (), warm: bool = True
) -> Condition:
    means = f"nodes hand over partial answers {BY[way]}"
    return Condition(
        f"{way}-transfer{beside}", f"{means}{beside}",
        f"four hosts and a store: {means}; {here}", settings,
        roles=NODE_ROLES, knobs={"way": way, "warm": warm}, in_guest=False,
        expects=("retransmits",) if settings else (),
    )  # fmt: skip


EQUAL = "the store is as fast as the network, and caches are warm"
MAGNETIC = f"the store reads {DISK_MBIT} Mbit/s"
NARROW = f"the store is fast, and between nodes {SLOW_MBIT} Mbit/s are for partial answers"

study = Study(
    name="vsan_sapiq",
    title="Distributed queries: partial answers by shared storage or by the network",
    question="Do distributed queries go faster when partial answers travel by the network, and "
    "when the read cache is warm?",
    source="Virtual SAN and SAP IQ - a Perfect Match",
    workload=DistributedQuery(), quick={"repeats": 1, "streams": 1},
    metric="throughput", unit="1/h", topology="shared-storage",
    conditions=(
        _condition("storage", "", EQUAL),
        _condition("network", "", EQUAL),
        _condition("network", ", cold cache", f"{MAGNETIC}; caches are empty", DISKS, warm=False),
        _condition("network", ", warm cache", f"{MAGNETIC}; caches are warm", DISKS),
        _condition("storage", ", warm cache", f"{MAGNETIC}; caches are warm", DISKS),
        _condition("storage", ", slow network", NARROW, SLOW),
        _condition("network", ", slow network", NARROW, SLOW),
    ),
)  # fmt: skip
