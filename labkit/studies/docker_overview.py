"""Five tests in four places at once: what containers and guests take, in one picture."""

from labkit.studies._places import TOPOLOGY, beside_its_host, places
from labkit.study import Had, OfDocument, Study
from labkit.workloads.five_tests import FiveTests

# netperf and redis-benchmark keep the client busy.
ASKING = ("busy client",)

study = Study(
    name="docker_overview",
    title="Containers and virtual machines: five tests at a glance",
    question="What do a container, a virtual machine and both together take from arithmetic, "
    "memory, disk, network and a Redis server?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=FiveTests(percent=3, mebibytes=64, trials=3),
    quick={"repeats": 1, "percent": 2, "trials": 2, "mebibytes": 16},
    few=("Native", "Native-Docker"),
    metric="performance", unit="1", topology=TOPOLOGY,
    document=OfDocument(
        {"percent": 100, "millions": 2000, "mebibytes": 10_240},
        {"server": Had(cpus=32, gib=512, nodes=4), "guest": Had(cpus=32)},
    ),
    conditions=tuple(beside_its_host(one, *ASKING) for one in places()),
)  # fmt: skip
