"""Request and response past the kernel: how near to nothing can it come?"""

from dataclasses import replace

from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import LATENCY_PAPER, on_esxi, online, unused
from labkit.study import Study
from labkit.workloads.sockperf import Sockperf

OFF = (GuestPower("paused"),)
PASSED = (GuestNic("direct", batch=1, lro=False), GuestPower("on"), ExclusiveCpu(owners=("guest",)))
# A program that asks again and again keeps its CPU busy all the time: that is the idea.
SPINNING = ("busy client",)
PAST = "the adapter's own network stack in the program (Solarflare SFC9020, OpenOnload)"
SPUN = {"spin": "both"}
BYPASS = {"onload": True, "spin": "both"}
ONLOAD = "both programs through OpenOnload, on hosts of one's own that have it"
KERNEL = (
    "no adapter of a box has a network stack for programs, so both ends would go through the kernel"
)
NO_CLAIM = "not in the document: no claim is about it"


CONDITIONS = (
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
        here=ONLOAD,
        optional=OFF,
        indifferent=unused(),
        expects=SPINNING,
        knobs=BYPASS,
    ),
    Condition(
        "VM-Latency-SFC",
        means=f"a guest with latency sensitivity that owns the adapter, {PAST}",
        here=ONLOAD,
        settings=PASSED,
        optional=on_esxi(reserved=True),
        roles={"server": "guest"},
        expects=SPINNING,
        knobs=BYPASS,
    ),
    Condition(
        "Native-Spinning",
        means=NO_CLAIM,
        here="a network namespace; both programs spin on their sockets and nobody is woken, "
        "but packets still go through the kernel",
        optional=OFF,
        indifferent=unused(),
        expects=SPINNING,
        knobs=SPUN,
    ),
    Condition(
        "VM-Latency-Spinning",
        means=NO_CLAIM,
        here="a guest with a veth of its own, not batched, on a CPU with real-time priority; "
        "both programs spin, packets go through both kernels",
        settings=PASSED,
        optional=on_esxi(reserved=True),
        roles={"server": "guest"},
        expects=SPINNING,
        knobs=SPUN,
    ),
)
BARE = ("Native-Intel", "Native-SFC")


def _conditions(cpus: str) -> tuple[Condition, ...]:
    bare = online(cpus)
    return tuple(replace(c, settings=bare) if c.name in BARE else c for c in CONDITIONS)


study = Study(
    name="lat_10us",
    title="Ten microseconds: what is left when nobody has to be woken",
    question="With a network stack that bypasses the kernel, is a virtual machine as quick to "
    "answer as a bare one?",
    source="Heo and Singaravelu, Deploying Extremely Latency-Sensitive Applications in VMware "
    "vSphere 5.5",
    workload=Sockperf(duration=5),
    quick={"repeats": 3, "duration": 1},
    metric="round trip",
    unit="us",
    document=LATENCY_PAPER,
    conditions=_conditions(""),
    sizes={"cpus": ""},
    made=_conditions,
    claims=published.of("lat_10us"),
    untold={"Native-SFC": KERNEL, "VM-Latency-SFC": KERNEL},
)
