"""A stream each way over one connection, and the CPU time that each gigabyte costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.probes.busy import BusyCpus, spent
from labkit.workload import Sample, Workload
from labkit.workloads._sections import joined, parted
from labkit.workloads.netperf import Netperf

WAYS = {"receive": "TCP_STREAM", "send": "TCP_MAERTS"}
"""The server's view: what it receives, the client streams to it."""
SIDES = ("client", "host")
GIGABYTE_MBIT = 8000.0
SECONDS = re.compile(r"[1-9]\d{0,4}", re.ASCII)


@dataclass(frozen=True)
class Streams(Workload):
    """netperf's TCP_STREAM and TCP_MAERTS, one connection each (section Netperf).

    A link that is the limit makes every throughput equal. What it hides is the cost: the CPU time
    of the client, and of the machine that the server is or runs on, for each gigabyte.
    """

    roles: ClassVar[tuple[str, ...]] = ("client", "server", "host")
    beside: ClassVar[tuple[str, ...]] = ("host",)
    loop: ClassVar[str] = "closed"
    measures: ClassVar[tuple[str, ...]] = (
        "throughput", "cpu per gigabyte", "client cpu per gigabyte",
    )  # fmt: skip
    programs: ClassVar[tuple[str, ...]] = Netperf.programs
    ours: ClassVar[tuple[str, ...]] = Netperf.ours
    only: ClassVar[Mapping[str, str]] = Netperf.only

    size: int = 65_536
    """Bytes of each write."""
    duration: int = 2
    free: bool = False
    """Whether iperf3 streams in place of netperf."""

    def __post_init__(self) -> None:
        _ = list(self._each())  # refuses what none can have

    @property
    def tools(self) -> Mapping[str, str]:
        """Those of a stream."""
        return self._load("TCP_STREAM").tools

    def freed(self) -> Streams:
        """The same streams by iperf3."""
        return replace(self, free=True)

    @property
    def substitutes(self) -> str:
        """The free tool."""
        return self._load("TCP_STREAM").substitutes

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return len(WAYS) * (self.duration + 0.5)

    @property
    def longest(self) -> float:
        """None: CPU time is read around each stream."""
        return 0.0

    def _each(self) -> Iterator[tuple[str, Netperf]]:
        return ((way, self._load(test)) for way, test in WAYS.items())

    def _load(self, test: str) -> Netperf:
        return Netperf(test, self.size, self.duration, self.free)

    def run(self, hosts: Mapping[str, Host]) -> str:
        """One way after the other; client and host are looked at around each."""
        parts = {"seconds": str(self.duration)}
        for way, load in self._each():
            with load.asking(hosts) as words:
                parts |= _looks(hosts, f"before {way}")
                parts[way] = hosts["client"].check(*words, seconds=30 + 3 * load.seconds)
                parts |= _looks(hosts, f"after {way}")
        return joined(parts)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Throughput each way, and CPU seconds for each gigabyte of 10^9 bytes."""
        looks = [f"{side} {when} {way}" for side in SIDES for when in ("before", "after")
                 for way in WAYS]  # fmt: skip
        parts = parted(text, "seconds", *WAYS, *looks)
        if not SECONDS.fullmatch(parts["seconds"]):
            raise ResultsError("streams: the output does not say how long", said=parts["seconds"])
        return [sample for way in WAYS for sample in _of_way(parts, way)]


def _looks(hosts: Mapping[str, Host], when: str) -> dict[str, str]:
    return {f"{side} {when}": BusyCpus().look(hosts[side]) for side in SIDES}


def _of_way(parts: Mapping[str, str], way: str) -> Iterator[Sample]:
    told = {one.metric: one.values for one in Netperf.parse(parts[way] + "\n")}
    if "netperf throughput" not in told or not told["netperf throughput"][0]:
        raise ResultsError(f"streams: nothing was streamed to {way}", said=parts[way])
    rate = told["netperf throughput"]
    yield Sample(f"throughput [way={way}]", "Mbit/s", rate)
    for side, name in (("host", "cpu per gigabyte"), ("client", "client cpu per gigabyte")):
        used = spent(parts[f"{side} before {way}"], parts[f"{side} after {way}"])
        if used:
            gigabytes = rate * int(parts["seconds"]) / GIGABYTE_MBIT
            cost = used["CPU time"] / gigabytes
            yield Sample(f"{name} [way={way}]", "s/GB", cost)
