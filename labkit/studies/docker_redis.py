"""One Redis server in six places: what bridge, container and guest take from its requests."""

from dataclasses import replace

from labkit.condition import Condition
from labkit.settings.processes import TEST_NIC, InterruptCpus, ServiceRunning
from labkit.studies._places import TOPOLOGY, six_places
from labkit.study import Had, OfDocument, Study
from labkit.workloads.redis import Redis

# redis-benchmark has one thread, as the server has, and nothing else to do.
ASKING = ("busy client",)


# Those of the network, of the machine or of the guest that the server is in.
def _conditions(interrupts: str) -> tuple[Condition, ...]:
    if not interrupts:
        return six_places(*ASKING)
    bound = {
        role: (ServiceRunning("irqbalance", False, role=role),
               InterruptCpus(TEST_NIC, interrupts, role=role))
        for role in ("guest", "server")
    }  # fmt: skip
    return tuple(
        replace(c, settings=(*c.settings, *bound["guest" if c.in_guest else "server"]))
        for c in six_places(*ASKING)
    )


study = Study(
    name="docker_redis",
    title="One Redis server in containers, in virtual machines, and in both",
    question="How many requests does a Redis server lose behind a container's bridge, and how many "
    "in a virtual machine?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Redis(duration=3), quick={"repeats": 1, "duration": 1},
    metric="throughput", unit="1/s", topology=TOPOLOGY,
    conditions=_conditions(""), sizes={"interrupts": ""}, made=_conditions,
    document=OfDocument(
        {"pin": "0", "interrupts": "1"},
        {"server": Had(cpus=32, gib=96, nodes=2), "guest": Had(cpus=16, gib=93)}, line=10,
    ),
    least_cpus={"docker-redis-09": 2},
)  # fmt: skip
