"""QEMU by its monitor: how a guest of a box moves."""

from labkit.box.folder import Folder
from labkit.box.guests.migration import migrate, settle
from labkit.box.guests.moving import Moving
from labkit.box.layout import Layout
from labkit.box.needs import is_root
from labkit.event import Say
from labkit.events._move import AskedMove
from labkit.lab import Lab


def move(lab: Lab, asked: AskedMove, say: Say) -> None:
    """Move the guest over a link of its own, if a rate or a round trip is asked for.

    A study that was killed may have left it at the destination.
    """
    back(lab, asked)
    how = Moving(
        asked.channels, asked.throttle, asked.post_copy, asked.disks,
        f"{asked.rate_mbit:g} Mbit/s" if asked.rate_mbit else "",
        f"{asked.rtt_ms / 2:g} ms" if asked.rtt_ms else "", asked.deadline, asked.escape,
    )  # fmt: skip
    migrate(lab.name, asked.guest, to=asked.to, how=how, hears=lambda line: say(**line))


def back(lab: Lab, asked: AskedMove) -> None:
    """Move it back, as fast as that goes."""
    settle(lab.name)
    if _on(lab, asked) == asked.to:
        how = Moving(disks=asked.disks, escape="stop and copy", deadline=5)
        migrate(lab.name, asked.guest, to=asked.origin, how=how)


def refusal(lab: Lab, asked: AskedMove) -> str:
    """It takes root, a guest of QEMU, and two hosts."""
    if not is_root():
        return "a guest of a box moves for root alone"
    if missing := [role for role in (asked.origin, asked.to) if role not in lab.hosts]:
        return f"the box has no host {missing[0]} to move a guest to or from"
    if not _on(lab, asked):
        return f"the box has no guest {asked.guest}"
    return ""


# Without asking any host, for a guest takes a second to answer.
def _on(lab: Lab, asked: AskedMove) -> str:
    layout = Folder(lab.name).layout
    now = Layout.from_json(layout.read_text()) if layout.exists() else None
    return now.on(asked.guest) if now and asked.guest in now.guests else ""
