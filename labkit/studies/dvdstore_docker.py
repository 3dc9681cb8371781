"""Does a database of orders scale out as well in containers and guests as on the bare machine?"""

from __future__ import annotations

from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import unused
from labkit.study import Study
from labkit.workloads.dvdstore import DvdStore

GUESTS = ("guest", "guest2")
CONTAINERS = ("container", "container2", "container3", "container4")
IN_GUESTS = tuple(f"vm{name}" for name in CONTAINERS)
OFF = tuple(GuestPower("paused", guest) for guest in GUESTS)
ON = tuple(GuestPower("on", guest) for guest in GUESTS)
SCALED = "scaled to the box: four databases on one CPU for sixteen on thirty-two, asked directly"
# All CPUs are committed, as the document's were: who waits for one is what is compared.
BUSY = ("steal", "busy client", "clock step", "paused")
NEEDED = "several NUMA nodes"

study = Study(
    name="dvdstore_docker",
    title="An order-entry database in containers and guests: what each layer costs",
    question="Do several databases process as many orders a minute in containers, guests, and "
    "containers in guests as on the bare machine?",
    source="Running Transactional Workloads Using Docker Containers on vSphere 6.0",
    workload=DvdStore(duration=8, warm_up=6, users=4, buffers=32),
    quick={"repeats": 1, "duration": 4, "warm_up": 6},
    metric="orders per minute",
    unit="1/min",
    topology="shops",
    conditions=(
        Condition(
            "Native-16S",
            means="sixteen databases on the bare machine, each with its web server",
            here=f"{SCALED}, on this machine's own kernel; no guest is running",
            optional=OFF,
            indifferent=unused(GUESTS),
            expects=BUSY,
            knobs={"instances": 4},
            in_guest=False,
        ),
        Condition(
            "Native-Docker-16S",
            means="sixteen Docker containers with a database each, behind Docker's bridge",
            here=f"{SCALED}, each in a container behind its engine's bridge",
            optional=OFF,
            indifferent=unused(GUESTS),
            roles={"server": CONTAINERS},
            expects=BUSY,
            in_guest=False,
        ),
        Condition(
            "VM-8VMs-16S",
            means="eight virtual machines of four CPUs with two databases each",
            here=f"{SCALED}: two guests of one CPU with two databases each",
            settings=ON,
            roles={"server": GUESTS},
            expects=BUSY,
            knobs={"instances": 2},
            in_guest=True,
        ),
        Condition(
            "VM-Docker-8VMs-16S",
            means="eight virtual machines with two Docker containers each",
            here=f"{SCALED}: two guests of one CPU with two containers each, by crun",
            settings=ON,
            roles={"server": IN_GUESTS},
            expects=BUSY,
            in_guest=True,
        ),
        Condition(
            "Native-Docker-16S, pinned",
            means="the containers of Native-Docker-16S, half of them on each NUMA node",
            here="each database in its container on the CPUs of one NUMA node, in turn",
            optional=OFF,
            indifferent=unused(GUESTS),
            roles={"server": CONTAINERS},
            expects=BUSY,
            knobs={"nodes": True},
            in_guest=False,
        ),
        Condition(
            "Native-16S, not durable",
            means="as Native-16S, and PostgreSQL set as the document's kit sets it: "
            "synchronous_commit and full_page_writes off",
            here=f"{SCALED}, on this machine's own kernel, and both of these off",
            optional=OFF,
            indifferent=unused(GUESTS),
            expects=BUSY,
            knobs={"instances": 4, "durability": "fast"},
            in_guest=False,
        ),
    ),
    claims=published.of("dvdstore_docker"),
    takes={"dvdstore-docker-05": NEEDED, "dvdstore-docker-06": NEEDED},
)
