"""The network of a host fails for a moment: whether its cluster takes the host for dead."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from labkit.box import Faults
from labkit.errors import ResultsError
from labkit.event import Event, Phase, Say, TimeLine, moments
from labkit.lab import Lab
from labkit.workload import Sample, Series
from labkit.workloads import _cluster

PROGRAMS = ("date", "ip")
OWN_NETWORK = "labkit cuts no network of hosts of one's own"


@dataclass(frozen=True)
class NetworkHiccup(Event):
    """No packet reaches or leaves `host` for `length` seconds; then all is as before."""

    measures: ClassVar[Mapping[str, str]] = {"failover downtime": "s", "false failovers": "1"}
    name: ClassVar[str] = "network_hiccup"
    host: str = "server"
    standby: str = "server2"
    length: float = 3.0
    patience: float = 5.0
    """Seconds after it in which a host may still be taken for dead."""
    deadline: float = 120.0

    @property
    def seconds(self) -> float:
        """About how long it and its consequences take."""
        return self.length + 2 * self.patience

    def happen(self, lab: Lab, say: Say) -> None:
        """Cut it off, connect it again, and wait for what comes of it."""
        host, standby = lab.host(self.host), lab.host(self.standby)
        at = float(host.check("date", "+%s.%N"))
        with Faults(lab.name).cut(self.host):
            time.sleep(self.length)
        say(host=self.host, event="cut", at=at)
        say(host=self.host, event="healed", at=at + self.length)
        time.sleep(self.patience)
        for role, peer in ((self.host, host), (self.standby, standby)):
            noted = _cluster.notes(_cluster.log(peer), at)
            if "asked" in noted:
                say(host=role, event="asked", at=noted["asked"])
            if "start" in noted:
                begun = _cluster.ready(peer, at, self.deadline)
                say(host=role, event="ready", at=begun["ready"])

    def undo(self, lab: Lab) -> None:
        """Have the links as before: a host that was taken for dead has lost its link too."""
        for role in (self.host, self.standby):
            host = lab.host(role)
            host.check("ip", "link", "set", host.interface, "up")

    def refusal(self, lab: Lab) -> str:
        """Networks of one's own stay as they are."""
        return "" if lab.emulated else OWN_NETWORK

    def impossible(self, lab: str) -> str:
        """A box alone has a network that may be cut."""
        return "" if lab == "box" else OWN_NETWORK

    @staticmethod
    def time_line(text: str) -> TimeLine:
        """The hiccup, and what came of it."""
        times = _seen(text)
        phases = [Phase("hiccup", times["cut"], times["healed"])]
        if "asked" in times and "ready" in times:
            phases.append(Phase("false failover", times["asked"], times["ready"]))
        return TimeLine("network hiccup", tuple(phases))

    @staticmethod
    def parse(text: str, loads: Mapping[str, Series]) -> list[Sample]:
        """Whether a host that lived was taken for dead, and the longest time without a list."""
        times, lists = _seen(text), loads["list"][0]
        around = lists[lists >= times["cut"]]
        before = lists[lists < times["cut"]]
        if not around.size or not before.size:
            raise ResultsError("the server gave no answer before or after the hiccup")
        gaps = np.diff(np.array([before.max(), *around]))
        return [
            Sample.single("failover downtime", "s", gaps.max()),
            Sample.single("false failovers", "1", "asked" in times, kind="share"),
        ]


def _seen(text: str) -> dict[str, float]:
    times = moments(text)
    if lacking := [word for word in ("cut", "healed") if word not in times]:
        raise ResultsError(f"these lines are of a hiccup without {lacking[0]}")
    return times
