"""The picture of a box that may never have been made, by its topology."""

from dataclasses import asdict

from labkit.box import BoxStatus, Picture, draw
from labkit.box.network.link import LinkPlan
from labkit.box.status import GuestStatus, HostStatus, LinkStatus
from labkit.box.topology import GuestPlan, Topology


def planned(plan: Topology) -> Picture:
    """A box with what its topology asks for."""
    hosts = [_asked(host.role, f"CPUs: {host.cpus}") for host in plan.hosts]
    guests = [_asked(guest.role, guest.memory) for guest in plan.guests]
    on_hosts = [host.role for host in plan.hosts]
    inside = [_asked(c.role, "" if c.on in on_hosts else f"in {c.on}") for c in plan.containers]
    links = [LinkStatus(link.role, "", _quality(link)) for link in plan.links]
    return draw(BoxStatus(
        plan.name, "as asked for", hosts=(*hosts, *guests, *inside), links=tuple(links),
        guests=tuple(GuestStatus(g.role, g.on, "", disks=_disks(g)) for g in plan.guests),
        containers=tuple(GuestStatus(c.role, c.on, "") for c in plan.containers),
    ))  # fmt: skip


def _asked(role: str, text: str) -> HostStatus:
    return HostStatus(role, role, "", text, "", (), alive=True)


def _quality(link: LinkPlan) -> dict[str, str]:
    return {name: text for name, text in asdict(link).items() if text and name != "role"}


def _disks(guest: GuestPlan) -> dict[str, str]:
    return {f"{n}": text for n, text in enumerate(guest.disks, 1)}
