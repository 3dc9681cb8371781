"""The cost of containers and virtual machines in disk speed, measured with fio."""

from labkit.studies._places import TOPOLOGY, places
from labkit.study import Had, OfDocument, Study
from labkit.workloads.fio import Fio

study = Study(
    name="docker_fio",
    title="fio: a disk in a container, in a guest, and in a container in a guest",
    question="How much of a bare machine's small random disk I/O remains in a container, a guest, "
    "and a container in a guest?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Fio(), quick={"repeats": 1, "duration": 1, "mebibytes": 32},
    metric="max iops", unit="1/s",
    conditions=places(),
    topology=TOPOLOGY,
    document=OfDocument(
        {"mebibytes": 10_240, "pin": "0-7"},
        {"server": Had(cpus=32, gib=392, nodes=2), "guest": Had(cpus=32, gib=256)},
    ),
)  # fmt: skip
