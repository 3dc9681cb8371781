"""Request and answer in guests while others on the same host compute: both are measured."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from labkit.errors import BadInput, HostError, ResultsError
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.probes.ready_time import ReadyTime, between
from labkit.setting import Words
from labkit.workload import Sample, Workload, knob
from labkit.workloads import _lasting
from labkit.workloads._own_place import own_scratch
from labkit.workloads._sections import joined, parted
from labkit.workloads.sockperf import Sockperf

PROGRAMS = ("sockperf",)

SERVERS = ("server", *(f"server{n}" for n in range(2, 5)))
NEIGHBOURS = ("neighbour", *(f"neighbour{n}" for n in range(2, 9)))
# A transaction: 100 steps of the generator of Lewis, Goodman and Miller (1969), which fit into a
# double without rounding. Each line says how many have been done.
COMPUTE = beside(__file__, "shared_host_compute.sh")
TOGETHER = beside(__file__, "shared_host_together.sh")
# The count, beside the clock of the guest that made it. The last line may be half written.
COUNT_OF_FILE = 'read -r up _ < /proc/uptime; echo "$(tail -n 2 "$1" | head -n 1) $up"'
COUNT = re.compile(r"(\d+) (\d+\.\d+)", re.ASCII)
READY_SECONDS = 20
TRIES = 3
LATE, LATE_SECONDS = 1.25, 5.0
"""The longest time between two looks: a multiple of the load's, and seconds more."""


@dataclass(frozen=True)
class SharedHost(Workload):
    """Servers are guests of `host`, and so are the neighbours, which compute all the time.

    Each server is asked by a client program of its own, all at the same time. Roles beyond the
    `guests` play no part. The size is the latency-sensitivity paper's (section Impact of CPU
    Exclusive Access). The document does not say what its neighbours computed. Here a transaction is
    100 steps of a generator of random numbers. Throughput is that of all
    neighbours, ready time and CPU time that of their threads.
    """

    roles = ("client", "host", *SERVERS, *NEIGHBOURS)
    beside = ("host",)
    loop = "closed"
    measures = ("response time", "throughput", "ready time", "ready time of the latency guest",
                "host cpu utilisation")  # fmt: skip
    programs = ("sockperf",)
    name = "shared_host"

    size: int = 1024
    duration: int = 3
    guests: tuple[str, ...] = ("guest", "guest2", "guest3")
    """The host's names for the guests: those of the servers, then the neighbours."""
    servers: int = knob(1, 1, len(SERVERS))
    """The guests that answer; the document has two, beside four that compute."""

    def __post_init__(self) -> None:
        _ = self._asking  # refuses what sockperf cannot have
        if not 1 <= len(self.guests) - self.servers <= len(NEIGHBOURS):
            limit = len(NEIGHBOURS)
            raise BadInput(
                f"shared host: 1 to {limit} guests must compute beside {self.servers} that answer",
                said=f"guests are {self.guests!r}",
            )

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return self.duration + 2.0

    @property
    def longest(self) -> float:
        """The client's command; neighbours stop computing when their connection is lost."""
        return self._asking.longest

    @property
    def _asking(self) -> Sockperf:
        return Sockperf(size=self.size, duration=self.duration)

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Ask the servers while the neighbours compute; look at the host before and after.

        All of it is done again where the looks are not of the time in which it was asked.
        """
        for _ in range(TRIES):
            parts, seconds = self._once(hosts)
            if _in_step(parts, seconds):
                return joined(parts)
        raise HostError(
            f"shared host: {TRIES} times the counters were read too far from the load",
            hint="is the connection to the client lost again and again?",
        )

    # Only the client's command is a job: to begin and end one takes a starved guest longer than the
    # load lasts, if it is emulated. The server begins before the neighbours slow it down.
    def _once(self, hosts: Mapping[str, Host]) -> tuple[dict[str, str], float]:
        roles = NEIGHBOURS[: len(self.guests) - self.servers]
        neighbours = {role: hosts[role] for role in roles}
        client, limit = _lasting.apart(hosts["client"]), 120 + 3 * self.seconds
        with ExitStack() as going:
            words = self._begin(client, hosts, going)
            files = going.enter_context(computing(neighbours))
            window = going.enter_context(ReadyTime(self.guests).watching(hosts["host"], limit))
            parts = {"servers": str(self.servers), "neighbours": str(len(files))}
            parts |= {f"{role} before": counted(neighbours[role], files[role]) for role in files}
            parts["sockperf"], seconds = _lasting.timed(client, words, lambda: words, limit)
            parts |= {f"{role} after": counted(neighbours[role], files[role]) for role in files}
        parts |= {"host before": window.before, "host after": window.after}
        return parts, seconds

    def _begin(self, client: Host, hosts: Mapping[str, Host], going: ExitStack) -> Words:
        ends = [
            {"client": client, "server": replace(hosts[role], measuring="")}
            for role in SERVERS[: self.servers]
        ]
        loads = [going.enter_context(self._asking.asking(hosts)) for hosts in ends]
        if len(loads) == 1:
            return loads[0]
        return ("sh", "-c", TOGETHER, "together", *map(shlex.join, loads))

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Response times, then one figure each of the neighbours and of the host."""
        parts = parted(text, "sockperf", "host before", "host after")
        servers = _select(parts, "servers", SERVERS)
        computing = _select(parts, "neighbours", NEIGHBOURS)
        outputs = ["sockperf", *(f"sockperf {n}" for n in range(2, len(servers) + 1))]
        places = [f"{role} {moment}" for role in computing for moment in ("before", "after")]
        parts = parted(text, *outputs, *places)
        rates = [_rate(parts[f"{role} before"], parts[f"{role} after"]) for role in computing]
        trips = [trip for name in outputs for trip in Sockperf.parse(parts[name] + "\n")]
        host = between(parts["host before"], parts["host after"])
        # In the order in which they were asked for: the guest that answers is the first.
        lines = (line.split() for line in parts["host before"].splitlines())
        guests = list(dict.fromkeys(line[1] for line in lines if line[0] in ("task", "esxtop")))
        ready_of_latency, ready = (
            1000 * host.waited(*some) / host.seconds / len(some)
            for some in (guests[: len(servers)], guests[len(servers) :])
        )
        answers = np.concatenate([trip.values for trip in trips])
        return [
            Sample("response time", trips[0].unit, answers, sum(trip.lost for trip in trips)),
            Sample.single("throughput", "trans/s", sum(rates)),
            Sample.single("ready time", "ms/s", ready),
            Sample.single("ready time of the latency guest", "ms/s", ready_of_latency),
            Sample.single("host cpu utilisation", "share",
                          host.ran() / host.seconds / len(host.cpus)),
        ]  # fmt: skip


