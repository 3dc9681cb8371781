"""How the guest's data NIC reaches the wire, and how it batches packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import BadInput, Impossible, Unknown
from labkit.host import Host
from labkit.setting import Setting, Way, Words

PATHS = ("bridge", "direct")
KEYS = ("nic", "batch", "lro")
RESTART = """\
guest set "$@" || exit
[ "$(guest state)" = stopped ] || { guest stop && guest start; }"""


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
        """Path, batch and merging, as the guest is told them."""
        return _value(f"{self.path}\n{self.batch}\n{'on' if self.lro else 'off'}")

    def way(self, kind: str, host: Host) -> Way:
        """What the running guest has, or what a stopped one will start with."""
        only_with_guest(kind, host)
        return Way(
            ("guest", "get", *KEYS), _writes, _value, needs=frozenset({"guest restart"}), seconds=4,
            legal=f"path {' or '.join(PATHS)}, batch 1 to 128, lro on or off",
        )  # fmt: skip


def only_with_guest(kind: str, host: Host) -> None:
    """Raise `Impossible` unless the host has the box's `guest` command."""
    if kind != "box":
        raise Impossible(f"{host.name} has no guest of the box")


# Describes the NIC anew, and restarts the guest if it runs.
def _writes(value: str) -> tuple[Words, ...]:
    return (("sh", "-c", RESTART, "sh", *value.split()),)


def _value(text: str) -> str:
    return " ".join(f"{key}={value}" for key, value in zip(KEYS, text.split(), strict=True))
