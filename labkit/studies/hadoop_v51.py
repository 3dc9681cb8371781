"""The earlier study of Hadoop, on hosts of two sockets with four cores: four guests, or none."""

from labkit.condition import Condition
from labkit.studies._hadoop import QUAD, REPLACED, TOPOLOGY, divided, native, of_document
from labkit.study import Study
from labkit.workloads.terasort import DOCUMENT_BYTES, ROW_BYTES, TeraSort

FITTING = {"hosts": 1, "cpus": 1}
"""Hosts, and CPUs of each that Hadoop uses."""


def _conditions(hosts: int, cpus: int) -> tuple[Condition, ...]:
    return (
        native(hosts, 4, "cores=4", cores=cpus),
        divided(4, hosts, 4, "vms=4, cores=4", cores=cpus),
    )


study = Study(
    name="hadoop_v51",
    title="Hadoop on hosts with two quad-core processors",
    question="Do four virtual machines on each host sort as fast as the bare machines?",
    source="Virtualized Hadoop Performance with vSphere 6",
    workload=TeraSort(), quick={"repeats": 1, "rows": 64_000},
    metric="elapsed time", unit="s", topology=TOPOLOGY,
    conditions=_conditions(**FITTING), sizes=FITTING, made=_conditions,
    # The later study had almost four times as many rows.
    document=of_document(QUAD, cpus=QUAD, rows=DOCUMENT_BYTES // ROW_BYTES // 4),
    untold={"hadoop-v51-01": REPLACED},
)  # fmt: skip
