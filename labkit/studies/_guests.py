"""The conditions of the latency paper's figures 3 to 6: one guest or four on one server."""

from dataclasses import replace

from labkit.condition import Condition
from labkit.setting import Setting
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.power import OnlineCpus
from labkit.settings.reclaim import FullReservation
from labkit.study import Had, OfDocument

SOURCE = (
    "Heo and Singaravelu, Deploying Extremely Latency-Sensitive Applications in VMware vSphere 5.5"
)
TOPOLOGY = "four-guests"
GUESTS = ("guest", "guest2", "guest3", "guest4")
TESTBED = {"server": Had(cpus=12, gib=64, nodes=2), "guest": Had(cpus=2, gib=2)}
"""The paper's machines (Table 1 and p. 9)."""
LATENCY_PAPER = OfDocument({"cpus": "0-1"}, TESTBED, line=10)
SUBSTITUTE = "past the host's bridge and tap (no adapter here has SR-IOV: a named substitute)"
# A claim that rests on it is judged where each guest gets others.
SHARED_CPU = {
    "VM-Latency-SRIOV [vms=4]": "its server has no CPU for each of the four guests, where the "
    "document gives each CPUs of its own",
}
STAND_INS = (
    "in a box, the substitutes for an adapter and a CPU of its own are most of a guest's round trip"
)
"""The reason why a box cannot say how much these take off."""
VIRTUAL = {
    "VM-Default": (
        "a virtual machine as it comes, its packets through the virtual switch",
        "a guest whose packets pass a bridge and a tap, batched",
        GuestNic("bridge"),
        ExclusiveCpu(False),
    ),
    "VM-SRIOV": (
        "the virtual machine owns a virtual function of the network adapter",
        f"a guest with a veth of its own, {SUBSTITUTE}", GuestNic("direct"), ExclusiveCpu(False),
    ),
    "VM-Latency-SRIOV": (
        "the same, with Latency Sensitivity set to High",
        "the same, without batching and merging, and the guest on a CPU with real-time priority, "
        "ahead of everything but its like",
        GuestNic("direct", batch=1, lro=False),
        ExclusiveCpu(),
    ),
}  # fmt: skip


def one_or_four(cpus: str) -> tuple[Condition, ...]:
    """The bare server, the three with one guest, and the three with four guests at once.

    On a bare server these `cpus` alone are online, if any are named. Guests beside one are paused.
    """
    neighbours = tuple(GuestPower("paused", guest) for guest in GUESTS[1:])
    native = Condition(
        "Native", means="the server runs Linux on bare hardware",
        here="a network namespace answers; no guest is running (those of the box are paused)",
        settings=online(cpus), optional=tuple(GuestPower("paused", guest) for guest in GUESTS),
        indifferent=unused(GUESTS),
    )  # fmt: skip
    one = (
        Condition(
            name, means, substitute, (nic, GuestPower("on"), cpu),
            (*neighbours, *on_esxi(name != "VM-Default")), {"server": "guest"},
            indifferent=unused(GUESTS[1:]),
        )
        for name, (means, substitute, nic, cpu) in VIRTUAL.items()
    )  # fmt: skip
    four = (
        Condition(
            f"{name} [vms=4]",
            f"four of it on one host: {means}",
            f"four of it on one server, each asked by a client program of its own: {substitute}",
            tuple(replace(setting, guest=guest) for guest in GUESTS
                  for setting in (nic, GuestPower("on"), cpu)),
            on_esxi(name != "VM-Default", GUESTS),
            roles={"server": GUESTS},
        )
        for name, (means, substitute, nic, cpu) in VIRTUAL.items()
    )  # fmt: skip
    return (native, *one, *four)


def online(cpus: str) -> tuple[Setting, ...]:
    """The CPUs of the paper's bare server: as many as a guest has; all of them if none is named."""
    return (OnlineCpus(cpus, role="server"),) if cpus else ()


def unused(guests: tuple[str, ...] = GUESTS[:1]) -> tuple[Setting, ...]:
    """The settings that do not matter for guests that are paused or off."""
    kinds = (GuestNic, ExclusiveCpu, FullReservation)
    return tuple(kind(guest=guest) for guest in guests for kind in kinds)


def on_esxi(reserved: bool, guests: tuple[str, ...] = GUESTS[:1]) -> tuple[Setting, ...]:
    """The paper's reservation (p. 9), which CPUs and devices of one's own need.

    Only ESXi has it, so it is to be asked for as optional.
    """
    return tuple(FullReservation(reserved, guest) for guest in guests)
