"""How the guest's data NIC reaches the wire, and how it batches packets."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import BadInput, Unknown
from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._guest import FIRST, OfGuest, only_with_guest

PATHS = ("bridge", "direct")
KEYS = ("nic", "batch", "lro")
RESTART = """\
GUEST set "$@" || exit
[ "$(GUEST state)" = stopped ] || { GUEST stop && GUEST start; }"""


@dataclass(frozen=True)
class GuestNic(OfGuest):
    """`bridge` leads through the server's virtual switch and a tap, `direct` past both of them.

    `batch` is how many packets the NIC hands over at once, 1 to 128; `lro` whether it merges them.
    A change restarts the guest.
    """

    path: str = "direct"
    batch: int = 128
    lro: bool = True
    guest: str = FIRST

    def __post_init__(self) -> None:
        super().__post_init__()
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
            (*self.command, "get", *KEYS), self._writes, _value,
            needs=frozenset({"guest restart"}), seconds=4,
            legal=f"path {' or '.join(PATHS)}, batch 1 to 128, lro on or off",
        )  # fmt: skip

    # Describes the NIC anew, and restarts the guest if it runs.
    def _writes(self, value: str) -> tuple[Words, ...]:
        return (("sh", "-c", RESTART.replace("GUEST", self.shell), "sh", *value.split()),)


def _value(text: str) -> str:
    return " ".join(f"{key}={value}" for key, value in zip(KEYS, text.split(), strict=True))
