"""The cost, to the guests beside them, of CPUs that some guests own."""

from __future__ import annotations

from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.other_cpus import OtherCpus
from labkit.studies._guests import on_esxi
from labkit.study import Study
from labkit.workloads.shared_host import SharedHost

ROLES = {"server": "guest", "host": "server", "neighbour": "guest2", "neighbour2": "guest3"}
THERE = tuple(GuestPower("on", guest=name) for name in ("guest", "guest2", "guest3"))
# A guest that is kept waiting for a CPU, which is what this is about, finds its time stolen, and
# its clock runs unevenly.
STARVED = ("clock step", "paused", "steal")
SCALED = "scaled to the box: one guest answers and two compute, in place of two and four"

study = Study(
    name="lat_cpu_exclusive",
    title="CPUs of one's own: what they bring one guest, and cost the others",
    question="How much faster does a guest answer that owns its CPUs, and what do the guests "
    "beside it lose in the same run?",
    source="Heo and Singaravelu, Deploying Extremely Latency-Sensitive Applications in VMware "
    "vSphere 5.5",
    workload=SharedHost(duration=16),
    quick={"repeats": 2, "duration": 1},
    metric="response time",
    unit="us",
    topology="neighbours",
    conditions=(
        Condition(
            "Run 1",
            means="two guests answer, four compute, and none is latency-sensitive",
            here=f"{SCALED}; all three on all CPUs of the host, packets batched",
            settings=(
                *THERE,
                GuestNic("bridge"),
                ExclusiveCpu(False, alone=True),
                OtherCpus("guest2", False),
                OtherCpus("guest3", False),
            ),
            optional=on_esxi(reserved=False),
            roles=ROLES,
            expects=STARVED,
        ),
        Condition(
            "Run 2",
            means="the same, and the two that answer have Latency Sensitivity set to High",
            here=f"{SCALED}; the one that answers alone on the last CPU, in real time, not "
            "batching or merging; the two that compute on the others",
            settings=(
                *THERE,
                GuestNic("bridge", batch=1, lro=False),
                ExclusiveCpu(alone=True),
                OtherCpus("guest2"),
                OtherCpus("guest3"),
            ),
            optional=on_esxi(reserved=True),
            roles=ROLES,
            expects=STARVED,
        ),
    ),
    claims=published.of("lat_cpu_exclusive"),
    apart={
        "lat-cpu-exclusive-01": "so its own waiting is in the response times",
        "lat-cpu-exclusive-02": "so it takes CPU time from the guests that compute",
    },
    unmeasured={
        "free_cpus": "labkit takes no CPU from the threads that serve a NIC alone, so there are no "
        "two amounts to compare",
    },
)
