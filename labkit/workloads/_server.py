"""A server of a test, on a free port of its host from when it answers until we leave."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from labkit.errors import HostError, TimedOut
from labkit.fleet import together
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Words

PORTS = range(20_000, 32_000)  # below those that Linux gives to clients
TRIES = 4
# The kernel's list names ports in hexadecimal, and is there where no tool is.
TAKEN = ("cat", *(f"/proc/net/{kind}" for kind in ("tcp", "tcp6", "udp", "udp6")))
# To look again takes a guest less than to start a shell that looks once.
LISTENS = beside(__file__, "_server_listens.sh")
STATE = {"tcp": "0A", "udp": "07"}


@contextmanager
def serving(
    host: Host, command: Callable[[int], Words], protocol: str = "tcp", seconds: int = 20
) -> Iterator[int]:
    """Serve with `command(port)`, in the foreground; the port is one that nobody else has.

    Between looking and serving somebody may take it: then another one is tried.
    """
    taken = _ports(host.run(*TAKEN).stdout)
    free = random.SystemRandom().sample([p for p in PORTS if p not in taken], TRIES)
    with ExitStack() as stack:
        for last, port in ((port == free[-1], port) for port in free):
            ready = ("sh", "-c", LISTENS, "sh", f"{port:04X}", STATE[protocol], protocol)
            try:
                stack.enter_context(together.served(host, command(port), ready, seconds))
            except HostError as refused:
                if last or "in use" not in str(refused):
                    raise
            else:
                break
        try:
            yield port
        except TimedOut as late:
            if "firewall" in late.hint:  # of a server that this one serves beside
                raise
            way = f"{protocol.upper()} port {port} of {host.name}"
            hint = f"does a firewall drop what goes to {way}? `labkit doctor --lab FILE` tries it"
            raise TimedOut(late.what, said=late.said, hint=f"{hint}; {late.hint}") from None


def _ports(listed: str) -> set[int]:
    rows = (line.split() for line in listed.splitlines())
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and ":" in row[1]}
