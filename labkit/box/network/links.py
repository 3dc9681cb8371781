"""The wires of a box, as lines for `ip -batch`.

    this machine --+                          control bridge: SSH, never measured
    each host -----+-- switch
    each guest ----+                          data bridge: test traffic

A container has a control link as well; its test traffic takes its host's. One in a guest has
neither: both take the guest's.

A host has one data link of its own. Another leads to its virtual switch, a bridge with the taps of
its guests. Each guest can also have one for itself, past the bridge and the tap.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from labkit.box.layout import HOST_INTERFACE, ROOT, SWITCH_MAC, Layout, link_name

UPLINK, VSWITCH = "uplink0", "vswitch0"
LARGEST = " mtu 65521"
"""Of the switch, so that the hosts alone decide how large a packet may be."""


@dataclass(frozen=True)
class Wire:
    """A pair of ends: one at a bridge of the switch, the other in the namespace of `at`."""

    near: str
    bridge: str
    far: str
    at: str
    mac: str


def wires(layout: Layout) -> Iterator[Wire]:
    """Every wire of the box that begins at its switch."""
    yield Wire("root-c", "control", link_name(layout.name), ROOT, layout.mac(0, ROOT))
    for role in layout.hosts:
        seat = layout.seat(role)
        yield Wire(f"h{seat}-c", "control", "control0", role, layout.mac(0, role))
        yield Wire(f"h{seat}-d", "data", "data0", role, layout.mac(1, role))
        if layout.topology.guests_on(role):
            yield Wire(f"v{seat}-d", "data", UPLINK, role, layout.mac(2, role))
    for guest in layout.guests:
        seat, ends, at = layout.seat(guest), guest_ends(layout, guest), layout.on(guest)
        yield Wire(f"g{seat}-c", "control", ends["control"], at, layout.mac(3, guest))
        yield Wire(f"g{seat}-d", "data", ends["direct"], at, layout.mac(4, guest))
    for container in layout.containers:
        if (at := layout.on(container)) in layout.hosts:
            seat, end = layout.seat(container), container_ends(layout, container)["control"]
            yield Wire(f"g{seat}-c", "control", end, at, layout.mac(3, container))


def guest_ends(layout: Layout, guest: str) -> dict[str, str]:
    """Names of a guest's ends on its host."""
    number = layout.number(guest)
    names = {"tap": "tap", "direct": "direct", "control": "gcontrol"}
    if layout.plan(guest).accelerator != "uml":
        names |= {"switch": "gswitch", "control_tap": "gtap"}
    return {end: f"{name}{number}" for end, name in names.items()}


def container_ends(layout: Layout, container: str) -> dict[str, str]:
    """Names of a container's ends on its host; `near` is there as long as the container runs."""
    seat = layout.seat(container)
    return {"control": f"ccontrol{seat}", "switch": f"cswitch{seat}", "near": f"clink{seat}"}


def at_switch(layout: Layout, pids: Mapping[str, int]) -> str:
    """Both bridges, and every wire, its far end in the namespace of `pids`."""
    return _batch(
        "link add control up type bridge mcast_snooping 0",
        f"link add data address {layout.mac(*SWITCH_MAC)} up type bridge mcast_snooping 0",
        # Set by itself, or the kernel makes it the smallest of the ports'.
        f"link set dev data{LARGEST}",
        *(at_switch_for(wire, wire.near, pids[wire.at]) for wire in wires(layout)),
    )


def at_switch_for(wire: Wire, near: str, pid: int) -> str:
    """One wire of the switch, whose near end is called `near`, for now or for good."""
    size = LARGEST if wire.far == HOST_INTERFACE else ""
    return (f"link add {near} master {wire.bridge}{size} up type veth"
            f" peer name {wire.far} address {wire.mac} netns {pid}")  # fmt: skip


def at_root(layout: Layout) -> str:
    """The end on this machine itself, for SSH only."""
    return _batch(*_address(link_name(layout.name), layout.control(ROOT)))


def at_host(layout: Layout, role: str) -> str:
    """A host's two links, and those of its guests."""
    addresses = _address("control0", layout.control(role)) + _address("data0", layout.data(role))
    guests = [guest.role for guest in layout.topology.guests_on(role)]
    inner = _virtual_switch() if guests else []
    inner += [line for guest in guests for line in _for_guest(layout, guest)]
    # A container's own end goes with it, so that it leads through a switch that stays.
    for plan in layout.topology.containers_on(role):
        ends = container_ends(layout, plan.role)
        inner.append(f"link add {ends['switch']} up type bridge mcast_snooping 0")
        inner.append(f"link set {ends['control']} master {ends['switch']} up")
    return _batch("link set lo up", *addresses, *inner)


def _virtual_switch() -> list[str]:
    return [
        f"link add {VSWITCH} up type bridge mcast_snooping 0",
        f"link set {UPLINK} master {VSWITCH} up",
    ]


# An end that the guest reads raw has to take frames that are for the guest's hardware address.
# QEMU reads none raw, so that its control link leads through a switch of its own.
def _for_guest(layout: Layout, guest: str) -> list[str]:
    ends, uid = guest_ends(layout, guest), layout.uid(guest)
    lines = [
        f"tuntap add dev {ends['tap']} mode tap user {uid}",
        f"link set {ends['tap']} master {VSWITCH} up",
        f"link set {ends['direct']} promisc on up",
        f"link set {ends['control']} promisc on up",
    ]
    if "switch" in ends:
        lines += [
            f"link add {ends['switch']} up type bridge mcast_snooping 0",
            f"tuntap add dev {ends['control_tap']} mode tap user {uid}",
            f"link set {ends['control']} master {ends['switch']} up",
            f"link set {ends['control_tap']} master {ends['switch']} up",
        ]
    return lines


def at_arrival(layout: Layout, guest: str, first: bool) -> str:
    """Lines of ip that ready a host for an arriving guest; the first needs a virtual switch too."""
    return _batch(*(_virtual_switch() if first else []), *_for_guest(layout, guest))


def at_departure(layout: Layout, guest: str) -> str:
    """Lines of ip that remove a departed guest from a host; its wires are the switch's."""
    ends = guest_ends(layout, guest)
    links = [ends[end] for end in ("tap", "control_tap", "switch") if end in ends]
    return _batch(*(f"link delete {end}" for end in links))


def at_guest(layout: Layout, guest: str) -> str:
    """A guest's own two links."""
    control, data = layout.control(guest), layout.data(guest)
    # As QEMU has them; what loads a root of its own names them by itself.
    renames = [f"link set eth{n} name vec{n}" for n in range(2)] if layout.plan(guest).root else []
    addresses = _address("vec0", control) + _address("vec1", data)
    return _batch("link set lo up", *renames, *addresses)


def _address(link: str, address: str) -> list[str]:
    return [f"addr add {address}/24 dev {link}", f"link set {link} up"]


def _batch(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)
