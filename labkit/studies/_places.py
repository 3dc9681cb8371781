"""The four places of the documents on containers, on one machine: `Native` to `VM-Docker`.

The container post's network studies have six: those with containers on two networks.
"""

from dataclasses import replace

from labkit.condition import Condition
from labkit.errors import Unknown
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.reclaim import FullReservation

TOPOLOGY = "places"
MEANS = {
    "Native": "Linux on the bare machine",
    "Native-Docker": "a Docker container on the bare machine",
    "VM": "a virtual machine with the same Linux",
    "VM-Docker": "a Docker container in that virtual machine",
}
HERE = {
    "Native": "this machine's own kernel, in namespaces; no guest is running",
    "Native-Docker": "a container on this machine's own kernel, by Docker where it is installed, "
    "else by crun; no guest is running",
    "VM": "a guest with a kernel of its own on the same CPUs",
    "VM-Docker": "a container in that guest, by crun",
}
ROLES = {
    ("Native", "bridge"): "server", ("Native", "host"): "server",
    ("Native-Docker", "bridge"): "container", ("Native-Docker", "host"): "hostnet",
    ("VM", "bridge"): "guest", ("VM", "host"): "guest",
    ("VM-Docker", "bridge"): "vmcontainer", ("VM-Docker", "host"): "vmhostnet",
}  # fmt: skip
"""The host that plays `server` in each place, by the network that a container is on."""
SIX = (
    ("Native", "bridge", ""), ("Native-Docker", "bridge", ""),
    ("Native-Docker", "host", "Native-Docker-HostNet"), ("VM", "bridge", ""),
    ("VM-Docker", "bridge", ""), ("VM-Docker", "host", "VM-Docker-HostNet"),
)  # fmt: skip
UNUSED = (GuestNic(), ExclusiveCpu(), FullReservation())


def place(name: str, network: str = "bridge", called: str = "") -> Condition:
    """One of the places; `called` names it otherwise, as where a study has it twice."""
    if (name, network) not in ROLES:
        raise Unknown("place", f"{name} on {network}", [f"{n} on {on}" for n, on in ROLES])
    in_guest, contained = name.startswith("VM"), name.endswith("-Docker")
    more = {"bridge": ", behind its engine's bridge", "host": ", on the network around it"}
    on = more[network] if contained else ""
    return Condition(
        called or name,
        MEANS[name] + on,
        HERE[name] + on,
        settings=(GuestPower("on"),) if in_guest else (),
        optional=() if in_guest else (GuestPower("paused"),),
        roles={"server": ROLES[name, network]},
        indifferent=() if in_guest else UNUSED,
        in_guest=in_guest,
    )  # fmt: skip


def places(network: str = "bridge") -> tuple[Condition, ...]:
    """All four, in the documents' order."""
    return tuple(place(name, network) for name in MEANS)


def beside_its_host(condition: Condition, *expects: str) -> Condition:
    """The same for a load that also looks at the machine that its server is or runs on."""
    return replace(
        condition,
        roles={**condition.roles, "host": "server"},
        expects=(*condition.expects, *expects),
    )


def six_places(*expects: str) -> tuple[Condition, ...]:
    """All six, in the document's order; `expects` are gates that each trips by design."""
    return tuple(beside_its_host(place(*names), *expects) for names in SIX)
