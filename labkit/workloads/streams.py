"""A stream each way, and the CPU time that each gigabyte costs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, ResultsError
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.probes.ready_time import looks, spent
from labkit.setting import Words
from labkit.workload import Sample, Workload, knob
from labkit.workloads._sections import joined, parted
from labkit.workloads.netperf import Netperf

WAYS = {"receive": "TCP_STREAM", "send": "TCP_MAERTS"}
"""The server's view: what it receives, the client streams to it."""
SIDES = ("client", "host")
GIGABYTE_MBIT = 8000.0
SEND = "send"
COUNT = "connections of send"
SECONDS = re.compile(r"[1-9]\d{0,4}", re.ASCII)
MOST_STREAMS = 32
LEAST_BUFFER, LARGEST_BUFFER = 4096, 1 << 30
# The kernel cuts larger ones without a word. A network namespace may not show its limits.
LIMITS = ("net/core/rmem_max", "net/core/wmem_max")
LIMIT = 'cd /proc/sys && for one; do [ ! -r "$one" ] || echo "$one $(cat "$one")"; done'


@dataclass(frozen=True)
class Streams(Workload):
    """netperf's TCP_STREAM and TCP_MAERTS, one connection each (section Netperf).

    Only what a container in a guest sends goes over several in the document (`streams`).
    A link that is the limit makes every throughput equal. What it hides is the cost: the CPU time
    of the client, and of the machine that the server is or runs on, for each gigabyte.
    """

    roles = ("client", "server", "host")
    beside = ("host",)
    of_kernel = ("cpu per gigabyte",)
    loop = "closed"
    measures = ("throughput", "cpu per gigabyte", "client cpu per gigabyte")
    programs = Netperf.programs
    ours = Netperf.ours
    only: ClassVar[Mapping[str, str]] = Netperf.only
    longest = 0.0
    """None: CPU time is read around each stream."""

    size: int = 65_536
    """Bytes of each write."""
    duration: int = 2
    free: bool = False
    """Whether iperf3 streams in place of netperf."""
    streams: int = knob(1, 1, MOST_STREAMS)
    """Connections at the same time for what the server sends."""
    buffer: int = 0
    """Bytes of each socket's buffers at both ends, which the document does not name; 0: as TCP
    finds them."""

    def __post_init__(self) -> None:
        _ = [*map(self._load, WAYS)]  # refuses what none can have
        if self.buffer and not LEAST_BUFFER <= self.buffer <= LARGEST_BUFFER:
            raise BadInput(
                f"streams: buffer must be {LEAST_BUFFER} to {LARGEST_BUFFER} bytes, or 0, "
                f"not {self.buffer!r}"
            )

    @property
    def tools(self) -> Mapping[str, str]:
        """Programs of a stream."""
        return self._load("receive").tools

    def freed(self) -> Self:
        """The same streams by iperf3."""
        return replace(self, free=True)

    @property
    def substitutes(self) -> str:
        """The free tool."""
        return self._load("receive").substitutes

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return len(WAYS) * (self.duration + 0.5)

    def _load(self, way: str) -> Netperf:
        return Netperf(WAYS[way], self.size, self.duration, self.free)

    # iperf3 has a server for one client, which makes all connections; of netperf each has a client.
    def _stream(self, client: Host, way: str, words: Words, seconds: float) -> dict[str, str]:
        count = self.streams if way == SEND else 1
        if self.buffer:
            size = str(self.buffer)
            words = (*words, *(("-w", size) if self.free else ("-s", size, "-S", size)))
        if count == 1 or self.free:
            options = ("-P", str(count)) if count > 1 else ()
            return {way: client.check(*words, *options, seconds=seconds)}
        names = [way, *(f"{way} {n}" for n in range(2, count + 1))]
        with Fleet(dict.fromkeys(names, client)).together(dict.fromkeys(names, words)) as line:
            went = line.go(seconds=seconds).check()
        return {COUNT: str(count), **{n: load.stdout.decode() for n, load in went.items()}}

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Larger buffers than one end may have."""
        if not self.buffer:
            return ""
        for host in (hosts["client"], hosts["server"]):
            for line in host.check("sh", "-c", LIMIT, "limit", *LIMITS).splitlines():
                name, limit = line.replace("/", ".").split()
                if int(limit) < self.buffer:
                    return (
                        f"{host.name} has {name} = {limit}, and buffers of {self.buffer} bytes "
                        f'are asked for: labkit apply \'Sysctl("{name}", "{self.buffer}")\''
                    )
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """One way after the other; client and host are looked at around each."""
        parts = {"seconds": str(self.duration)}
        for way in WAYS:
            load = self._load(way)
            with load.asking(hosts) as words:
                parts |= looks(hosts, SIDES, f"before {way}")
                parts |= self._stream(hosts["client"], way, words, 30 + 3 * load.seconds)
                parts |= looks(hosts, SIDES, f"after {way}")
        return joined(parts)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Throughput each way, and CPU seconds for each gigabyte of 10^9 bytes."""
        needed = [f"{side} {moment} {way}" for side in SIDES for moment in ("before", "after")
                  for way in WAYS]  # fmt: skip
        parts = parted(text, "seconds", *WAYS, *needed)
        if not SECONDS.fullmatch(parts["seconds"]):
            raise ResultsError("streams: the output does not say how long", said=parts["seconds"])
        return [sample for way in WAYS for sample in _of_way(parts, way)]


def _of_way(parts: Mapping[str, str], way: str) -> Iterator[Sample]:
    count = parts.get(COUNT, "1") if way == SEND else "1"
    if not re.fullmatch(r"[1-9]\d?", count, re.ASCII):
        raise ResultsError("streams: over how many connections?", said=count)
    names = [way, *(f"{way} {n}" for n in range(2, int(count) + 1))]
    if missing := [name for name in names if name not in parts]:
        raise ResultsError(f"the run did not finish: no {', '.join(missing)}")
    rate = np.sum([_rate(parts[name], way) for name in names], axis=0)
    yield Sample(f"throughput [way={way}]", "Mbit/s", rate)
    for side, name in (("host", "cpu per gigabyte"), ("client", "client cpu per gigabyte")):
        if used := spent(parts[f"{side} before {way}"], parts[f"{side} after {way}"]):
            gigabytes = rate * int(parts["seconds"]) / GIGABYTE_MBIT
            yield Sample(f"{name} [way={way}]", "s/GB", used["CPU time"] / gigabytes)


def _rate(text: str, way: str) -> npt.NDArray[np.float64]:
    figures = {sample.metric: sample.values for sample in Netperf.parse(text + "\n")}
    if "netperf throughput" not in figures or not figures["netperf throughput"][0]:
        raise ResultsError(f"streams: nothing was streamed to {way}", said=text)
    return figures["netperf throughput"]
