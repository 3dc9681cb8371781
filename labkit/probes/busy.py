"""Busy time of all CPUs that a host may use, no matter who keeps them busy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from labkit.host import Host
from labkit.probe import Probe
from labkit.probes.ready_time import Between, ReadyTime
from labkit.workload import Sample


@dataclass(frozen=True)
class BusyCpus(Probe):
    """The time that CPUs were not idle, the kernel's work for packets and guests included.

    A host of a lab in a box is charged for its own CPUs alone. ESXi keeps no such counters.
    """

    def look(self, host: Host) -> str:
        """The counters of each CPU; empty where there are none."""
        return ReadyTime(()).look(host)

    @staticmethod
    def parse(before: str, after: str) -> list[Sample]:
        """`CPUs busy`: how many were busy on average. `CPU time`: in seconds."""
        if not before.strip():
            return []
        between = Between.of(before, after)
        busy = between.busy() * len(between.cpus)
        return [
            Sample.single("CPUs busy", "1", busy),
            Sample.single("CPU share", "share", between.busy()),
            Sample.single("CPU time", "s", busy * between.seconds),
        ]


def looks(hosts: Mapping[str, Host], sides: Iterable[str], moment: str) -> dict[str, str]:
    """The counters of hosts that play these roles, as parts of a run's text."""
    return {f"{side} {moment}": BusyCpus().look(hosts[side]) for side in sides}


def spent(before: str, after: str) -> dict[str, float]:
    """The same as plain figures by name; empty where a host shows nothing."""
    return {sample.metric: float(sample.values[0]) for sample in BusyCpus.parse(before, after)}
