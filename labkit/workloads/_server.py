"""A server of a test, on a free port of its host from when it answers until we leave."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from labkit.errors import HostError, TimedOut
from labkit.fleet import together
from labkit.host import Host
from labkit.job import Job
from labkit.job.of_runs import SERVES
from labkit.machine.scripts import beside
from labkit.setting import Words
from labkit.workloads import _lasting

T = TypeVar("T")
PORTS = range(20_000, 32_000)  # below those that Linux gives to clients
TRIES = 4
PAUSE_SECONDS = 0.02
SPARE_SECONDS = 60.0
"""The time that a server's job may outlast its client's: it begins before, and ends after."""
# The kernel's list names ports in hexadecimal, and is there where no tool is.
LISTENERS = ("cat", *(f"/proc/net/{kind}" for kind in ("tcp", "tcp6", "udp", "udp6")))
# To look again takes a guest less than to start a shell that looks once.
LISTENS = beside(__file__, "_server_listens.sh")
STATE = {"tcp": "0A", "udp": "07"}


@contextmanager
def serving(
    host: Host, command: Callable[[int], Words], protocol: str = "tcp", seconds: int = 20
) -> Iterator[int]:
    """Serve with `command(port)`, in the foreground; the port is one that nobody else has."""
    with ExitStack() as stack:

        def start(port: int) -> object:
            ready = _listens(port, protocol)
            return stack.enter_context(together.served(host, command(port), ready, seconds))

        _, port = _on_free_port(host, start)
        with _hinting(host, protocol, port):
            yield port


# Between looking and serving somebody may take a port: then another one is tried.
def _on_free_port(host: Host, start: Callable[[int], T]) -> tuple[T, int]:
    busy = taken(host)
    *ports, last = random.SystemRandom().sample([p for p in PORTS if p not in busy], TRIES)
    for port in ports:
        try:
            return start(port), port
        except HostError as error:
            if "in use" not in str(error):
                raise
    return start(last), last


@contextmanager
def serving_at(host: Host, port: int, words: Words) -> Iterator[None]:
    """Serve in the foreground on a TCP port that is agreed on beforehand, such as by a queue."""
    if host.run(*_listens(port, "tcp")).ok:
        raise HostError(
            f"{host.name}: somebody else has TCP port {port}, which {words[0]} has to serve on",
            hint=f"`ss -tlnp sport = :{port}` names the program; end it, or measure later",
        )
    with together.served(host, words, _listens(port, "tcp"), 20), _hinting(host, "tcp", port):
        yield


@contextmanager
def serving_on(
    host: Host, command: Callable[[int], Words], lasts: float, protocol: str = "tcp",
    seconds: int = 20,
) -> Iterator[int]:  # fmt: skip
    """Serve like `serving`; in a run that lasts, by a job that ends after `lasts` seconds at most.

    It is there for a client that goes on asking while we have no connection.
    """
    if not host.measuring:
        with serving(host, command, protocol, seconds) as port:
            yield port
        return
    _lasting.clear(host)

    def start(port: int) -> Job:
        job = host.start(*command(port), key=f"{host.measuring}-{SERVES}{port}", seconds=lasts)
        try:
            _await(host, job, _listens(port, protocol), seconds)
        except BaseException:
            _lasting.end(job)
            raise
        return job

    job, port = _on_free_port(host, start)
    try:
        with _hinting(host, protocol, port):
            yield port
    finally:
        _lasting.end(job)


def _await(host: Host, job: Job, ready: Words, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not host.run(*ready).ok:
        status = job.status()
        if status.over or time.monotonic() > until:
            text = (job.output(stream="err") or job.output()).decode("utf-8", "replace")
            reason = "ended before it was ready" if status.over else "was not ready in time"
            raise HostError(f"{host.name}: the server {reason}", said=text)
        time.sleep(PAUSE_SECONDS)


def _listens(port: int, protocol: str) -> Words:
    return ("sh", "-c", LISTENS, "sh", f"{port:04X}", STATE[protocol], protocol)


@contextmanager
def _hinting(host: Host, protocol: str, port: int) -> Iterator[None]:
    try:
        yield
    except TimedOut as late:
        if "firewall" in late.hint:  # of a server that this one serves beside
            raise
        way = f"{protocol.upper()} port {port} of {host.name}"
        hint = f"does a firewall drop what goes to {way}? `labkit doctor --lab FILE` tries it"
        raise TimedOut(late.what, said=late.said, hint=f"{hint}\n{late.hint}") from None


def taken(host: Host) -> set[int]:
    """Ports of a host that somebody has, by the kernel's lists."""
    rows = (line.split() for line in host.run(*LISTENERS).stdout.splitlines())
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and ":" in row[1]}
