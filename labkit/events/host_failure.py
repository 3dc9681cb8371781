"""A host loses its power: all its processes and its link, as a cluster and its clients see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from labkit.event import Event, Say, TimeLine
from labkit.events import _outage
from labkit.lab import Lab
from labkit.workload import Sample, Series
from labkit.workloads import _cluster

PROGRAMS = ("ip",)
OWN_HOSTS = "labkit takes no power from a host of one's own"


@dataclass(frozen=True)
class HostFailure(Event):
    """`host` is gone from one moment to the next; `standby` is to serve in its place."""

    measures: ClassVar[Mapping[str, str]] = _outage.MEASURES
    host: str = "server"
    standby: str = "server2"
    deadline: float = 120.0

    @property
    def name(self) -> str:
        """Under which its lines are kept."""
        return "host_failure"

    @property
    def seconds(self) -> float:
        """About how long it takes to detect, fence and start."""
        return 10.0

    def happen(self, lab: Lab, say: Say) -> None:
        """Take its power, and wait until the other one serves."""
        at = _cluster.off(lab.host(self.host))
        say(host=self.host, event="down", at=at)
        seen = _outage.awaited(lab.host(self.standby), at, self.deadline)
        for event, when in sorted(seen.items(), key=lambda one: one[1]):
            say(host=self.standby, event=event, at=when)

    def undo(self, lab: Lab) -> None:
        """Have its link as before; its software ended with its power."""
        host = lab.host(self.host)
        host.check("ip", "link", "set", host.interface, "up")

    def refusal(self, lab: Lab) -> str:
        """Hosts of one's own keep their power."""
        return "" if lab.emulated else OWN_HOSTS

    def impossible(self, lab: str) -> str:
        """A box alone has hosts that may be lost."""
        return "" if lab == "box" else OWN_HOSTS

    @staticmethod
    def time_line(text: str) -> TimeLine:
        """Detection, fencing, restart, boot and loading."""
        return _outage.time_line("host failure", text)

    @staticmethod
    def parse(text: str, loads: Mapping[str, Series]) -> list[Sample]:
        """Both downtimes, and the seconds of each step."""
        return _outage.samples(text, loads)
