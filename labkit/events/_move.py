"""A migration that is asked for: what its drivers read of it."""

import time
from dataclasses import dataclass, replace
from typing import Any, Self

from labkit.errors import BadInput, no_host
from labkit.event import Event, Say
from labkit.lab import Lab

ESCAPES = ("give up", "stop and copy", "post-copy", "throttle")
US = "controller"
"""By whose clock a line is stamped that no host has stamped."""
ARRIVED = "ARRIVED"
"""Said of the destination by a driver that sees no guest resume."""
NEAR = 1.2
"""A link's round trip and rate may differ from those asked for by this factor, up or down."""


def note(say: Say, host: str, status: str, **more: Any) -> None:
    """Say where a migration is now, as QEMU would, by our clock."""
    say(host=host, event="MIGRATION", status=status, at=time.time(), by=US, **more)


@dataclass(frozen=True)
class AskedMove(Event):
    """A guest that is to go from the host of the role `origin` to that of the role `to`."""

    guest: str = "guest"
    origin: str = "server"
    to: str = "server2"
    channels: int = 1
    """Connections that carry memory side by side."""
    rate_mbit: float = 0.0
    """Rate of the link; 0 asks for none, as with its round trip."""
    rtt_ms: float = 0.0
    disks: bool = False
    """Whether the content of its disks moves too, as where no storage is shared."""
    throttle: bool = False
    """Whether it is slowed down when it writes faster than its memory goes over."""
    post_copy: bool = False
    """Whether it goes on at the destination after the first round."""
    deadline: float = 60.0
    escape: str = "give up"
    """The way out when memory has not converged after the deadline, in seconds."""

    def __post_init__(self) -> None:
        if self.escape not in ESCAPES:
            raise BadInput(f"{self.escape!r} is not an escape", hint=f"known: {', '.join(ESCAPES)}")
        if not (self.rate_mbit >= 0 <= self.rtt_ms):
            raise BadInput("rate and round trip of a migration are 0 or more")

    @property
    def homeward(self) -> Self:
        """The same, as fast as it goes: whatever was asked for has been measured by then."""
        return replace(self, channels=1, rate_mbit=0.0, rtt_ms=0.0, throttle=False,
                       post_copy=False, deadline=5.0, escape="stop and copy")  # fmt: skip

    def lacking(self, lab: Lab) -> str:
        """The host or the guest that a lab of one's own has not; empty if it has them."""
        if missing := [role for role in (self.origin, self.to) if role not in lab.hosts]:
            return no_host(missing[0])
        origin = lab.host(self.origin)
        if self.guest in origin.guests:
            return ""
        return f"{origin.name} has no guest {self.guest}: give it a vm = in the lab file"

    def vm(self, lab: Lab) -> str:
        """The virtual machine that the guest is."""
        return lab.host(self.origin).guests[self.guest].vm
