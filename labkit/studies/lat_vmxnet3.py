"""The cost of handing over every packet at once, as the number of packets grows."""

from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import TESTBED, on_esxi
from labkit.study import OfDocument, Study
from labkit.workloads.packet_rate import PacketRate

ROLES = {"server": "guest", "host": "server"}
SHARED = ExclusiveCpu(False, owners=("guest",))

study = Study(
    name="lat_vmxnet3",
    title="No batching, no merging: what the virtual NIC's low latency costs",
    question="What do CPU and throughput lose, at rising packet rates, when the virtual NIC "
    "neither gathers nor merges packets?",
    source="Heo and Singaravelu, Deploying Extremely Latency-Sensitive Applications in VMware "
    "vSphere 5.5",
    workload=PacketRate(),
    quick={"repeats": 1, "duration": 1},
    metric="throughput",
    unit="1/s",
    topology="pair",
    document=OfDocument(machines=TESTBED, line=10),
    conditions=(
        Condition(
            "VMXNET3",
            means="a paravirtual NIC as it comes: interrupts coalesced, segments merged (LRO)",
            here="a guest behind bridge and tap, 128 packets a batch, merging",
            settings=(GuestNic("bridge"), GuestPower("on"), SHARED),
            optional=on_esxi(reserved=False),
            roles=ROLES,
        ),
        Condition(
            "VMXNET3-Latency",
            means="the same with Latency Sensitivity set to High, which switches both off",
            here="the same guest, one packet a batch, no merging; its CPU is shared as before, so "
            "that nothing else differs",
            settings=(GuestNic("bridge", batch=1, lro=False), GuestPower("on"), SHARED),
            optional=on_esxi(reserved=False),
            roles=ROLES,
        ),
    ),
    claims=published.of("lat_vmxnet3"),
)
