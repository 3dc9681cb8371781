"""Whether the guest runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import Unknown
from labkit.host import Host
from labkit.setting import Setting
from labkit.settings.guest_nic import refusal_without_guest

VERBS = {"on": "start", "off": "stop"}


@dataclass(frozen=True)
class GuestPower(Setting):
    """`off` leaves the host to itself, as for a native run."""

    role: ClassVar[str] = "server"

    power: str = "off"

    def __post_init__(self) -> None:
        if self.power not in VERBS:
            raise Unknown("power of the guest", self.power, VERBS)

    @property
    def wanted(self) -> str:
        """`on` or `off`."""
        return self.power

    def read(self, host: Host) -> str:
        """`on` or `off`."""
        return "on" if host.check("guest", "state").strip() == "running" else "off"

    def write(self, host: Host, value: str) -> None:
        """Start the guest and wait until one can log in, or stop it."""
        host.check("guest", VERBS[value])

    def refusal(self, host: Host) -> str:
        """A host without the box's `guest` command has no guest to start or stop."""
        return refusal_without_guest(host)
