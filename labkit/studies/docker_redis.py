"""One Redis server in six places: what bridge, container and guest take from its requests."""

from __future__ import annotations

from labkit.claims import published
from labkit.studies._places import TOPOLOGY
from labkit.studies._six_places import six_places
from labkit.study import Study
from labkit.workloads.redis import Redis

# redis-benchmark has one thread, as the server has, and nothing else to do.
ASKING = ("busy client",)

study = Study(
    name="docker_redis",
    title="One Redis server in containers, in virtual machines, and in both",
    question="How many requests does a Redis server lose behind a container's bridge, and how many "
    "in a virtual machine?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Redis(duration=3),
    quick={"repeats": 1, "duration": 1},
    metric="throughput",
    unit="1/s",
    topology=TOPOLOGY,
    conditions=six_places(*ASKING),
    claims=published.of("docker_redis"),
)
