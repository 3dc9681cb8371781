"""Request and answer in one guest while others on the same host compute: both are measured."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.probes.ready_time import Between, ReadyTime
from labkit.workload import Sample, Workload
from labkit.workloads._sections import joined, parted

NEIGHBOURS = ("neighbour", "neighbour2")
PORT = "11111"
# A transaction: 100 steps of the generator of Lewis, Goodman and Miller (1969), which fit into a
# double without rounding. Each line says how many have been done.
COMPUTE = """\
exec awk 'BEGIN {
    x = 1
    for (;;) {
        for (i = 0; i < 2000; i++) x = (x * 16807) % 2147483647
        n += 20
        print n
        fflush()
    }
}' > "$1" """
# The count, beside the clock of the guest that made it.
COUNTED = 'read -r up _ < /proc/uptime; echo "$(tail -n 1 "$1") $up"'
# Of each answer only how long it took is kept; sockperf's own lines stay as they are.
ASK = r"""
log=$(mktemp) || exit
sockperf ping-pong --tcp -i "$1" -p "$2" -m "$3" -t "$4" --full-rtt --full-log "$log" || exit
awk -F', ' '/^[0-9]+, / { printf "%.1f\n", $4 }' "$log"
rm -f "$log" """
TRIP = re.compile(r"^\d{1,9}\.\d$", re.MULTILINE | re.ASCII)
OBSERVED = re.compile(r"Total (\d+) observations")
DROPPED = re.compile(r"# dropped messages = (\d+);")
COUNT = re.compile(r"(\d+) (\d+\.\d+)", re.ASCII)
READY_SECONDS = 20.0
BEGIN = 'timeout "$1" sh -c "$2" begun "$3" </dev/null >/dev/null 2>&1 & echo $!'


@dataclass(frozen=True)
class SharedHost(Workload):
    """`server` is a guest of `host`, and so are the neighbours, which compute all the time.

    The size is the latency-sensitivity paper's (section Impact of CPU Exclusive Access). What its
    neighbours computed is not told there; here a transaction is 100 steps of a generator of random
    numbers. Throughput is that of all neighbours, ready time and CPU time that of their threads.
    """

    roles: ClassVar[tuple[str, ...]] = ("client", "server", "host", *NEIGHBOURS)
    loop: ClassVar[str] = "closed"

    size: int = 1024
    seconds_each: int = 3
    guests: tuple[str, ...] = ("guest", "guest2", "guest3")
    """What the host calls them: that of `server`, then the neighbours."""

    def __post_init__(self) -> None:
        if not 14 <= self.size <= 65000:
            raise BadInput(f"shared host: size must be 14 to 65000 bytes, not {self.size!r}")
        if not 1 <= self.seconds_each <= 3600:
            raise BadInput(
                f"shared host: seconds_each must be 1 to 3600, not {self.seconds_each!r}"
            )

    @property
    def name(self) -> str:
        """Under which its text is kept."""
        return "shared_host"

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return self.seconds_each + 2.0

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Ask the guest while the neighbours compute; look at the host before and after."""
        neighbours = {role: hosts[role] for role in NEIGHBOURS}
        probe, limit = ReadyTime(self.guests), 120 + 3 * self.seconds
        with ExitStack() as going:
            for host in neighbours.values():
                going.enter_context(computing(host, limit))
            going.enter_context(answering(hosts["server"], limit))
            parts = {f"{role} before": counted(host) for role, host in neighbours.items()}
            parts["host before"] = probe.look(hosts["host"])
            parts["sockperf"] = self._ask(hosts["client"], hosts["server"])
            parts["host after"] = probe.look(hosts["host"])
            parts |= {f"{role} after": counted(host) for role, host in neighbours.items()}
        return joined(parts)

    def _ask(self, client: Host, server: Host) -> str:
        return client.check(
            "sh", "-c", ASK, "ask", server.address, PORT, str(self.size), str(self.seconds_each),
            seconds=60 + 3 * self.seconds,
        )  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Response times, then one figure each of the neighbours and of the host."""
        places = [f"{role} {when}" for role in NEIGHBOURS for when in ("before", "after")]
        parts = parted(text, "sockperf", "host before", "host after", *places)
        done = sum(_rate(parts[f"{role} before"], parts[f"{role} after"]) for role in NEIGHBOURS)
        between = Between.of(parts["host before"], parts["host after"])
        asked, *others = _in_order(parts["host before"])
        ready = 1000 * between.waited(*others) / between.seconds / len(others)
        own = 1000 * between.waited(asked) / between.seconds
        used = between.ran() / between.seconds / len(between.last.cpus)
        return [
            round_trips(parts["sockperf"]),
            Sample("throughput", "trans/s", np.array([done])),
            Sample("ready time", "ms/s", np.array([ready])),
            Sample("ready time of the latency guest", "ms/s", np.array([own])),
            Sample("host cpu utilisation", "share", np.array([used])),
        ]


