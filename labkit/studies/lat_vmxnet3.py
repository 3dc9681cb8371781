"""The cost of handing over every packet at once, as the number of packets grows."""

from labkit.condition import Condition
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import SOURCE, TESTBED, on_esxi
from labkit.study import OfDocument, Study
from labkit.workloads.packet_rate import PacketRate

SHARED = ExclusiveCpu(False, owners=("guest",))


def _condition(name: str, means: str, here: str, nic: GuestNic) -> Condition:
    return Condition(name, means, here, (nic, GuestPower("on"), SHARED), on_esxi(reserved=False),
                     {"server": "guest", "host": "server"})  # fmt: skip


study = Study(
    name="lat_vmxnet3",
    title="No batching, no merging: what the virtual NIC's low latency costs",
    question="What do CPU and throughput lose, at rising packet rates, when the virtual NIC "
    "neither gathers nor merges packets?",
    source=SOURCE,
    workload=PacketRate(), quick={"repeats": 1, "duration": 1},
    metric="throughput", unit="1/s", topology="pair",
    document=OfDocument(machines=TESTBED, line=10),
    conditions=(
        _condition(
            "VMXNET3", "a paravirtual NIC as it comes: interrupts coalesced, segments merged (LRO)",
            "a guest behind bridge and tap, 128 packets a batch, merging", GuestNic("bridge"),
        ),
        _condition(
            "VMXNET3-Latency",
            "the same with Latency Sensitivity set to High, which switches both off",
            "the same guest, one packet a batch, no merging; its CPU is shared as before, so that "
            "nothing else differs",
            GuestNic("bridge", batch=1, lro=False),
        ),
    ),
)  # fmt: skip
