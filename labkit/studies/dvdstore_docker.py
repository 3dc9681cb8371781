"""Does a database of orders scale out as well in containers and guests as on the bare machine?"""

from typing import Any

from labkit.box.growing import numbered
from labkit.condition import Condition
from labkit.errors import BadInput
from labkit.settings.guest_power import GuestPower
from labkit.studies._guests import unused
from labkit.study import Had, OfDocument, Study
from labkit.workloads.dvdstore import DvdStore

FITTING = {"databases": 0, "guests": 2}
"""On the smallest lab; 0 is two databases for each guest, as the document's sixteen on eight."""
# All CPUs are committed, as the document's were: who waits for one is what is compared.
BUSY = ("steal", "busy client", "clock step", "paused")
NEEDED = "several NUMA nodes"
FAST = "PostgreSQL set as the document's kit sets it: synchronous_commit and full_page_writes off"


# Databases are dealt out evenly: each server of a condition has as many as the others.
def _conditions(databases: int, guests: int) -> tuple[Condition, ...]:
    named, (databases, share) = numbered("guest", guests), _shared(databases or 2 * guests, guests)
    containers = numbered("container", databases)
    paused = tuple(GuestPower("paused", guest) for guest in named)
    scaled = f"{databases} databases, asked as `way` says"
    plain: dict[str, Any] = {
        "optional": paused, "indifferent": unused(named), "expects": BUSY, "in_guest": False,
    }  # fmt: skip
    native = {**plain, "knobs": {"instances": databases}}
    contained = {**plain, "roles": {"server": containers}}
    on = tuple(GuestPower("on", guest) for guest in named)
    running: dict[str, Any] = {"settings": on, "expects": BUSY, "in_guest": True}
    return (
        Condition("Native-16S", "sixteen databases on the bare machine, each with its web server",
                  f"{scaled}, on this machine's own kernel; no guest is running", **native),
        Condition("Native-Docker-16S",
                  "sixteen Docker containers with a database each, behind Docker's bridge",
                  f"{scaled}, each in a container behind its engine's bridge", **contained),
        Condition("VM-8VMs-16S", "eight virtual machines of four CPUs with two databases each",
                  f"{scaled}: {guests} guests with {share} of them each", **running,
                  roles={"server": named}, knobs={"instances": share}),
        Condition("VM-Docker-8VMs-16S",
                  "eight virtual machines with two Docker containers each",
                  f"{scaled}: {guests} guests with {share} containers each, by crun", **running,
                  roles={"server": numbered("vmcontainer", databases)}),
        Condition("Native-Docker-16S, pinned",
                  "the containers of Native-Docker-16S, half of them on each NUMA node",
                  "each database in its container on the CPUs of one NUMA node, in turn",
                  **{**contained, "knobs": {"nodes": True}}),
        Condition("Native-16S, not durable", f"as Native-16S, and {FAST}",
                  f"{scaled}, on this machine's own kernel, and both of these off",
                  **{**native, "knobs": {"instances": databases, "durability": "fast"}}),
    )  # fmt: skip


def _shared(databases: int, guests: int) -> tuple[int, int]:
    if databases % guests:
        problem = f"dvdstore_docker: {databases} databases cannot be shared by {guests} guests"
        raise BadInput(problem, hint="a multiple of the guests, such as 16 for 8")
    return databases, databases // guests


study = Study(
    name="dvdstore_docker",
    title="An order-entry database in containers and guests: what each layer costs",
    question="Do several databases process as many orders a minute in containers, guests, and "
    "containers in guests as on the bare machine?",
    source="Running Transactional Workloads Using Docker Containers on vSphere 6.0",
    workload=DvdStore(duration=8, warm_up=6, users=4, buffers=32),
    quick={"repeats": 1, "duration": 4, "warm_up": 6},
    metric="orders per minute", unit="1/min", topology="shops",
    conditions=_conditions(**FITTING), sizes=FITTING, made=_conditions, grows={"guests": "guest"},
    document=OfDocument(
        {"databases": 16, "guests": 8, "way": "web"},
        {"server": Had(cpus=32, nodes=2), "guest": Had(cpus=4)},
    ),
    takes={"dvdstore-docker-05": NEEDED, "dvdstore-docker-06": NEEDED},
)  # fmt: skip
