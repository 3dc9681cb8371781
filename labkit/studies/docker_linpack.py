"""The cost of containers and virtual machines in arithmetic speed, measured with LINPACK."""

from labkit.studies._places import TOPOLOGY, places
from labkit.study import Had, OfDocument, Study
from labkit.workloads.linpack import Linpack

study = Study(
    name="docker_linpack",
    title="LINPACK: arithmetic in a container, in a guest, and in a container in a guest",
    question="How much of a bare machine's computing speed remains in a container, a guest, and a "
    "container in a guest?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Linpack(), quick={"repeats": 2, "percent": 3},
    metric="performance", unit="Gflop/s",
    conditions=places(),
    topology=TOPOLOGY,
    document=OfDocument(
        {"percent": 100, "threads": 32},
        {"server": Had(cpus=32, gib=512, nodes=4), "guest": Had(cpus=32)},
    ),
)  # fmt: skip
