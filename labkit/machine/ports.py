"""Ports of this machine that nobody listens on."""

import socket


def free_port(address: str) -> int:
    """One of them at this address: it stays free unless somebody takes it meanwhile."""
    with socket.create_server((address, 0)) as free:
        return int(free.getsockname()[1])
