"""Request and response past the kernel: how near to nothing can it come?"""

from dataclasses import replace
from typing import Any

from labkit.condition import Condition
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import LATENCY_PAPER, SOURCE, on_esxi, online, unused
from labkit.study import Study
from labkit.workloads.sockperf import Sockperf

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


def _native(name: str, means: str, here: str, **knobs: Any) -> Condition:
    return Condition(name, means, here, optional=(GuestPower("paused"),), indifferent=unused(),
                     expects=SPINNING if knobs else (), knobs=knobs)  # fmt: skip


def _in_guest(name: str, means: str, here: str, **knobs: Any) -> Condition:
    return Condition(name, means, here, PASSED, on_esxi(reserved=True), {"server": "guest"},
                     SPINNING, knobs=knobs)  # fmt: skip


CONDITIONS = (
    _native("Native-Intel",
            "a bare server, an ordinary adapter (Intel 82599EB), the kernel's stack",
            "a network namespace; both programs sleep in the kernel until a packet comes"),
    _native("Native-SFC", f"a bare server, {PAST}", ONLOAD, **BYPASS),
    _in_guest("VM-Latency-SFC",
              f"a guest with latency sensitivity that owns the adapter, {PAST}", ONLOAD, **BYPASS),
    _native("Native-Spinning", NO_CLAIM,
            "a network namespace; both programs spin on their sockets and nobody is woken, "
            "but packets still go through the kernel", **SPUN),
    _in_guest("VM-Latency-Spinning", NO_CLAIM,
              "a guest with a veth of its own, not batched, on a CPU with real-time priority; "
              "both programs spin, packets go through both kernels", **SPUN),
)  # fmt: skip
BARE = ("Native-Intel", "Native-SFC")


def _conditions(cpus: str) -> tuple[Condition, ...]:
    bare = online(cpus)
    return tuple(replace(c, settings=bare) if c.name in BARE else c for c in CONDITIONS)


study = Study(
    name="lat_10us",
    title="Ten microseconds: what is left when nobody has to be woken",
    question="With a network stack that bypasses the kernel, is a virtual machine as quick to "
    "answer as a bare one?",
    source=SOURCE,
    workload=Sockperf(duration=5), quick={"repeats": 3, "duration": 1},
    metric="round trip", unit="us",
    document=LATENCY_PAPER,
    conditions=_conditions(""), sizes={"cpus": ""}, made=_conditions,
    untold={"Native-SFC": KERNEL, "VM-Latency-SFC": KERNEL},
)  # fmt: skip
