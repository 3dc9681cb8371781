"""A web in one to four guests: what passed-through, virtual and emulated NICs make of it."""

from dataclasses import replace
from typing import Any

from labkit.condition import Condition
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.offloads import Coalescing, NicQueues
from labkit.settings.processes import ServiceRunning
from labkit.studies._guests import GUESTS, SUBSTITUTE, unused
from labkit.studies.specweb_15vm import BUSY, KIT, players
from labkit.study import Had, OfDocument, Study
from labkit.workloads.web import WebSessions

PARAVIRTUAL, EMULATED = "guest5", "guest6"
"""Guests that are alike but for their NICs: one paravirtual, one emulated whole."""
ALL = (*GUESTS, PARAVIRTUAL, EMULATED)
SEVERAL = "1 2 3 4"
FIXED = 2
"""Users of either, in trials that are long enough for some pages of an emulated CPU."""
SLOW = {"shapes": "download", "good": 1.5, "tolerable": 3.0, "warm_up": 1.0}
"""Limits of an emulated CPU, which would spend on TLS what it is to spend on its adapter."""
WAITS = {8000: 125, 1500: 668}
"""Interrupts a second, and microseconds between two, as the e1000 driver rounds them."""
QUEUES = 2
"""Of the document's NICs, for receiving (RSS)."""


def _four(name: str, means: str, here: str, path: str, steps: str) -> Condition:
    settings = [(GuestPower("on", guest), GuestNic(path, guest=guest)) for guest in GUESTS]
    return Condition(
        name, means, here, tuple(setting for pair in settings for setting in pair),
        roles=players(*GUESTS), expects=BUSY, in_guest=True,
        knobs={"guests": GUESTS, "steps": steps}, **_resting(*GUESTS),
    )  # fmt: skip


def _alone(name: str, means: str, here: str, guest: str, **knobs: Any) -> Condition:
    fixed = {**SLOW, "sessions": FIXED, "duration": 5.0, "exits": True, "guests": (guest,)}
    return Condition(
        name, means, here, (GuestPower("on", guest),), roles=players(guest), expects=BUSY,
        in_guest=True, knobs=fixed | knobs, **_resting(guest),
    )  # fmt: skip


# The guests that are not asked are paused, if there are any.
def _resting(*awake: str) -> dict[str, Any]:
    others = tuple(guest for guest in ALL if guest not in awake)
    paused = tuple(GuestPower("paused", guest) for guest in others)
    return {"optional": paused, "indifferent": unused(others)}


# What a throttled adapter does to throughput only a search shows.
def _throttled(rate: int) -> Condition:
    condition = _alone(
        f"VM-DirectPath, {rate} interrupts",
        f"a guest whose own driver lets the adapter interrupt it {rate} times a second at most",
        f"a guest whose driver of an emulated adapter (e1000) is set to {rate} a second",
        EMULATED, sessions=0, start=FIXED, duration=1.0, step=0.5, exits=False,
    )  # fmt: skip
    waits = Coalescing(rx_usecs=WAITS[rate], role=EMULATED)
    queues = NicQueues(combined=QUEUES, role=EMULATED)
    return replace(
        condition, settings=(*condition.settings, waits), optional=(*condition.optional, queues)
    )  # fmt: skip


NATIVE = Condition(
    "Native",
    means="Linux and its web server on the bare machine",
    here="nginx on this machine's own kernel; no guest is running",
    roles=players("server"), expects=BUSY, in_guest=False, **_resting(),
)  # fmt: skip
PAST = _four(
    "VM-DirectPath", "one to four guests, each with an adapter of its own",
    f"one to four guests of User-Mode Linux, each with a veth of its own, {SUBSTITUTE}",
    "direct", SEVERAL,
)  # fmt: skip
UNBOUND = _four(
    "VM-DirectPath, no bound interrupts", "four guests whose interrupts go where the kernel sends "
    "them", "not in a box: no NIC of its guests has an interrupt to bind", "direct",
    SEVERAL[-1],
)  # fmt: skip

study = Study(
    name="specweb_directpath",
    title="A web in guests: users within limits of time, by the kind of NIC",
    question="How many users does a web in one to four guests bear, beside the bare machine? And "
    "what does each kind of network adapter cost?",
    source="Achieving High Web Throughput Scaling with vSphere 4 on Intel Xeon 5500 Series Servers",
    workload=WebSessions(step=0.25, duration=0.5, warm_up=0.2, start=32),
    quick={"repeats": 1, "duration": 1},
    few=("VM-paravirtual", "VM-e1000"),
    metric="throughput", unit="Gbit/s", topology="web",
    conditions=(
        NATIVE,
        PAST,
        replace(UNBOUND, settings=(
            *UNBOUND.settings, *(ServiceRunning("irqbalance", False, role=one) for one in GUESTS)
        )),
        _four(
            "VM-vmxnet3", "four guests behind the virtual switch, with paravirtual adapters",
            "four guests of User-Mode Linux behind bridge and tap", "bridge", SEVERAL[-1],
        ),
        _alone(
            "VM-paravirtual", "a guest whose driver knows that its adapter is virtual (vmxnet)",
            "a guest of QEMU with virtio", PARAVIRTUAL,
        ),
        _alone(
            "VM-e1000", "a guest whose adapter is emulated whole (e1000)",
            "the same guest of QEMU with an emulated 82545EM", EMULATED,
        ),
        *(_throttled(rate) for rate in WAITS),
    ),
    document=OfDocument(
        {**KIT, "duration": 60.0, "warm_up": 20.0},
        {"server": Had(cpus=8, gib=96, nodes=2), "guest": Had(cpus=4, gib=21)}, line=10,
    ),
    least_cpus={"specweb-directpath-01": len(GUESTS)},
    untold={
        "specweb-directpath-06": "in a box the substitute for pass-through is a NIC without a "
        "bridge, which saves CPU time by its nature",
    },
    emulated={"specweb-directpath-07": "an emulated CPU decides what an interrupt costs"},
)  # fmt: skip
