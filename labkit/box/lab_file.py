"""The lab.toml of a box: its hosts, what it is made of, and what its links were measured to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labkit.box.layout import Layout
from labkit.box.network.splice import splice_of
from labkit.box.rootless.inside import inside, tier
from labkit.lab import RELAYS

SSH_CONFIG = "ssh_config"
"""Beside the file, where only a command leads to the hosts."""


@dataclass(frozen=True)
class LinkStatus:
    """A link that is shaped: `measured` has the same keys, in words with units.

    `by` says what shapes it: tbf or netem of the kernel, or a relay of ours.
    """

    role: str
    by: str
    asked: Mapping[str, str]
    measured: Mapping[str, str] = field(default_factory=dict)
    alive: bool = True
    """Not so when its relay has ended: then nothing passes."""


def lab_toml(layout: Layout, links: Sequence[LinkStatus] = ()) -> str:
    """The box as `Lab.read` reads it."""
    head = f'name = "{layout.name}"\nknown_hosts = "known_hosts"\n'
    head += f'ssh_config = "{SSH_CONFIG}"\n' if inside() else ""
    made_of = f'\n[box]\ntier = "{tier()}"\naccelerator = "{layout.accelerators}"\n'
    if layout.wakeups:
        made_of += f'wakeups = "{layout.wakeups}"\n'
    if layout.containers:
        made_of += f'containers = "{layout.engines}"\n'
    if layout.with_disks:
        made_of += f'disks = "{disks(layout)}"\n'
    tables = [
        f'\n[hosts.{role}]\ncontrol = "{layout.control(role)}"\naddress = "{layout.data(role)}"\n'
        f'interface = "{layout.interface(role)}"\nuser = "root"\nkey = "key"\n'
        f"{_disks(layout, role)}"
        for role in layout.roles
    ]
    for link in links:
        carried = {RELAYS: splice_of(layout, link.role).stem} if link.by == "relay" else {}
        measured = {f"{key}_measured": text for key, text in link.measured.items()}
        values = {"by": link.by, **carried, **link.asked, **measured}
        lines = "".join(f'{key} = "{text}"\n' for key, text in values.items())
        tables.append(f"\n[links.{link.role}]\n{lines}")
    return head + made_of + "".join(tables)


def disks(layout: Layout) -> str:
    """The disks of all guests, in a line."""
    return "; ".join(
        f"{role}: {', '.join(f'{name} {text}' for name, text in layout.disks_of(role).items())}"
        for role in layout.with_disks
    )


# As its own Linux names them.
def _disks(layout: Layout, role: str) -> str:
    names = layout.disks_of(role) if role in layout.with_disks else ()
    return f'disks = "{" ".join(f"/dev/{name}" for name in names)}"\n' if names else ""
