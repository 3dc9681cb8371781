"""Settings of one of the guests that run on a host of the box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import Impossible
from labkit.host import Host
from labkit.setting import Setting, Words
from labkit.settings._ways import matching

FIRST = "guest"


@dataclass(frozen=True)
class OfGuest(Setting):
    """A setting of the guest of this name; each guest's is a thing of its own."""

    role: ClassVar[str] = "server"

    def __post_init__(self) -> None:
        matching("guest", self.named, r"[a-z][a-z0-9-]{0,30}", "guest2")

    @property
    def named(self) -> str:
        """The guest's name, which each setting keeps as its last field."""
        return str(vars(self)["guest"])

    @property
    def thing(self) -> str:
        """The first guest goes without saying."""
        own = "" if self.named == FIRST else f"{self.named} on "
        return f"{type(self).__name__} of {own}{self.role}"

    @property
    def command(self) -> Words:
        """The box's command, told which guest is meant."""
        return ("guest",) if self.named == FIRST else ("guest", f"@{self.named}")

    @property
    def shell(self) -> str:
        """The command as a word of a script."""
        return " ".join(self.command)


def only_with_guest(kind: str, host: Host) -> None:
    """Raise `Impossible` unless the host has the box's `guest` command."""
    if kind != "box":
        raise Impossible(f"{host.name} has no guest of the box")
