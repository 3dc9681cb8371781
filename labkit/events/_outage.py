"""Observations of an outage of a management server: its time line, and its figures."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.event import Event, Phase, TimeLine, offsets, said
from labkit.host import Host
from labkit.workload import Sample, Series
from labkit.workloads import _cluster

MEASURES = {
    "failover downtime": "s", "login downtime": "s", "detection time": "s", "fencing time": "s",
    "restart time": "s", "ha time": "s", "boot time": "s", "loading time": "s",
}  # fmt: skip
Values = npt.NDArray[np.float64]
LOST, LEFT = "silent", "lost"
# What Corosync notes with `timestamp: hires`, of UTC: there is no year in it.
HEARD = re.compile(
    r"^(\w{3} +\d+ [\d:]{8}\.\d{3}) .*?(A processor failed|Members left)", re.MULTILINE
)
MEANS = {"A processor failed": LOST, "Members left": LEFT}
STEPS = (
    ("detection", "down", LEFT), ("fencing", LEFT, "fenced"), ("restart", "fenced", "start"),
    ("boot", "start", "database"), ("loading", "database", "ready"),
)  # fmt: skip


def awaited(host: Host, after: float, deadline: float) -> dict[str, float]:
    """Notes of a host and its Corosync until its server was ready, with their moments."""
    noted = _cluster.ready(host, after, deadline)
    return noted | heard(_cluster.log(host, "corosync.log"), after)


def heard(log: str, after: float) -> dict[str, float]:
    """The moments when Corosync missed a host, and when it was sure."""
    year = datetime.fromtimestamp(after, UTC).year
    times: dict[str, float] = {}
    for stamp, words in HEARD.findall(log):
        then = datetime.strptime(f"{year} {stamp}", "%Y %b %d %H:%M:%S.%f").replace(tzinfo=UTC)
        if then.timestamp() >= after:
            times.setdefault(MEANS[words], then.timestamp())
    return times


def moments(text: str) -> dict[str, float]:
    """All that was seen, by what it was."""
    times = {line["event"]: line["at"] for line in said(text) if "event" in line}
    steps = _steps(times)
    if lacking := [end for _, *ends in steps for end in ends if end not in times]:
        raise ResultsError(f"these lines are of an outage without {lacking[0]}")
    return times


@dataclass(frozen=True)
class Outage(Event):
    """A management server that is gone for a while: what its kinds have in common."""

    measures: ClassVar[Mapping[str, str]] = MEASURES
    name: ClassVar[str]

    @classmethod
    def time_line(cls, text: str) -> TimeLine:
        """Its steps, from when the server was gone to when it was as before."""
        times = moments(text)
        phases = tuple(Phase(step, times[a], times[b]) for step, a, b in _steps(times))
        return TimeLine(cls.name.replace("_", " "), phases)

    @staticmethod
    def parse(text: str, loads: Mapping[str, Series]) -> list[Sample]:
        """Both downtimes by who asked, and the seconds of each step."""
        times = moments(text)
        if "boot" not in times:
            away = times["answers"] - times["lost"]
            return [Sample.single("failover downtime", "s", away)]
        ahead = _ahead(text)
        logins, lists = loads["login"][0] - ahead, loads["list"][0] - ahead
        figures = {
            "failover downtime": _downtime(times, lists),
            "login downtime": _first(logins, times["boot"]) - times["down"],
            **{f"{step} time": times[b] - times[a] for step, a, b in _steps(times)},
        }
        if "start" in times:
            figures["ha time"] = times["start"] - times["down"]
        return [
            Sample.single(metric, unit, figures[metric])
            for metric, unit in MEASURES.items()
            if metric in figures
        ]


# A reboot has no failure to detect: it begins with its start. Of a cluster of one's own only the
# machine is seen that it starts elsewhere.
def _steps(seen: Mapping[str, float]) -> tuple[tuple[str, str, str], ...]:
    if "start" in seen:
        return STEPS
    if "restarted" in seen:
        return (("shutdown", "down", "silent"), ("detection", "silent", "detected"),
                ("restart", "detected", "restarted"), ("boot", "restarted", "answers"))  # fmt: skip
    if "boot" not in seen:
        return (("shutdown", "down", "silent"), ("failover", "silent", "answers"))
    return (("stop", "down", "boot"), ("boot", "boot", "database"), STEPS[-1])


# The client's clock against ours; what is less than its own bound is nothing.
def _ahead(text: str) -> float:
    offset, bound = offsets(said(text)).get("client", (0.0, 0.0))
    return offset if abs(offset) > bound else 0.0


# Of a failure the document counts from the last answer, of a reboot from its command.
def _downtime(seen: Mapping[str, float], at: Values) -> float:
    before = at[at <= seen["down"]]
    if not before.size:
        raise ResultsError("the server gave no answer before it was gone")
    begun = float(before.max()) if "start" in seen else seen["down"]
    return _first(at, seen["boot"]) - begun


def _first(at: Values, after: float) -> float:
    later = at[at >= after]
    if not later.size:
        raise ResultsError("the server gave no answer again")
    return float(later.min())
