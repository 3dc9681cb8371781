"""Request and response of programs, in virtual machines and without: asked with netperf."""

from labkit.claims import published
from labkit.studies._guests import LATENCY_PAPER, SHARED_CPU, STAND_INS, TOPOLOGY, one_or_four
from labkit.study import Study
from labkit.workloads.netperf import Netperf
from labkit.workloads.sockperf import Sockperf

study = Study(
    name="lat_netperf",
    title="Request and response of a program: the same four set-ups, one step higher",
    question="A program must wake up to answer: how much slower is a virtual machine, at the "
    "median and in the worst of ten thousand responses?",
    source="Heo and Singaravelu, Deploying Extremely Latency-Sensitive Applications in VMware "
    "vSphere 5.5",
    workload=Sockperf(duration=4),
    also=(Netperf(duration=2),),
    quick={"repeats": 1, "duration": 1},
    metric="round trip",
    unit="us",
    conditions=one_or_four(""),
    sizes={"cpus": ""},
    made=one_or_four,
    topology=TOPOLOGY,
    document=LATENCY_PAPER,
    claims=published.of("lat_netperf"),
    crowded=SHARED_CPU,
    untold={
        # A guest answered in 73 % of the time on one machine, and in 101 % on another.
        "lat-netperf-03": f"{STAND_INS}: they decide what share of that a setting takes off",
        "lat-netperf-04": f"{STAND_INS}: they decide what share of that a setting takes off",
    },
)
