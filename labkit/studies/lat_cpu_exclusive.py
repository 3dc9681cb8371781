"""The cost, to the guests beside them, of CPUs that some guests own."""

from dataclasses import replace
from typing import Any

from labkit.box.growing import numbered
from labkit.condition import Condition
from labkit.settings.exclusive_cpu import ExclusiveCpu, OtherCpus
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import SOURCE, TESTBED, on_esxi
from labkit.study import OfDocument, Study
from labkit.workloads.shared_host import NEIGHBOURS, SERVERS, SharedHost

# A guest that is kept waiting for a CPU, which is what this is about, finds its time stolen, and
# its clock runs unevenly.
STARVED = ("clock step", "paused", "steal")
USUAL = SharedHost(duration=16)
FITTING = {"answering": 1, "computing": 2}
"""The document has two that answer and four that compute, on twelve CPUs."""


def _conditions(answering: int, computing: int) -> tuple[Condition, ...]:
    guests = numbered("guest", answering + computing)
    owners, others = guests[:answering], guests[answering:]
    powered = tuple(GuestPower("on", guest=name) for name in guests)
    knobs = {"servers": answering, "guests": guests}
    scaled = f"{answering} answer and {computing} compute"
    plain: dict[str, Any] = {
        "roles": {
            "host": "server",
            **{role: owners[n % answering] for n, role in enumerate(SERVERS)},
            **{role: others[n % computing] for n, role in enumerate(NEIGHBOURS)},
        },
        "expects": STARVED,
        "knobs": {name: knob for name, knob in knobs.items() if knob != getattr(USUAL, name)},
    }  # fmt: skip

    def run(name: str, means: str, here: str, owned: bool) -> Condition:
        nic = GuestNic("bridge", batch=1, lro=False) if owned else GuestNic("bridge")
        settings = (
            *powered,
            *(replace(nic, guest=guest) for guest in owners),
            *(ExclusiveCpu(owned, guest, owners=owners) for guest in owners),
            *(OtherCpus(guest, owned, owners=owners) for guest in others),
        )
        return Condition(name, means, here, settings, on_esxi(owned, owners), **plain)

    return (
        run("Run 1", "two guests answer, four compute, and none is latency-sensitive",
            f"{scaled}; all on all CPUs of the host, packets batched", False),
        run("Run 2", "the same, and the two that answer have Latency Sensitivity set to High",
            f"{scaled}; those that answer on the last CPU, in real time, not batching or "
            "merging; those that compute on the others", True),
    )  # fmt: skip


study = Study(
    name="lat_cpu_exclusive",
    title="CPUs of one's own: what they bring one guest, and cost the others",
    question="How much faster does a guest answer that owns its CPUs, and what do the guests "
    "beside it lose in the same run?",
    source=SOURCE,
    workload=USUAL, quick={"repeats": 2, "duration": 1},
    metric="response time", unit="us", topology="neighbours",
    conditions=_conditions(**FITTING), sizes=FITTING, made=_conditions,
    document=OfDocument({"answering": 2, "computing": 4}, TESTBED, line=10),
    apart={
        "lat-cpu-exclusive-01": "so its own waiting is in the response times",
        "lat-cpu-exclusive-02": "so it takes CPU time from the guests that compute",
    },
    unmeasured={
        "free_cpus": "labkit takes no CPU from the threads that serve a NIC alone, so there are no "
        "two amounts to compare",
    },
)  # fmt: skip
