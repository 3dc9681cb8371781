"""A stream each way and a request at a time: what containers, guests and both cost a network."""

from dataclasses import replace

from labkit.condition import Condition
from labkit.errors import BadInput
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.power import OnlineCpus
from labkit.settings.sockets import WindowScaling
from labkit.studies._guests import on_esxi
from labkit.studies._places import beside_its_host, place, six_places
from labkit.study import Had, OfDocument, Study
from labkit.workloads.netperf import Netperf
from labkit.workloads.streams import Streams

# A stream keeps the client busy all the time.
STREAMING = ("busy client",)
SEVERAL = 2
"""Streams of a container in a guest: the document had several, and does not say how many."""
SIX = ("VM", "bridge", ""), ("VM-Docker", "bridge", ""), ("VM-Docker", "host", "-HostNet")
SENSITIVE = "with latency sensitivity and the tuning that goes with it"
ON_A_CPU = "not batched, on a CPU with real-time priority"
# Of streams the document does not say so: they are those of the plain guests.
TUNED = {
    ", latency-sensitive": (
        f"{SENSITIVE}, on a virtual NIC (VMXNET3)",
        f"behind the host's bridge and tap, {ON_A_CPU}",
        GuestNic("bridge", batch=1, lro=False),
    ),
    " [nic=passthrough]": (
        f"{SENSITIVE}; the virtual machine owns the network adapter (pass-through or SR-IOV)",
        f"with a veth of its own past the host's bridge and tap, {ON_A_CPU} (a named substitute: "
        "no adapter here can be passed through)",
        GuestNic("direct", batch=1, lro=False),
    ),
}


def _tuned(name: str, network: str, ending: str, how: str) -> Condition:
    means, stand_in, nic = TUNED[how]
    plain = beside_its_host(place(name, network, f"{name}{ending}{how}"), *STREAMING)
    return replace(
        plain, means=f"{plain.means}, {means}", here=f"{plain.here}, {stand_in}",
        settings=(nic, *plain.settings, ExclusiveCpu()),
        optional=(*plain.optional, *on_esxi(reserved=True)),
    )  # fmt: skip


def _conditions(streams: int, buffers: str, cpus: str) -> tuple[Condition, ...]:
    every = (*six_places(*STREAMING), *(_tuned(*placed, how) for how in TUNED for placed in SIX))
    return tuple(_scale(condition, streams, buffers, cpus) for condition in every)


# Only containers in a guest sent over several connections. CPUs are taken from the client, and from
# a bare machine, which then has as many as the guest.
def _scale(condition: Condition, streams: int, buffers: str, cpus: str) -> Condition:
    ends = ("client", *condition.players("server"))
    scaled = (*(WindowScaling(role=role) for role in ends),) if buffers else ()
    fewer = ("client",) if condition.in_guest else ("client", "server")
    knobs = {"streams": streams} if streams > 1 and condition.name.startswith("VM-Docker") else {}
    return replace(
        condition,
        settings=(*condition.settings, *(OnlineCpus(cpus, role=r) for r in fewer if cpus), *scaled),
        knobs={**condition.knobs, **knobs, **({"buffer": _bytes(buffers)} if buffers else {})},
    )


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise BadInput(f"docker_netperf: buffers are a number of bytes, not {text!r}")
    return int(text)


study = Study(
    name="docker_netperf",
    title="Streams and round trips in containers, in virtual machines, and in both",
    question="What do a container, its bridge and a virtual machine add to a round trip? And what "
    "does a stream cost where the link hides it?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere",
    workload=Netperf(size=1, duration=2), also=(Streams(duration=2),),
    quick={"repeats": 1, "duration": 1},
    metric="netperf mean", unit="us", topology="wired",
    conditions=_conditions(1, "", ""), sizes={"streams": 1, "buffers": "", "cpus": ""},
    made=_conditions,
    document=OfDocument(
        {"streams": SEVERAL, "cpus": "0-1"},
        {"server": Had(cpus=32, gib=512, nodes=4), "guest": Had(cpus=2, gib=4)}, line=10,
    ),
    takes=dict.fromkeys(("docker-netperf-06", "docker-netperf-12"), "real-time priority"),
)  # fmt: skip
