"""The destination of SSH: as a lab file gives it, and as it is after reading ssh's own files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labkit.ssh.known_hosts import Name

NOT_READ = "none"
"""Value for reading none of ssh's settings files, as with `ssh -F none`."""


@dataclass(frozen=True)
class Address:
    """The host and user of a login; what is left empty is as ssh_config says, or as ssh does."""

    name: str
    control: str
    port: int = 0
    user: str = ""
    key: str = ""
    """A private key file; without it, the agent's keys and ssh's usual files."""
    known_hosts: tuple[str, ...] = ()
    jump: str = ""
    """Hosts on the way, as for `ssh -J`: user@host:port, with commas between."""
    ssh_config: str = NOT_READ
    """A file of ssh's settings, "" for those that ssh reads, or "none"."""
    shared: bool = False
    """Whether the known_hosts files that ssh itself reads count too."""
    lab: str = ""
    """The lab file that this comes from."""


@dataclass(frozen=True)
class Target:
    """One sshd and how to log in there; `jump` is the host to go through, if any."""

    name: str
    known_as: Name
    user: str = "root"
    known_hosts: tuple[Path, ...] = ()
    identities: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    only: bool = False
    """Whether only the identities named here are offered, and not all that the agent has."""
    agent: str = ""
    family: str = "any"
    seconds: float = 15.0
    jump: Target | None = None
    proxy: str = ""
    """A command whose input and output lead to the sshd (ProxyCommand)."""
    trust: str = ""
    """The command that makes its key known."""

    @property
    def address(self) -> str:
        """The address to connect to."""
        return self.known_as.address

    @property
    def port(self) -> int:
        """The port of the sshd."""
        return self.known_as.port

    def __str__(self) -> str:
        return f"{self.user}@{self.address} port {self.port}"
