"""The wires of a box, as lines for `ip -batch`.

    this machine --+                          control bridge: SSH, never measured
    client --------+-- switch
    server --------+                          data bridge: test traffic
    guest ---------+

The server has one data link of its own, one that leads to its virtual switch (a bridge with the
guest's tap), and one that the guest can have for itself, past the server's bridge and tap.
"""

from __future__ import annotations

from collections.abc import Mapping

from labkit.box.layout import GUEST, HOSTS, Layout

GUEST_UID = 64001
"""The guest's processes run as this user, who is in no passwd file and owns nothing."""
TAP, UPLINK, VSWITCH, DIRECT, GUEST_CONTROL = "tap0", "uplink0", "vswitch0", "direct0", "gcontrol0"


def at_switch(layout: Layout, pids: Mapping[str, int]) -> str:
    """Both bridges, and every link of the box, its far end in the namespace of `pids`."""
    wires = [("root-c", "control", layout.link, "root", layout.mac(0, "root"))]
    for role in HOSTS:
        wires += [
            (f"{role}-c", "control", "control0", role, layout.mac(0, role)),
            (f"{role}-d", "data", "data0", role, layout.mac(1, role)),
        ]
    wires += [
        ("vswitch-d", "data", UPLINK, "server", layout.mac(2, "server")),
        ("guest-c", "control", GUEST_CONTROL, "server", layout.mac(3, "server")),
        ("guest-d", "data", DIRECT, "server", layout.mac(4, "server")),
    ]
    bridges = [f"link add {name} up type bridge mcast_snooping 0" for name in ("control", "data")]
    return _batch(
        *bridges,
        *(
            f"link add {near} master {bridge} up type veth"
            f" peer name {far} address {mac} netns {pids[role]}"
            for near, bridge, far, role, mac in wires
        ),
    )


def at_root(layout: Layout) -> str:
    """This machine's own end, for SSH only."""
    return _batch(*_addressed(layout.link, layout.control("root")))


def at_host(layout: Layout, role: str) -> str:
    """A host's two links, and on the server those of its guest."""
    own = _addressed("control0", layout.control(role)) + _addressed("data0", layout.data(role))
    return _batch("link set lo up", *own, *(_for_guest() if role == "server" else []))


# An end that the guest reads raw has to take frames that are for the guest's hardware address.
def _for_guest() -> list[str]:
    return [
        f"link add {VSWITCH} up type bridge mcast_snooping 0",
        f"tuntap add dev {TAP} mode tap user {GUEST_UID}",
        *(f"link set {port} master {VSWITCH} up" for port in (UPLINK, TAP)),
        *(f"link set {port} promisc on up" for port in (DIRECT, GUEST_CONTROL)),
    ]


def at_guest(layout: Layout) -> str:
    """The guest's own two links."""
    control, data = layout.control(GUEST), layout.data(GUEST)
    return _batch("link set lo up", *_addressed("vec0", control), *_addressed("vec1", data))


def _addressed(link: str, address: str) -> list[str]:
    return [f"addr add {address}/24 dev {link}", f"link set {link} up"]


def _batch(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)
