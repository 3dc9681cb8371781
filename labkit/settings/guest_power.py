"""Whether the guest runs."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import Unknown
from labkit.host import Host
from labkit.setting import Way
from labkit.settings._guest import FIRST, OfGuest, only_with_guest

VERBS = {"on": "start", "off": "stop"}


@dataclass(frozen=True)
class GuestPower(OfGuest):
    """`off` leaves the host to itself, as for a native run."""

    power: str = "off"
    guest: str = FIRST

    def __post_init__(self) -> None:
        super().__post_init__()
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
            (*self.command, "state"),
            lambda value: ((*self.command, VERBS[value]),),
            lambda text: "on" if text.strip() == "running" else "off",
            needs=frozenset({"guest restart"}),
            seconds=3,
            legal=" or ".join(VERBS),
        )