@contextmanager
def computing(hosts: Mapping[str, Host]) -> Iterator[Mapping[str, str]]:
    """The hosts compute until the block ends; yields the files of their counts once all do so."""
    with ExitStack() as going:
        folders = {role: going.enter_context(own_scratch(host, "computed"))
                   for role, host in hosts.items()}  # fmt: skip
        counts = {role: f"{folder}/count" for role, folder in folders.items()}
        words = {role: ("sh", "-c", COMPUTE, "compute", file) for role, file in counts.items()}
        ready = {role: ("test", "-s", file) for role, file in counts.items()}
        going.enter_context(Fleet(hosts).serving(words, ready=ready, seconds=READY_SECONDS))
        yield counts


def counted(host: Host, file: str) -> str:
    """The number of transactions the host has done by now, and its clock."""
    return host.check("sh", "-c", COUNT_OF_FILE, "counted", file)


# Older texts do not say it: there was one server, and there were two that computed.
def _select(parts: Mapping[str, str], kind: str, roles: Sequence[str]) -> Sequence[str]:
    number = parts.get(kind, {"servers": "1", "neighbours": "2"}[kind])
    if not re.fullmatch(rf"[1-{len(roles)}]", number, re.ASCII):
        raise ResultsError(f"shared host: how many {kind}?", said=number)
    return roles[: int(number)]


def _rate(before: str, after: str) -> float:
    first, last = COUNT.fullmatch(before), COUNT.fullmatch(after)
    if not first or not last or float(last[2]) <= float(first[2]):
        raise ResultsError("shared host: a neighbour did not count", said=f"{before}\n{after}")
    return (int(last[1]) - int(first[1])) / (float(last[2]) - float(first[2]))


# A connection to the client that was lost for a while is there again after the load has ended.
def _in_step(parts: Mapping[str, str], seconds: float) -> bool:
    clocks = [[float(parts[f"{role} {moment}"].split()[-1]) for moment in ("before", "after")]
              for role in _select(parts, "neighbours", NEIGHBOURS)]  # fmt: skip
    spans = [after - before for before, after in clocks]
    host = between(parts["host before"], parts["host after"])
    if host.turns() is not None:  # esxtop goes on until it has said enough
        spans.append(host.seconds)
    return max(spans) <= LATE_SECONDS + LATE * seconds
