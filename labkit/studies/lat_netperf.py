"""Request and response of programs, in virtual machines and without: asked with netperf."""

from labkit.studies import _guests
from labkit.study import Study
from labkit.workloads.netperf import Netperf
from labkit.workloads.sockperf import Sockperf

study = Study(
    name="lat_netperf",
    title="Request and response of a program: the same four set-ups, one step higher",
    question="A program must wake up to answer: how much slower is a virtual machine, at the "
    "median and in the worst of ten thousand responses?",
    source=_guests.SOURCE,
    workload=Sockperf(duration=4), also=(Netperf(duration=2),), quick={"repeats": 1, "duration": 1},
    metric="round trip", unit="us",
    conditions=_guests.one_or_four(""), sizes={"cpus": ""}, made=_guests.one_or_four,
    topology=_guests.TOPOLOGY,
    document=_guests.LATENCY_PAPER,
    crowded=_guests.SHARED_CPU,
    # A guest answered in 73 % of the time on one machine, and in 101 % on another.
    untold=dict.fromkeys(
        ("lat-netperf-03", "lat-netperf-04"),
        f"{_guests.STAND_INS}: they decide what share of that a setting takes off",
    ),
)  # fmt: skip
