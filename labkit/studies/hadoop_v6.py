"""Hadoop native and in virtual machines: how many of them on a host sort fastest?"""

from labkit.condition import Condition
from labkit.studies._hadoop import QUAD, REPLACED, TEN, TOPOLOGY, divided, native, of_document
from labkit.study import Study
from labkit.workloads.terasort import DOCUMENT_BYTES, ROW_BYTES, TeraSort

FITTING = {"hosts": 1, "most": 6, "fewer": 1}
"""Hosts, the most guests on each, and CPUs of a host that has fewer than the others."""


def _conditions(hosts: int, most: int, fewer: int) -> tuple[Condition, ...]:
    return (
        native(hosts, most), *(divided(vms, hosts, most) for vms in (1, 2, 4, 10, 20)),
        divided(most, hosts, most, "vms=most"), native(hosts, most, "cores=4", cores=fewer),
        divided(4, hosts, most, "vms=4, cores=4", cores=fewer),
    )  # fmt: skip


study = Study(
    name="hadoop_v6",
    title="Hadoop: one node on each host, or several virtual machines",
    question="How many virtual machines on each host generate, sort and check rows fastest, and "
    "are they faster than the bare machines?",
    source="Virtualized Hadoop Performance with vSphere 6",
    workload=TeraSort(), quick={"repeats": 1, "rows": 64_000},
    few=("Native", "VM [vms=1]", "VM [vms=2]"),
    metric="elapsed time", unit="s", topology=TOPOLOGY,
    conditions=_conditions(**FITTING), sizes=FITTING, made=_conditions,
    document=of_document(TEN, most=TEN, fewer=QUAD, rows=DOCUMENT_BYTES // ROW_BYTES),
    untold={
        **dict.fromkeys((f"hadoop-v6-0{n}" for n in range(1, 6)), REPLACED),
        "hadoop-v6-06": "the rows are chosen so that a run ends soon",
    },
)  # fmt: skip
