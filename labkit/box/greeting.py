"""Whether an SSH server answers, without logging in."""

import socket
from contextlib import suppress

BANNER_SECONDS = 1.0
GUEST_BANNER_SECONDS = 5.0
"""An emulated guest is in no hurry; a host that is gone refuses at once."""


def greets(address: str, seconds: float = BANNER_SECONDS, port: int = 22) -> bool:
    """Whether an SSH server answers there."""
    with (
        suppress(OSError),
        socket.create_connection((address, port), timeout=seconds) as connection,
    ):
        return connection.recv(4) == b"SSH-"
    return False
