"""The container half of a comparison of virtual machines with containers."""

from labkit.workloads.container_half import ContainerHalf
from labkit.workloads.key_value_pair import KeyValuePair

from labkit import Condition, Study
from labkit.claims import published

study = Study(
    name="felter",
    title="What a container costs: programs, and the network behind NAT",
    question="What do a container and its NAT cost a program?",
    source=published.published("felter").document,
    workload=ContainerHalf(),
    also=(KeyValuePair(requests=10_000),),
    metric="compression",
    unit="MB/s",
    quick={"repeats": 2},
    conditions=(
        Condition("Native", means="on the host", here="on this machine",
                  knobs={"where": "native", "network": "host"}),
        Condition("Docker", means="in Docker, behind its NAT",
                  here="by runc, which Docker calls; the network behind NAT",
                  knobs={"where": "container", "network": "nat"}),
    ),
    claims=published.of("felter"),
)  # fmt: skip
