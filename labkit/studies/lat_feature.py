"""The gain from each part of the feature, one mechanism after another."""

from labkit.condition import Condition
from labkit.event import Event
from labkit.events.asked_to_start import AskedToStart
from labkit.setting import Setting
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.neighbour import PLACES, GuestNeighbour, Halting, Neighbour
from labkit.settings.reclaim import FullReservation, MemoryLock, Reclaim
from labkit.studies._guests import SOURCE, TESTBED, on_esxi
from labkit.study import OfDocument, Study
from labkit.workloads.wake_up import WakeUp

ALL, REST = PLACES
# A guest that is kept waiting for a CPU, which is what this is about, finds its time stolen, and
# its clock runs unevenly.
# In a box of two CPUs the client shares its CPU with a neighbour, in all that is compared.
STARVED = ("clock step", "paused", "steal", "load generator")
OWNED, SHARED = ExclusiveCpu(owners=("guest",)), ExclusiveCpu(False, owners=("guest",))
BATCHED, PROMPT = GuestNic("bridge"), GuestNic("bridge", batch=1, lro=False)


# A second guest that the feature is asked for, and that has nothing reserved.
UNRESERVED = (
    GuestPower("off", guest="guest2"), FullReservation(False, guest="guest2"),
    ExclusiveCpu(guest="guest2"),
)  # fmt: skip


# On ESXi only CPUs that are shared can do without a reservation.
def _condition(
    name: str, means: str, here: str, *settings: Setting, events: tuple[Event, ...] = ()
) -> Condition:
    settings_there = (GuestPower("on"), *settings)
    esxi = on_esxi(reserved=OWNED in settings)
    required = tuple(setting for setting in settings_there if setting != Neighbour())
    # Nobody beside it is what a host has that cannot have a neighbour.
    nobody = (setting for setting in settings_there if setting == Neighbour())
    beside = (GuestNeighbour(setting.kind, of=setting.place) for setting in settings_there
              if isinstance(setting, Neighbour) and setting != Neighbour())  # fmt: skip
    optional = (*(setting for setting in esxi if setting not in required), *nobody, *beside)
    roles = {"server": "guest", "host": "server"}
    return Condition(name, means, here, required, optional, roles, STARVED, events=events)


study = Study(
    name="lat_feature",
    title="The parts of latency sensitivity, one by one",
    question="How much does each part of latency sensitivity gain (a CPU of its own, no batching "
    "of packets), and which delays remain?",
    source=SOURCE,
    workload=WakeUp(count=3600), quick={"repeats": 1, "count": 500},
    metric="response time", unit="us", topology="neighbours",
    document=OfDocument(machines=TESTBED, line=10),
    conditions=(
        _condition(
            "Default", "a guest as it comes, on a host that others use",
            "a guest that batches packets and shares its CPUs with a busy loop on each",
            BATCHED, SHARED, Neighbour("busy", ALL),
        ),
        _condition(
            "Idle host", "the same, with nobody beside it",
            "the same without the busy loops",
            BATCHED, SHARED, Neighbour(),
        ),
        _condition(
            "No batching", "only the tuning of the virtual NIC",
            "as Default, with one packet a batch and no merging",
            PROMPT, SHARED, Neighbour("busy", ALL),
        ),
        _condition(
            "CPU owned", "only the exclusive access to CPUs",
            "as Default, with the last CPU for the guest, and the busy loops on the others",
            BATCHED, OWNED, Neighbour("busy", REST),
        ),
        _condition(
            "Latency-High", "the whole feature",
            "both: the last CPU for the guest, one packet a batch, no merging",
            PROMPT, OWNED, Neighbour("busy", REST),
        ),
        _condition(
            "Latency-High, never halting",
            "the whole feature, and a guest that stays awake when it has nothing to do",
            "as Latency-High, and a program of the lowest priority keeps the guest's kernel busy",
            PROMPT, OWNED, Neighbour("busy", REST), Halting(False),
        ),
        _condition(
            "Latency-High, memory reclaimed",
            "the feature without its reservation, on a host that is short of memory",
            "as Latency-High, and five times a second the host moves what it can of the guest's "
            "memory to a disk",
            PROMPT, OWNED, Neighbour("busy", REST), Reclaim(),
        ),
        _condition(
            "Latency-High, memory reserved",
            "the same host, and all memory of the guest reserved",
            "as the one before, and all memory of the guest locked",
            PROMPT, OWNED, Neighbour("busy", REST), MemoryLock(), Reclaim(),
        ),
        _condition(
            "Latency-High, memory-hungry neighbour",
            "the whole feature, and a guest that fills the last-level cache on the same socket",
            "as Latency-High, and in place of the busy loops one that goes through 64 MiB",
            PROMPT, OWNED, Neighbour("memory", REST),
        ),
        _condition(
            "Latency-High, CPU reserved", "the whole feature, and all CPU time reserved",
            "not in the box: it has no admission control that a reservation could ask",
            PROMPT, OWNED, FullReservation(),
        ),
        _condition(
            "Latency-High, memory not reserved",
            "the whole feature, asked for a second guest that has no memory reserved",
            "not in the box: it has no admission control that could refuse a guest",
            PROMPT, OWNED, FullReservation(), *UNRESERVED, events=(AskedToStart(),),
        ),
    ),
    untold={
        "lat-feature-01": "a guest of a box is several processes on one CPU, which wait for one "
        "another: with nobody beside it, its ready share is above the limit too",
        "refused_without_memory": "nothing here refuses the feature to a guest whose memory is not "
        "reserved; what a reservation protects from is measured",
    },
    unmeasured={
        "foreign_share": "ticks of 10 ms are too coarse for a thousandth of the time, and esxtop "
        "does not say which CPUs a guest owns",
        "cpus_owned_share": "no public text says how ESXi shows which CPUs a guest owns",
        "coalescing": "labkit switches both off itself, and reads nothing that shows what ESXi "
        "would have done without that",
    },
)  # fmt: skip
