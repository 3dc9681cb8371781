"""Small packets to one guest at rising rates: how many arrive, and what each costs its host."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from labkit.errors import BadInput, ResultsError
from labkit.host import Host
from labkit.probes.ready_time import Between, ReadyTime, between
from labkit.workload import Sample, Workload, knob
from labkit.workloads._sections import joined, parted
from labkit.workloads._server import serving

PROGRAMS = ("sockperf",)

# What the guest's own kernel has received: datagrams, and all bytes above the link.
COUNTS = "cat /proc/uptime; grep '^Udp:' /proc/net/snmp"
RATE = re.compile(r"sent ([1-9][0-9]{0,8})")
TOTAL = re.compile(r"Total of (\d+) messages sent in (\d+\.\d+) sec")
IDLE = "idle"
US = 1e6


@dataclass(frozen=True)
class PacketRate(Workload):
    """Datagrams of `size` bytes to a program in the guest, at each of `rates` a second.

    An idle stretch comes last; what the guest costs then, our looking at it included, is taken off
    what it cost before. The cost is the CPU time of all threads that run the guest: its own work
    and the hypervisor's.
    """

    roles = ("client", "server", "host")
    beside = ("host",)
    loop = "open"
    programs = ("sockperf",)
    needs = ("sockperf",)
    name = "packet_rate"
    rate_and_loss = ("throughput", "lost")
    longest = 0.0
    """None: what guest and host count is read between its commands."""

    size: int = knob(64, 14, 1400)
    rates: tuple[int, ...] = (2_000, 5_000, 10_000, 30_000)
    duration: int = knob(1, 1, 3600)
    guest: str = "guest"
    """The host's name for the guest that plays `server`."""

    def __post_init__(self) -> None:
        if not self.rates or min(self.rates) < 1 or list(self.rates) != sorted(set(self.rates)):
            raise BadInput(f"packet rate: rates must rise, from 1 a second on, not {self.rates!r}")

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return (len(self.rates) + 1) * (self.duration + 1.0)

    def run(self, hosts: Mapping[str, Host]) -> str:
        """One stretch after another; what guest and host have counted is read in between."""
        server, at = hosts["server"], ("-i", hosts["server"].address)
        with serving(
            server, lambda port: ("sockperf", "server", *at, "-p", str(port)), "udp"
        ) as port:
            parts = {"guest start": server.check("sh", "-c", COUNTS)}
            for rate in self.rates:
                with self._watch(hosts, str(rate), parts):
                    parts[f"sent {rate}"] = hosts["client"].check(
                        "sockperf", "throughput", *at, "-p", str(port), "-m", str(self.size),
                        "-t", str(self.duration), "--mps", str(rate), seconds=30 + 3 * self.seconds,
                    )  # fmt: skip
            with self._watch(hosts, IDLE, parts):
                time.sleep(self.duration)
        return joined(parts)

    # The first look at the host is where the first stretch begins, each other one where it ends.
    @contextmanager
    def _watch(
        self, hosts: Mapping[str, Host], moment: str, parts: dict[str, str]
    ) -> Iterator[None]:
        with ReadyTime((self.guest,)).watching(hosts["host"], self.duration + 1) as window:
            parts.setdefault("host start", window.before)
            yield
        parts[f"guest {moment}"] = hosts["server"].check("sh", "-c", COUNTS)
        parts[f"host {moment}"] = window.after

    def behind(self, text: str) -> float | None:
        """The share that it did not send, at the rate where that is largest."""
        shares = [0.0]
        for name, output in parted(text).items():
            rate, match = RATE.fullmatch(name), TOTAL.search(output)
            if rate and match:
                shares.append(1 - int(match[1]) / max(int(rate[1]) * float(match[2]), 1e-9))
        return max(shares)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """One figure each: at every rate, and once more without one of the highest."""
        parts = parted(text, "guest start", "host start", f"guest {IDLE}", f"host {IDLE}")
        rates = sorted(int(match[1]) for name in parts if (match := RATE.fullmatch(name)))
        moments = ("start", IDLE, *rates)
        names = {f"{side} {moment}" for side in ("guest", "host", "sent") for moment in moments}
        if odd := sorted(set(parts) - names):
            problem = "packet rate: part of the output is not recognized"
            raise ResultsError(problem, said=", ".join(odd))
        if not rates:
            raise ResultsError("packet rate: the run did not finish")
        idle, *_ = _counted(parts, str(rates[-1]), IDLE)
        samples, before = [], "start"
        for rate in rates:
            figures = _figures(parts, before, str(rate), idle)
            samples += [Sample.single(f"{name} at {rate}", unit, value)
                        for (name, unit), value in figures.items()]  # fmt: skip
            before = str(rate)
        return [*samples, *(Sample.single(*name, value) for name, value in figures.items())]


# The host's activity from one look to the next; datagrams that a program of the guest got, and
# those that reached the guest's kernel, where no program came for them in time.
def _counted(parts: Mapping[str, str], before: str, name: str) -> tuple[Between, int, int]:
    names = [f"{side} {moment}" for moment in (before, name) for side in ("guest", "host")]
    if missing := [part for part in names if part not in parts]:
        raise ResultsError(f"packet rate: the run did not finish: no {missing[0]}")
    first, last = (_count(parts[f"guest {moment}"]) for moment in (before, name))
    taken, lost = (b - a for a, b in zip(first, last, strict=True))
    if taken < 0 or lost < 0:
        raise ResultsError(f"packet rate: a counter of the guest went back at {name}")
    return between(parts[f"host {before}"], parts[f"host {name}"]), taken, lost


# Throughput, what did not arrive, and CPU time and turns for each packet that did.
def _figures(
    parts: Mapping[str, str], before: str, rate: str, idle: Between
) -> dict[tuple[str, str], float]:
    match = TOTAL.search(parts[f"sent {rate}"])
    if not match:
        raise ResultsError("sockperf: it did not finish", said=parts[f"sent {rate}"])
    host, taken, lost = _counted(parts, before, rate)
    sent, seconds, packets = int(match[1]), float(match[2]), taken + lost
    if not packets or not seconds:
        raise ResultsError(f"packet rate: nothing arrived at {rate}")
    # Seconds of CPU of an idle guest. What esxtop sampled is of no fixed length.
    rest = idle.ran() * (1 if idle.turns() is not None else host.seconds / idle.seconds)
    figures = {
        ("throughput", "1/s"): taken / seconds,
        ("cpu per packet", "us"): US * max(0.0, host.ran() - rest) / packets,
    }
    if (turns := host.turns()) is not None:
        figures["wake ups per packet", "1"] = turns / packets
    figures["lost", "share"] = max(0.0, 1 - taken / sent)
    return figures


# Below the clock, a line of names and one of numbers.
def _count(text: str) -> tuple[int, int]:
    try:
        _, names, numbers = text.split("\n")
        table = dict(zip(names.split()[1:], map(int, numbers.split()[1:]), strict=True))
        return table["InDatagrams"], table["InErrors"]
    except (KeyError, ValueError) as error:
        problem = "packet rate: the guest's counters cannot be read"
        raise ResultsError(problem, said=str(error)) from None
