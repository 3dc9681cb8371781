"""What do containers and virtual machines take of the speed of arithmetic? Asked with LINPACK."""

from __future__ import annotations

from labkit.claims import published
from labkit.studies._places import TOPOLOGY, places
from labkit.study import Study
from labkit.workloads.linpack import Linpack

study = Study(
    name="docker_linpack",
    title="LINPACK: arithmetic in a container, in a guest, and in a container in a guest",
    question="What of the speed of a bare machine is left to a program that computes, in a "
    "container, in a virtual machine, and in a container in that?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Linpack(),
    quick={"repeats": 2, "percent": 3},
    metric="performance",
    unit="Gflop/s",
    conditions=places(),
    topology=TOPOLOGY,
    claims=published.of("docker_linpack"),
)
