"""A stream each way and a request at a time: what containers, guests and both cost a network."""

from __future__ import annotations

from dataclasses import replace

from labkit.claims import published
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.studies._places import place
from labkit.studies._six_places import beside_its_host, six_places
from labkit.study import Study
from labkit.workloads.netperf import Netperf
from labkit.workloads.streams import Streams

# A stream keeps the client busy all the time.
STREAMING = ("busy client",)
OWNED = replace(
    beside_its_host(place("VM", called="VM [nic=passthrough]"), *STREAMING),
    means="the virtual machine owns the network adapter (pass-through or SR-IOV), with latency "
    "sensitivity",
    here="a guest with a veth of its own, past the host's bridge and tap, not batched, on a CPU "
    "with real-time priority (a named substitute: no adapter here can be passed through)",
)  # fmt: skip
PASSED = replace(
    OWNED, settings=(GuestNic("direct", batch=1, lro=False), *OWNED.settings, ExclusiveCpu())
)

study = Study(
    name="docker_netperf",
    title="Streams and round trips in containers, in virtual machines, and in both",
    question="What do a container, its bridge and a virtual machine add to a round trip? And what "
    "does a stream cost where the link hides it?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Netperf(size=1, duration=2),
    also=(Streams(duration=2),),
    quick={"repeats": 1, "duration": 1},
    metric="netperf mean",
    unit="us",
    topology="wired",
    conditions=(*six_places(*STREAMING), PASSED),
    claims=published.of("docker_netperf"),
)
