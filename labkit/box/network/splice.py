"""Devices that shape a link, between a host's ends and the data network, at the switch.

    by the kernel   ends - [middle]i --- p[data]            a queue sends from i, another from p
    by our relay    ends - [middle]i --- o (relay) q --- p[data]         they send from q and o

The link of a host is everything that leads from the switch to it and to its guests.
"""

from collections.abc import Collection
from dataclasses import dataclass

from labkit.box.layout import Layout
from labkit.box.network.link import LinkPlan

BRIDGE = "data"
AT_ONCE, WAITING = 0.002, 0.05
"""Seconds of the rate that may go at once, and that may wait in the queue."""
FRAME = 1514
PACKETS_HELD = 1000


@dataclass(frozen=True)
class Splice:
    """The devices that are named after `stem`, and the ends that they stand before."""

    stem: str
    ends: tuple[str, ...]

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
            f"link set dev {self.port} master {BRIDGE}",
            *(f"link set dev {end} master {self.middle}" for end in self.ends),
        ]

    def unmade(self, by: str) -> list[str]:
        """Lines of ip that take it out, after which the ends are where they were."""
        devices = [f"{self.stem}-i", *([self.relayed[1]] if by == "relay" else []), self.middle]
        back = [f"link set dev {end} master {BRIDGE}" for end in self.ends]
        return [*back, *(f"link delete dev {device}" for device in devices)]


def splice_of(layout: Layout, host: str) -> Splice:
    """The splice of a host's link."""
    seat = layout.seat(host)
    guests = [f"g{layout.seat(guest.role)}-d" for guest in layout.topology.guests_on(host)]
    ports = [f"v{seat}-d"] if guests else []
    return Splice(f"s{seat}", (f"h{seat}-d", *ports, *guests))


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
    if not link.bits or "tbf" not in kinds:
        return ""
    a_second = link.bits / 8
    burst = max(AT_ONCE * a_second, 2 * FRAME)
    limit = burst + max(WAITING * a_second, 10 * FRAME)
    return f"tbf rate {link.bits:.0f}bit burst {burst:.0f} limit {limit:.0f}"


def queues(splice: Splice, link: LinkPlan, kinds: Collection[str]) -> list[str]:
    """Lines of tc for both directions; none where the relay does it all."""
    manner, words = by(link, kinds), queue_of(link, kinds)
    return [f"qdisc replace dev {dev} root {words}" for dev in splice.senders(manner) if words]


def relay_asked(link: LinkPlan, kinds: Collection[str]) -> dict[str, float]:
    """The values asked of the relay: the rate only if no queue of the kernel keeps it."""
    rate = 0.0 if "tbf" in kinds else link.bits
    return {"delay": link.seconds, "jitter": link.spread, "loss": link.lost, "rate": rate}


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
