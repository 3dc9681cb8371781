"""The cost of containers and virtual machines in memory bandwidth, measured as STREAM does."""

from labkit.studies._places import TOPOLOGY, places
from labkit.study import Had, OfDocument, Study
from labkit.workloads.stream import Stream

study = Study(
    name="docker_stream",
    title="STREAM: memory bandwidth in a container, in a guest, and in a container in a guest",
    question="How much of the memory bandwidth of a bare machine is left in a container, in a "
    "virtual machine, and in a container in that?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Stream(), quick={"repeats": 1, "trials": 3},
    metric="bandwidth", unit="MB/s",
    conditions=places(),
    topology=TOPOLOGY,
    document=OfDocument(
        {"millions": 2000, "threads": 64},
        {"server": Had(cpus=64, gib=512, nodes=4), "guest": Had(cpus=64)},
    ),
)  # fmt: skip
