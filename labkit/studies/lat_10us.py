"""Request and response past the kernel: how near to nothing can it come?"""

from __future__ import annotations

from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import on_esxi, unused
from labkit.study import Study
from labkit.workloads.sockperf import Sockperf

OFF = (GuestPower("paused"),)
OWNED = ExclusiveCpu(alone=True)
# A program that asks again and again keeps its CPU busy all the time: that is the idea.
SPINNING = ("load generator",)
PAST = "the adapter's own network stack in the program (Solarflare SFC9020, OpenOnload)"

study = Study(
    name="lat_10us",
    title="Ten microseconds: what is left when nobody has to be woken",
    question="With a network stack that passes by the kernel, is a virtual machine as quick to "
    "answer as a bare one?",
    source="Heo and Singaravelu, Deploying Extremely Latency-Sensitive Applications in VMware "
    "vSphere 5.5",
    workload=Sockperf(duration=5),
    quick={"repeats": 3, "duration": 1},
    metric="round trip",
    unit="us",
    conditions=(
        Condition(
            "Native-Intel",
            means="a bare server, an ordinary adapter (Intel 82599EB), the kernel's stack",
            here="a network namespace; both programs sleep in the kernel until a packet comes",
            optional=OFF,
            indifferent=unused(),
        ),
        Condition(
            "Native-SFC",
            means=f"a bare server, {PAST}",
            here="a network namespace; both programs spin on their sockets and nobody is woken, "
            "but packets still go through the kernel (a named substitute: no adapter here has a "
            "stack of its own)",
            optional=OFF,
            indifferent=unused(),
            expects=SPINNING,
            knobs={"spin": "both"},
        ),
        Condition(
            "VM-Latency-SFC",
            means=f"a guest with latency sensitivity that owns the adapter, {PAST}",
            here="a guest with a veth of its own, not batched, on a CPU with real-time priority; "
            "the client spins, but the guest's program sleeps, for spinning it would starve the "
            "threads that bring its packets (a named substitute)",
            settings=(GuestNic("direct", batch=1, lro=False), GuestPower("on"), OWNED),
            optional=on_esxi(reserved=True, merging=False),
            roles={"server": "guest"},
            expects=SPINNING,
            knobs={"spin": "client"},
        ),
        Condition(
            "Native-Onload",
            means="as Native-SFC, on hosts of one's own that have OpenOnload",
            here="both programs through OpenOnload, where both hosts have it",
            optional=OFF,
            indifferent=unused(),
            expects=SPINNING,
            knobs={"onload": True, "spin": "both"},
        ),
        Condition(
            "VM-Latency-Onload",
            means="as VM-Latency-SFC, on hosts of one's own that have OpenOnload",
            here="both programs through OpenOnload, where the client and the guest have it, and "
            "the guest owns the adapter",
            settings=(GuestNic("direct", batch=1, lro=False), GuestPower("on"), OWNED),
            optional=on_esxi(reserved=True, merging=False),
            roles={"server": "guest"},
            expects=SPINNING,
            knobs={"onload": True, "spin": "both"},
        ),
    ),
    claims=published.of("lat_10us"),
)
