"""Devices that shape a link, between a machine's ends and a bridge of its network.

    by the kernel   ends - [middle]i --- p[bridge]            a queue sends from i, another from p
    by our relay    ends - [middle]i --- o (relay) q --- p[bridge]         they send from q and o

The link of a host is everything that leads from the switch to it and to its guests. A guest's own
stands between the host's virtual switch and it, and on its direct path.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from labkit.box.layout import Layout
from labkit.box.network.link import LinkPlan
from labkit.box.network.links import VSWITCH, guest_ends, wires

SWITCH = "switch"
AT_ONCE, WAITING = 0.002, 0.05
"""Seconds of the rate that may go at once, and that may wait in the queue."""
FRAME = 1514
PACKETS_HELD = 1000


@dataclass(frozen=True)
class Splice:
    """The devices that are named after `stem`, in the namespace of `at`."""

    stem: str
    at: str
    ends: tuple[str, ...]
    bridge: str

    @property
    def middle(self) -> str:
        """The bridge on the machine's side."""
        return f"{self.stem}-m"

    @property
    def port(self) -> str:
        """The device that is at the network's bridge."""
        return f"{self.stem}-p"

    @property
    def relayed(self) -> tuple[str, str]:
        """The two devices that a relay stands between: the machine's side, the network's."""
        return f"{self.stem}-o", f"{self.stem}-q"

    def senders(self, by: str) -> tuple[str, str]:
        """The devices whose queues shape: toward the machine, and toward the network."""
        return self.relayed if by == "relay" else (self.port, f"{self.stem}-i")

    def made(self, by: str) -> list[str]:
        """Lines of ip that put it in between."""
        first, (out, into) = f"{self.stem}-i", self.relayed
        pairs = [(first, out), (into, self.port)] if by == "relay" else [(first, self.port)]
        return [
            f"link add name {self.middle} up type bridge mcast_snooping 0",
            *(f"link add name {near} up type veth peer name {far}" for near, far in pairs),
            *(f"link set dev {name} up" for pair in pairs for name in pair),
            f"link set dev {first} master {self.middle}",
            f"link set dev {self.port} master {self.bridge}",
            *(f"link set dev {end} master {self.middle}" for end in self.ends),
        ]  # fmt: skip

    def unmade(self, by: str) -> list[str]:
        """Lines of ip that take it out, after which the ends are where they were."""
        devices = [f"{self.stem}-i", *([self.relayed[1]] if by == "relay" else []), self.middle]
        back = [f"link set dev {end} master {self.bridge}" for end in self.ends]
        return [*back, *(f"link delete dev {device}" for device in devices)]


def splices(layout: Layout, role: str, roles: Collection[str]) -> Iterator[Splice]:
    """Yield the splices of one machine, assuming that the links of `roles` have theirs."""
    near = {wire.far: wire.near for wire in wires(layout) if wire.bridge == "data"}
    if role in layout.guests:
        host, ends, number = layout.on(role), guest_ends(layout, role), layout.number(role)
        above = stem(layout, host) + "-m" if host in roles else "data"
        yield Splice(f"t{number}", host, (ends["tap"],), VSWITCH)
        yield Splice(f"d{number}", SWITCH, (near[ends["direct"]],), above)
        return
    seat, directs = layout.seat(role), []
    for guest in layout.topology.guests_on(role):
        direct = near[guest_ends(layout, guest.role)["direct"]]
        number = layout.number(guest.role)
        directs.append(f"d{number}-p" if guest.role in roles else direct)
    ports = [f"v{seat}-d"] if directs else []
    yield Splice(stem(layout, role), SWITCH, (f"h{seat}-d", *ports, *directs), "data")


def stems(layout: Layout, role: str) -> list[str]:
    """The stems that name the devices of all its splices."""
    return [splice.stem for splice in splices(layout, role, ())]


def stem(layout: Layout, host: str) -> str:
    """The stem that names the devices of a host's splice."""
    return f"s{layout.seat(host)}"


def by(link: LinkPlan, kinds: Collection[str]) -> str:
    """The shaper of a link, if the kernel has these kinds of queues; empty if none is needed."""
    if not link.shaped:
        return ""
    if link.seconds or link.lost:
        return "netem" if "netem" in kinds else "relay"
    return next((kind for kind in ("tbf", "netem") if kind in kinds), "relay")


def queue_of(link: LinkPlan, kinds: Collection[str]) -> str:
    """The queue that tc is asked for in each direction; empty where the relay does it all."""
    if by(link, kinds) == "netem":
        return _netem(link)
    return _tbf(link) if link.bits and "tbf" in kinds else ""


def queues(splice: Splice, link: LinkPlan, kinds: Collection[str]) -> list[str]:
    """Lines of tc for both directions; none where the relay does it all."""
    manner, words = by(link, kinds), queue_of(link, kinds)
    return [f"qdisc replace dev {dev} root {words}" for dev in splice.senders(manner) if words]


def relay_asked(link: LinkPlan, kinds: Collection[str]) -> dict[str, float]:
    """The values asked of the relay: the rate only if no queue of the kernel keeps it."""
    rate = 0.0 if "tbf" in kinds else link.bits
    return {"delay": link.seconds, "jitter": link.spread, "loss": link.lost, "rate": rate}


def _tbf(link: LinkPlan) -> str:
    a_second = link.bits / 8
    burst = max(AT_ONCE * a_second, 2 * FRAME)
    limit = burst + max(WAITING * a_second, 10 * FRAME)
    return f"tbf rate {link.bits:.0f}bit burst {burst:.0f} limit {limit:.0f}"


# What is under way must fit: twice what the delay holds at the rate, in packets of the usual size.
def _netem(link: LinkPlan) -> str:
    a_second = (link.bits or 10e9) / 8 / FRAME
    words = f"netem limit {max(PACKETS_HELD, 2 * link.seconds * a_second):.0f}"
    if link.seconds:
        words += f" delay {link.seconds * 1e6:.0f}us"
    if link.spread:
        words += f" {link.spread * 1e6:.0f}us"
    if link.lost:
        words += f" loss {100 * link.lost:g}%"
    return words + (f" rate {link.bits:.0f}bit" if link.bits else "")
