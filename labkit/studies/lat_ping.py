"""How close to native do request and answer come in a virtual machine? Asked with ping."""

from __future__ import annotations

from labkit import claims
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.study import Condition, Study
from labkit.workloads.ping import Ping

study = Study(
    name="lat_ping",
    title="Round trips by ping: what virtualization adds, and what takes it away",
    question="How close to a bare machine can a virtual machine answer, on the median and in the "
    "worst of ten thousand round trips?",
    source="Heo and Singaravelu, Deploying Extremely Latency-Sensitive Applications in VMware "
    "vSphere 5.5",
    workload=Ping(),
    quick={"repeats": 3, "count": 1000},
    metric="round trip",
    unit="us",
    conditions=(
        Condition(
            "Native",
            means="the server runs Linux on bare hardware",
            here="a network namespace answers; no guest is running",
            optional=(GuestPower("off"), GuestNic("bridge")),
        ),
        Condition(
            "VM-Default",
            means="a virtual machine as it comes, its packets through the virtual switch",
            here="a guest whose packets pass a bridge and a tap, batched",
            settings=(GuestNic("bridge"), GuestPower("on"), ExclusiveCpu(False)),
            roles={"server": "guest"},
        ),
        Condition(
            "VM-SRIOV",
            means="the virtual machine owns a virtual function of the network adapter",
            here="a guest with a veth of its own, past the host's bridge and tap (no adapter here "
            "has SR-IOV: a named substitute)",
            settings=(GuestNic("direct"), GuestPower("on"), ExclusiveCpu(False)),
            roles={"server": "guest"},
        ),
        Condition(
            "VM-Latency-SRIOV",
            means="the same, with Latency Sensitivity set to High",
            here="the same, without batching and merging, and the guest alone on a CPU with "
            "real-time priority",
            settings=(GuestNic("direct", batch=1, lro=False), GuestPower("on"), ExclusiveCpu()),
            roles={"server": "guest"},
        ),
    ),
    claims=claims.of("lat_ping"),
)
