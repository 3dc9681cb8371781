"""Whether the guest runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import Unknown
from labkit.host import Host
from labkit.setting import Setting, Way
from labkit.settings.guest_nic import only_with_guest

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

    def way(self, kind: str, host: Host) -> Way:
        """Started, it is waited for until one can log in."""
        only_with_guest(kind, host)
        return Way(
            ("guest", "state"),
            lambda value: (("guest", VERBS[value]),),
            lambda text: "on" if text.strip() == "running" else "off",
            needs=frozenset({"guest restart"}),
            seconds=3,
            legal=" or ".join(VERBS),
        )
