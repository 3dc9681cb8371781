"""A server of a test, on a free port of its host from when it answers until we leave."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from labkit.errors import HostError, TimedOut, Unreachable
from labkit.fleet import together
from labkit.host import Host
from labkit.job import Job
from labkit.job.of_runs import of_runs
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
    host: Host, client: Host, command: Callable[[int], Words], lasts: float,
    protocol: str = "tcp", seconds: int = 20,
) -> Iterator[int]:  # fmt: skip
    """Serve like `serving`; in a run that lasts, by a job that outlives us `lasts` seconds at most.

    An earlier process may have begun it for this run: then `client` still asks it.
    """
    if not host.measuring:
        with ExitStack() as stack:
            with _naming_others(host):
                port = stack.enter_context(serving(host, command, protocol, seconds))
            yield port
        return
    with _naming_others(host):
        server = _find(host, client, command)
        job, port = server or _begin(host, command, lasts, protocol, seconds)
    try:
        with _hinting(host, protocol, port):
            yield port
    except Unreachable:
        raise  # of the client, which goes on asking: it ends at its deadline
    except BaseException:
        _lasting.end(job)
        raise
    _lasting.end(job)


# A server that does not begin may want what another one has.
@contextmanager
def _naming_others(host: Host) -> Iterator[None]:
    try:
        yield
    except Unreachable:
        raise
    except HostError as error:
        results = _lasting.results_of(host) or "none"
        jobs = [str(job) for job in of_runs(host)
                if job.goes_on and not job.job.key.startswith(results)]  # fmt: skip
        if not jobs:
            raise
        hint = f"also there: {'; '.join(jobs)}. Wait for it, or end it: "
        hint += f"{host.verb('restore')} --break"
        raise type(error)(error.what, said=error.said, hint=hint) from error


def _mark(host: Host, command: Callable[[int], Words]) -> str:
    return f"{host.measuring}-{_lasting.SERVES}{_lasting.digest(command(0))[:8]}-"


# One that has ended is as good, where what asked it has ended before. Another server of this run
# is left alone; what is of a try under other changes is of no more use.
def _find(host: Host, client: Host, command: Callable[[int], Words]) -> tuple[Job, int] | None:
    run, mark, server = host.measuring.partition("-")[0], _mark(host, command), None
    for job, status in _lasting.found(host, f"{run}-").items():
        if job.key.startswith(mark):
            asked = _lasting.asked(client, client.measuring).values()
            if server or (status.over and not any(end.over for end in asked)):
                _lasting.end(job)
            else:
                server = job, int(job.key.rpartition("-")[2])
                job.go_on(host.owner)
        elif _lasting.SERVES in job.key and not job.key.startswith(f"{host.measuring}-"):
            _lasting.end(job)
    return server


def _begin(
    host: Host, command: Callable[[int], Words], lasts: float, protocol: str, seconds: float
) -> tuple[Job, int]:
    def start(port: int) -> Job:
        job = host.start(*command(port), key=f"{_mark(host, command)}{port}", seconds=lasts)
        try:
            _await(host, job, _listens(port, protocol), seconds)
        except BaseException:
            _lasting.end(job)
            raise
        return job

    return _on_free_port(host, start)


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
