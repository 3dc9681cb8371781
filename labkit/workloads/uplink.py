"""Four kinds of traffic on one uplink: a latency flow, storage, a bulk stream and a migration."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.setting import Words
from labkit.workload import Sample, Workload, knob
from labkit.workloads._sections import joined, parted
from labkit.workloads._server import serving_at
from labkit.workloads.fio import jobs_of
from labkit.workloads.sockperf import LOGGED, Sockperf

PROGRAMS = ("fio", "iperf3", "nbdkit", "sockperf")

LATENCY, STORAGE, BULK, MIGRATION = 20_101, 20_102, 20_103, 20_104
"""Ports of the four kinds, by which queues tell them apart; the peer listens on them."""
KINDS: Mapping[int, str] = {
    LATENCY: "latency", STORAGE: "storage", BULK: "bulk", MIGRATION: "migration",
}  # fmt: skip
CHANNELS = 4
"""Connections of a migration: QEMU's multifd and vMotion use several."""
# The latency flow first sleeps for 2 s: until then the others have filled the line.
RAMP = 2
DISK = "64M"
WIRE = 1514 / 1448
"""Bytes on the line for each that a program sends by TCP: a reservation is of the line."""


@dataclass(frozen=True)
class Uplink(Workload):
    """Four kinds that the server sends to its peer, all at once, or one by one (`alone`).

    Storage traffic is writes of 64 KiB to a disk of the peer, by NBD. A migration is a stream of
    four connections. CPU time is that of the program that sends the bulk stream, by itself.
    """

    roles = ("client", "server")
    loop = "closed"
    measures = ("throughput", "bulk throughput", "migration throughput", "latency", "cpu per byte",
                "share of reservation")  # fmt: skip
    programs = PROGRAMS
    ours = PROGRAMS
    only: ClassVar[Mapping[str, str]] = {"nbdkit": "client", "fio": "server"}
    needs = PROGRAMS
    longest = 0.0
    """None: what runs together begins together."""

    duration: int = knob(2, 1, 3600)
    alone: bool = False
    writes: int = knob(4, 1, 256)
    """Writes of storage that are under way at once."""
    storage_mbit: int = knob(200, 0, 400_000)
    """Mbit/s that storage asks for; 0: as much as it gets."""
    reserved_mbit: int = knob(0, 0, 400_000)
    """Mbit/s that are reserved for storage, to compare with what it gets."""

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        once = self.duration + RAMP + 0.5
        return once + 2.0 * (self.duration + 0.5) if self.alone else once

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Serve all kinds at the peer, and send them from the server."""
        peer, server = hosts["client"], hosts["server"]
        parts = {"reserved": str(self.reserved_mbit)}
        with ExitStack() as serving:
            for port, words in _servers(peer.address).items():
                serving.enter_context(serving_at(peer, port, words))
            clients = self._clients(peer.address, 0 if self.alone else RAMP).items()
            calls, limit = {KINDS[port]: words for port, words in clients}, 30 + 3 * self.seconds
            if self.alone:
                for kind, words in calls.items():
                    parts[kind] = server.check(*words, seconds=limit)
                return joined(parts)
            with Fleet(dict.fromkeys(calls, server)).together(calls) as line:
                loads = line.go(seconds=limit).check().items()
        texts = {kind: load.stdout.decode("utf-8", "replace") for kind, load in loads}
        return joined(parts | texts)

    # Streams are there from before the others are measured until they have ended.
    def _clients(self, at: str, ramp: int) -> dict[int, Words]:
        stream = ("-t", str(self.duration + 1), "-O", str(ramp), "-i", "1", "--json")
        pace = (f"--rate={self.storage_mbit * 125_000}",) if self.storage_mbit else ()
        return {
            LATENCY: ("sh", "-c", LOGGED, "sh", "sockperf", "ping-pong", "-i", at,
                      "-p", str(LATENCY), "--tcp", "--full-rtt", "-m", "256",
                      "-t", str(self.duration)),
            STORAGE: ("fio", "--output-format=json", "--name=storage", "--ioengine=nbd",
                      f"--uri=nbd://{at}:{STORAGE}", "--rw=write", "--bs=64k",
                      f"--iodepth={self.writes}", f"--size={DISK}", "--time_based",
                      f"--runtime={self.duration}", f"--ramp_time={ramp}", *pace),
            BULK: ("iperf3", "-4", "-c", at, "-p", str(BULK), *stream),
            **({MIGRATION: ("iperf3", "-4", "-c", at, "-p", str(MIGRATION), "-P", str(CHANNELS),
                            *stream)} if ramp else {}),
        }  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """The mean answer of the latency flow, Mbit/s of the others, and CPU time for each GB."""
        parts = parted(text, "reserved", "latency", "storage", "bulk")
        storage = _write_rate(parts["storage"])
        (trips,) = Sockperf.parse(parts["latency"])
        figures = {("throughput", "Mbit/s"): storage, ("latency", "us"): trips.values.mean()}
        for kind in ("bulk", "migration"):
            if kind in parts:
                figures[f"{kind} throughput", "Mbit/s"] = _read_stream(parts[kind])[:-1].mean()
        if reservation := int(parts["reserved"]):
            figures["share of reservation", "share"] = storage * WIRE / reservation
        if "migration" not in parts:
            # The sender's own, in user space and in the kernel, without interrupts' work for it.
            end = json.loads(parts["bulk"])["end"]
            busy = float(end["cpu_utilization_percent"]["host_total"]) / 100
            total = end["sum_sent"]
            figures["cpu per byte", "s/GB"] = busy * total["seconds"] / (total["bytes"] / 1e9)
        return [Sample.single(*name, value) for name, value in figures.items()]


def _servers(at: str) -> dict[int, Words]:
    return {
        LATENCY: ("sockperf", "server", "-i", at, "-p", str(LATENCY), "--tcp"),
        STORAGE: ("nbdkit", "-f", "-i", at, "-p", str(STORAGE), "memory", DISK),
        **{port: ("iperf3", "-s", "-4", "-B", at, "-p", str(port)) for port in (BULK, MIGRATION)},
    }


def _write_rate(text: str) -> float:
    try:
        (job,) = jobs_of(text)
        return float(job["write"]["bw_bytes"]) * 8e-6
    except (ValueError, TypeError, KeyError) as error:
        problem = "fio: its output cannot be read"
        raise ResultsError(problem, said=f"{error}: {text[-300:]}") from None


# Mbit/s of each whole second that was measured; those before fill the line, the last one ends it.
def _read_stream(text: str) -> npt.NDArray[np.float64]:
    try:
        sums = [interval["sum"] for interval in json.loads(text)["intervals"]]
        rates = [float(row["bits_per_second"]) / 1e6 for row in sums if not row["omitted"]]
    except (ValueError, TypeError, KeyError) as error:
        raise ResultsError("iperf3: its answer is not whole", said=str(error)) from None
    if not sum(rates):
        raise ResultsError("iperf3: the stream sent nothing", said=text[-300:])
    return np.array(rates)
