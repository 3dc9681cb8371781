"""The properties of a requested migration that a driver reads."""

from typing import Protocol


class AskedMove(Protocol):
    """The part of `LiveMigration` that its drivers need; units are in the names."""

    @property
    def guest(self) -> str:
        """The guest that moves."""

    @property
    def origin(self) -> str:
        """The role of the host that it leaves."""

    @property
    def to(self) -> str:
        """The role of the host that it goes to."""

    @property
    def channels(self) -> int:
        """Connections that carry memory side by side."""

    @property
    def rate_mbit(self) -> float:
        """Rate of the link; 0 asks for none."""

    @property
    def rtt_ms(self) -> float:
        """Round trip of the link; 0 asks for none."""

    @property
    def disks(self) -> bool:
        """Whether the content of its disks moves too."""

    @property
    def throttle(self) -> bool:
        """Whether the guest is slowed down when it writes too fast."""

    @property
    def post_copy(self) -> bool:
        """Whether it goes on at the destination after the first round."""

    @property
    def deadline(self) -> float:
        """Seconds after which `escape` is used."""

    @property
    def escape(self) -> str:
        """The way out when memory does not converge."""