@contextmanager
def computing(host: Host, seconds: float) -> Iterator[None]:
    """The host computes until the block ends; yields once it has begun to count."""
    counts = _counts(host)
    pid = _begun(host, seconds, COMPUTE, counts)
    try:
        _until(host, ("test", "-s", counts), "did not begin to compute")
        yield
    finally:
        host.run("kill", pid)
        host.run("rm", "-f", counts)


@contextmanager
def answering(host: Host, seconds: float) -> Iterator[None]:
    """A server of sockperf on the host, until the block ends; yields once it listens."""
    pid = _begun(host, seconds, 'exec sockperf server --tcp -i 0.0.0.0 -p "$1"', PORT)
    try:
        _until(host, ("grep", "-q", f":{int(PORT):04X} 0*:0000 0A", "/proc/net/tcp"),
               f"does not listen on port {PORT}")  # fmt: skip
        yield
    finally:
        host.run("kill", pid)


# Should nobody come to end it, it ends by itself.
def _begun(host: Host, seconds: float, script: str, word: str) -> str:
    limit = str(math.ceil(seconds))
    return host.check("sh", "-c", BEGIN, "begin", limit, script, word).strip()


def counted(host: Host) -> str:
    """How many transactions the host has done by now, and its clock."""
    return host.check("sh", "-c", COUNTED, "counted", _counts(host))


def round_trips(text: str) -> Sample:
    """The response times in what ASK printed; sockperf itself says how many there are."""
    observed, dropped = OBSERVED.search(text), DROPPED.search(text)
    if not observed or not dropped:
        raise ResultsError("sockperf: it did not run to its end", said=text[-300:])
    values = np.array([float(value) for value in TRIP.findall(text)])
    if len(values) != int(observed[1]) or not len(values):
        raise ResultsError(f"sockperf: {len(values)} round trips are there", said=observed[0])
    return Sample("response time", "us", values, int(dropped[1]))


def _rate(before: str, after: str) -> float:
    first, last = COUNT.fullmatch(before), COUNT.fullmatch(after)
    if not first or not last or float(last[2]) <= float(first[2]):
        raise ResultsError("shared host: a neighbour did not count", said=f"{before}\n{after}")
    return (int(last[1]) - int(first[1])) / (float(last[2]) - float(first[2]))


# In the order in which they were asked for: the guest that answers is the first.
def _in_order(look: str) -> list[str]:
    names = [line.split()[1] for line in look.splitlines() if line.startswith("task ")]
    return list(dict.fromkeys(names))


def _until(host: Host, words: tuple[str, ...], complaint: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while not host.run(*words).ok:
        if time.monotonic() > until:
            raise HostError(f"{host.name} {complaint} within {READY_SECONDS:.0f} s")
        time.sleep(0.02)


def _counts(host: Host) -> str:
    return f"/tmp/labkit-computed-{host.name}"
