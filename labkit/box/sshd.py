"""A real SSH server for each host, with keys that exist for this box only."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from labkit.box.needs import SEARCH_PATH

PLACE = "/run/labkit"
"""The folder where a host finds what the box gave it."""
BANNER_SECONDS, GUEST_BANNER_SECONDS = 1.0, 5.0
"""An emulated guest is in no hurry; a host that is gone refuses at once."""
HOST_KEY, USER_KEYS, SETTINGS = "labkit/host_key", "labkit/authorized_keys", "labkit/sshd_config"


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 key as OpenSSH writes it: the private file, and the public words."""

    private: bytes
    public: str

    @classmethod
    def new(cls) -> KeyPair:
        """A new key."""
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        return cls(private, public.decode())


def sshd_config(address: str) -> str:
    """The settings of a host's sshd: keys only, one user only, on the control address only."""
    return f"""\
ListenAddress {address}
HostKey {PLACE}/host_key
AuthorizedKeysFile {PLACE}/authorized_keys
AllowUsers root
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
UseDNS no
LogLevel VERBOSE
MaxSessions 100
MaxStartups 100
Subsystem sftp internal-sftp
SetEnv PATH={PLACE}/bin:{SEARCH_PATH} LC_ALL=C TMPDIR=/tmp
"""


def known_hosts(keys: dict[str, KeyPair]) -> str:
    """The known_hosts file for hosts by address."""
    return "".join(f"{address} {pair.public}\n" for address, pair in keys.items())


def greets(address: str, seconds: float, port: int = 22) -> bool:
    """Whether an SSH server answers there; nobody logs in."""
    at = (address, port)
    with suppress(OSError), socket.create_connection(at, timeout=seconds) as connection:
        return connection.recv(4) == b"SSH-"
    return False
