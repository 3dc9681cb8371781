"""3D on a remote desktop: four loads, by two ways to send what the host has drawn."""

from labkit.condition import Condition
from labkit.settings.egress import Link
from labkit.study import Study
from labkit.workloads.viewing import LOADS, Viewing

LINE_MBIT = 20
"""The rate at which pictures leave the host: slow enough that the way to send them matters."""
WAYS = {"View 5.2": "zrle", "Horizon 6": "tight"}
"""Two releases of a product that nobody can install freely, and what stands in for each."""
NOT_RELEASES = (
    "two encodings of one VNC server stand for two releases, and software draws where they had a "
    "GPU: which one is faster is a choice of labkit's"
)


def _condition(release: str, load: str) -> Condition:
    way = WAYS[release]
    return Condition(
        f"{release} [load={load}]",
        means=f"{load} on a virtual desktop of {release} with hardware accelerated 3D",
        here=f"applications in that load's place on Xvnc, drawn by software (llvmpipe), sent as "
        f"{way} over {LINE_MBIT} Mbit/s",
        settings=(Link(LINE_MBIT, role="server"),),
        knobs={"load": load, "encoding": way},
        expects=("retransmits", "busy client"),
        in_guest=False,
    )


study = Study(
    name="horizon_3d",
    title="3D on a remote desktop: frames that the client sees, of those that the host made",
    question="How many of the frames that a host draws does the client of a remote desktop see? "
    "Does it see more by the newer way?",
    source="Horizon 6 and hardware accelerated 3D graphics (announcement of a paper)",
    workload=Viewing(), quick={"repeats": 1, "duration": 1},
    few=tuple(f"{release} [load=Solid Edge viewer]" for release in WAYS),
    metric="performance", unit="1/s", topology="uplink",
    conditions=tuple(_condition(release, load) for load in LOADS for release in WAYS),
    unmeasured={"horizon-3d-01": NOT_RELEASES},
)  # fmt: skip
