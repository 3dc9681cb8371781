"""A guest asked after it has slept, and again at once: what halting and waking costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from labkit.host import Host
from labkit.probes.ready_time import ReadyTime, between
from labkit.workload import Sample, Workload, knob
from labkit.workloads._sections import joined, parted
from labkit.workloads.ping import MOST_COUNT, Ping

PROGRAMS = ("ping",)


@dataclass(frozen=True)
class WakeUp(Workload):
    """`count` pings one after each `interval`, then as many without a pause, to a guest of `host`.

    Between two of the first the guest halts; of the second it hardly ever does. So the difference
    of the two medians is what halting and waking up costs, on both sides of the wire.
    """

    roles = ("client", "server", "host")
    beside = ("host",)
    loop = "open"
    measures = ("response time", "response time without a pause", "wake up time", "ready share",
                "cpu share")  # fmt: skip
    programs = ("ping",)
    name = "wake_up"
    longest = 0.0
    """None: what the host counts is read around the first pings."""

    size: int = 256
    interval: float = 0.001
    count: int = knob(2000, 10, MOST_COUNT)
    guest: str = "guest"
    """The host's name for the guest that plays `server`."""

    def __post_init__(self) -> None:
        _ = self._ping  # refuses what no ping can have

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return 1.3 * self._ping.seconds

    @property
    def _ping(self) -> Ping:
        return Ping(self.size, self.interval, self.count)

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Both pings; the host is looked at around the first one."""
        probe = ReadyTime((self.guest,))
        with probe.watching(hosts["host"], self._ping.seconds) as window:
            output = self._ping.run(hosts)
        second = hosts["client"].check(
            "ping", "-n", "-D", "-A", "-i", "0", "-s", str(self.size), "-c", str(self.count),
            hosts["server"].address, seconds=30 + 3 * self.seconds,
        )  # fmt: skip
        return joined({
            "host before": window.before, "ping": output, "host after": window.after,
            "again": second,
        })  # fmt: skip

    def behind(self, text: str) -> float | None:
        """The share that the pings at an interval missed; the others wait for their answers."""
        return self._ping.behind(parted(text, "ping")["ping"])

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Response times, those without a pause, and one figure each of the run."""
        parts = parted(text, "host before", "ping", "host after", "again")
        (trips,), (quick_trips,) = (Ping.parse(parts[name] + "\n") for name in ("ping", "again"))
        host = between(parts["host before"], parts["host after"])
        wake_up = float(np.median(trips.values) - np.median(quick_trips.values))
        return [
            replace(trips, metric="response time"),
            replace(quick_trips, metric="response time without a pause"),
            Sample.single("wake up time", "us", wake_up),
            Sample.single("ready share", "share", host.waited() / host.seconds),
            Sample.single("cpu share", "share", host.ran() / host.seconds),
        ]
