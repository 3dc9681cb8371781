"""Many small guests with a web server each, beside one web server on the bare machine."""

from labkit.box.growing import numbered
from labkit.condition import Condition
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import TOPOLOGY, unused
from labkit.study import Had, OfDocument, Study
from labkit.workloads.web import SERVERS, WebSessions

FITTING = 4
"""The document has fifteen, of one CPU and 6 GB each."""
KIT = {"think": 10.0, "good": 3.0, "tolerable": 5.0}
"""Seconds that a user pauses and that a page may take, as in the document's benchmark."""
# Who waits for a CPU is what is searched for.
BUSY = ("steal", "busy client", "clock step", "paused")


def players(*guests: str) -> dict[str, str]:
    """The roles of a lab that play all servers; few of these are asked, so each plays several."""
    return {role: guests[n % len(guests)] for n, role in enumerate(SERVERS)} | {"host": "server"}


def _conditions(guests: int) -> tuple[Condition, ...]:
    named = numbered("guest", guests)
    on = [(GuestPower("on", guest), GuestNic("bridge", guest=guest)) for guest in named]
    return (
        Condition(
            "Native", "one web server stack on the bare machine",
            "one nginx and its application on this machine's own kernel; no guest is running",
            optional=tuple(GuestPower("paused", guest) for guest in named),
            indifferent=unused(named), roles=players("server"), expects=BUSY, in_guest=False,
        ),
        Condition(
            "VM", "fifteen guests of one CPU on one host, with paravirtual adapters",
            f"{guests} guests behind bridge and tap, each with an nginx and its application",
            settings=tuple(setting for pair in on for setting in pair), roles=players(*named),
            expects=BUSY, in_guest=True, knobs={"guests": named, "steps": str(guests)},
        ),
    )  # fmt: skip


study = Study(
    name="specweb_15vm",
    title="Fifteen small guests, each with a web server, beside one web server",
    question="Do many guests with a web server each bear more users than one web server on the "
    "bare machine?",
    source="Achieving High Web Throughput Scaling with vSphere 4 on Intel Xeon 5500 Series Servers",
    workload=WebSessions(), quick={"repeats": 1, "duration": 1},
    metric="score", unit="1", topology=TOPOLOGY,
    conditions=_conditions(FITTING), sizes={"guests": FITTING}, made=_conditions,
    document=OfDocument(
        {"guests": 15, **KIT, "duration": 60.0, "warm_up": 20.0},
        {"guest": Had(cpus=1, gib=6)}, line=16,
    ),
    least_cpus={"specweb-15vm-01": FITTING},
)  # fmt: skip
