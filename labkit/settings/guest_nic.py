"""How the guest's data NIC reaches the wire, and how it batches packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import BadInput, Unknown
from labkit.host import Host
from labkit.setting import Setting

PATHS = ("bridge", "direct")
NO_GUEST = "has no guest of the box"
KEYS = ("nic", "batch", "lro")


@dataclass(frozen=True)
class GuestNic(Setting):
    """`bridge` leads through the server's virtual switch and a tap, `direct` past both of them.

    `batch` is how many packets the NIC hands over at once, 1 to 128; `lro` whether it merges them.
    A change restarts the guest.
    """

    role: ClassVar[str] = "server"

    path: str = "direct"
    batch: int = 128
    lro: bool = True

    def __post_init__(self) -> None:
        if self.path not in PATHS:
            raise Unknown("path of the guest's NIC", self.path, PATHS)
        if not 1 <= self.batch <= 128:
            raise BadInput(f"the guest's NIC batches 1 to 128 packets, not {self.batch}")

    @property
    def wanted(self) -> str:
        """Path, batch and merging, as `read` gives them."""
        return _value((self.path, str(self.batch), "on" if self.lro else "off"))

    def read(self, host: Host) -> str:
        """What the running guest has, or what a stopped one will start with."""
        return _value(host.check("guest", "get", *KEYS).split())

    def write(self, host: Host, value: str) -> None:
        """Describe the NIC anew, and restart the guest if it runs."""
        running = host.check("guest", "state").strip() == "running"
        host.check("guest", "set", *value.split())
        if running:
            host.check("guest", "stop")
            host.check("guest", "start")

    def refusal(self, host: Host) -> str:
        """A host without the box's `guest` command has no guest to change."""
        return refusal_without_guest(host)


def refusal_without_guest(host: Host) -> str:
    """Why a setting of the guest cannot be on this host; empty when it can."""
    return "" if host.run("guest", "state").ok else f"{host.name} {NO_GUEST}"


def _value(values: tuple[str, ...] | list[str]) -> str:
    return " ".join(f"{key}={value}" for key, value in zip(KEYS, values, strict=True))
