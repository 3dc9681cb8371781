"""A host loses its power, or its management server reboots: as a cluster and clients see it."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labkit.errors import HostError, ResultsError
from labkit.event import Event, Phase, Say, TimeLine, moments, offsets, said
from labkit.events import _power, _vsphere
from labkit.fleet import vcenter
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.lab import Lab
from labkit.workload import Sample, Series
from labkit.workloads import _cluster, _guarded
from labkit.workloads._guarded import CENTER, PAIR, ClusterView

PROGRAMS = ("crm_resource", "ip", "python3", "systemctl")

NO_SERVER = "vSphere HA is seen by its events: labkit asks no management server that it guards"
VM = "guest"
"""The role of the virtual machine that a cluster of one's own starts elsewhere."""
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
SETTLE_SECONDS = 600
MENDED = "put its cluster right by hand: labkit changes nothing of it"
NO_PATIENCE = "has it a way to fence, and a disk that the other host has, too?"


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


def _seen(text: str) -> tuple[dict[str, float], tuple[tuple[str, str, str], ...]]:
    times = moments(text)
    steps = _steps(times)
    if lacking := [end for _, *ends in steps for end in ends if end not in times]:
        raise ResultsError(f"these lines are of an outage without {lacking[0]}")
    return times, steps


@dataclass(frozen=True)
class Outage(Event):
    """A management server that is gone for a while: what its kinds have in common."""

    measures: ClassVar[Mapping[str, str]] = MEASURES
    name: ClassVar[str]

    @classmethod
    def time_line(cls, text: str) -> TimeLine:
        """Its steps, from when the server was gone to when it was as before."""
        times, steps = _seen(text)
        phases = tuple(Phase(step, times[a], times[b]) for step, a, b in steps)
        return TimeLine(cls.name.replace("_", " "), phases)

    @staticmethod
    def parse(text: str, loads: Mapping[str, Series]) -> list[Sample]:
        """Both downtimes by who asked, and the seconds of each step."""
        times, steps = _seen(text)
        if "boot" not in times:
            away = times["answers"] - times["lost"]
            return [Sample.single("failover downtime", "s", away)]
        # The client's clock against ours; what is less than its own bound is nothing.
        offset, bound = offsets(said(text)).get("client", (0.0, 0.0))
        ahead = offset if abs(offset) > bound else 0.0
        logins, lists = loads["login"][0] - ahead, loads["list"][0] - ahead
        figures = {
            "failover downtime": _downtime(times, lists),
            "login downtime": _first(logins, times["boot"]) - times["down"],
            **{f"{step} time": times[b] - times[a] for step, a, b in steps},
        }
        if "start" in times:
            figures["ha time"] = times["start"] - times["down"]
        return [Sample.single(metric, unit, figures[metric])
                for metric, unit in MEASURES.items() if metric in figures]  # fmt: skip


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


@dataclass(frozen=True)
class HostFailure(Outage):
    """`host` is gone from one moment to the next; `standby` is to serve in its place."""

    name: ClassVar[str] = "host_failure"
    seconds: ClassVar[float] = 10.0
    """About how long it takes to detect, fence and start."""
    host: str = "server"
    standby: str = "server2"
    deadline: float = 120.0

    def happen(self, lab: Lab, say: Say) -> None:
        """Take its power, and wait until the other one serves."""
        if _is_guarded(lab):
            _fail_over(lab, say)
            return
        if not lab.emulated:
            self._happen_there(lab, say)
            return
        at = _cluster.off(lab.host(self.host))
        say(host=self.host, event="down", at=at)
        times = awaited(lab.host(self.standby), at, self.deadline)
        for event, when in sorted(times.items(), key=lambda pair: pair[1]):
            say(host=self.standby, event=event, at=when)

    # The cluster is its owner's: what it does is seen from its other host, by pings.
    def _happen_there(self, lab: Lab, say: Say) -> None:
        by = lab.host(self.standby)
        if not _power.answers(by, lab.host(VM).address, self.deadline):
            raise HostError(f"{VM} does not answer {self.standby} while all is well")
        begun = _vsphere.now(lab) if vcenter.ROLE in lab.hosts else None
        at = _power.off(lab, self.host)
        say(host=self.host, event="down", at=at, by="controller")
        for event, role, wanted in (("silent", self.host, False), ("lost", VM, False),
                                    ("answers", VM, True)):  # fmt: skip
            when = _power.answers(by, lab.host(role).address, self.deadline, wanted)
            if not when:
                raise HostError(
                    f"{role} was not seen: {event} after {self.deadline:g} s",
                    hint="has its cluster a resource for it, and a way to fence?",
                )
            say(host=role, event=event, at=when, by="controller")
        if begun:
            _vsphere.tell(lab, begun, at, say)

    def undo(self, lab: Lab) -> None:
        """Have its link as before, or its power; its software ended with that."""
        if _is_guarded(lab):
            mend(lab)
            return
        if not lab.emulated:
            _power.on(lab, self.host, self.deadline)
            return
        host = lab.host(self.host)
        host.check("ip", "link", "set", host.interface, "up")

    def refusal(self, lab: Lab) -> str:
        """Hosts of one's own keep their power, unless the lab file names them."""
        roles = PAIR if _is_guarded(lab) else (self.host,)
        whys = (_power.refusal(lab, role) for role in roles)
        return "" if lab.emulated else next(filter(None, whys), "")

    def cuts_power(self, lab: Lab) -> tuple[str, ...]:
        """Either host that may run the machine of a cluster; in a box no host loses what it has."""
        return PAIR if _is_guarded(lab) else () if lab.emulated else (self.host,)

    def impossible(self, lab: str) -> str:
        """A box has a cluster, and an owner of KVM hosts may have one."""
        return NO_SERVER if lab == "ESXi" else ""


@dataclass(frozen=True)
class ServerReboot(Outage):
    """The server of `host` ends, and starts again there; its cluster has nothing to do.

    A machine that a cluster of one's own guards reboots as a whole.
    """

    name: ClassVar[str] = "server_reboot"
    seconds: ClassVar[float] = 5.0
    """About how long a start takes."""
    host: str = "server"
    deadline: float = 120.0

    def happen(self, lab: Lab, say: Say) -> None:
        """Tell it, and wait until it is as before."""
        if _is_guarded(lab):
            _reboot(lab, say)
            return
        host = lab.host(self.host)
        at = float(host.check("date", "+%s.%N"))
        host.check(*_cluster.program(), "reboot", host.address)
        say(host=self.host, event="down", at=at)
        for event, when in awaited(host, at, self.deadline).items():
            say(host=self.host, event=event, at=when)

    def undo(self, lab: Lab) -> None:
        """It is as before."""


# --- a machine that its owner's own Pacemaker guards; a moment of that cluster is when its other
# host showed it first, by our clock


def _is_guarded(lab: Lab) -> bool:
    return not lab.emulated and CENTER in lab.hosts


# Take the power of the host that runs it, and wait until its server is ready on the other.
def _fail_over(lab: Lab, say: Say) -> None:
    if why := _guarded.unfit(lab.hosts):
        raise HostError(why, hint=MENDED)
    machine, views = lab.host(CENTER), _guarded.views(lab.hosts)
    (node,) = views[PAIR[0]].runs_on
    lost = next(role for role in PAIR if views[role].node == node)
    other = next(role for role in PAIR if role != lost)
    before, at = _guarded.boot(machine), _power.off(lab, lost)
    say(host=lost, event="down", at=at, by="controller")
    for host in (lab.host(lost), machine):
        host.close()
    for event, when in _look_on(lab.host(other), machine.resource, node).items():
        say(host=other, event=event, at=when, by="controller")
    _tell_start(lab, before, say)


# The machine reboots where it is, by its own system.
def _reboot(lab: Lab, say: Say) -> None:
    machine = lab.host(CENTER)
    before, at = _guarded.boot(machine), time.time()
    with suppress(HostError):  # it may be gone before it has answered
        machine.run("systemctl", "reboot", seconds=_guarded.SILENT_SECONDS)
    machine.close()
    say(host=CENTER, event="down", at=at, by="controller")
    _tell_start(lab, before, say)


def mend(lab: Lab) -> None:
    """Give a host its power again, and wait until the cluster is as it was; or say what is not."""
    for role in PAIR:
        lab.host(role).close()
    until, why = time.monotonic() + _guarded.PATIENCE_SECONDS, "it is not at rest"
    while time.monotonic() < until:
        # A cluster may take the power of a host once more that has just come back.
        for role in PAIR:
            if not _power.has_power(lab, role):
                _power.on(lab, role, _guarded.PATIENCE_SECONDS)
        if _at_rest(lab.host(PAIR[0])) and not (why := _guarded.unfit(lab.hosts)):
            return
        time.sleep(_guarded.LOOK_SECONDS)
    raise HostError(f"the cluster is not as before: {why}", hint=MENDED)


# It may start the machine where it was before.
def _at_rest(host: Host) -> bool:
    wait = ("crm_resource", "--wait", "--timeout", f"{SETTLE_SECONDS}s")
    with suppress(HostError):
        return host.run(*wait, seconds=SETTLE_SECONDS + 10).ok
    return False


# The first look that shows each step: what happens between two looks happens at the second.
def _look_on(by: Host, resource: str, node: str) -> Mapping[str, float]:
    until, times = time.monotonic() + _guarded.PATIENCE_SECONDS, dict[str, float]()
    trouble = ""
    while time.monotonic() < until and "start" not in times:
        with suppress(HostError):
            view = ClusterView.of(by, resource)
            now, trouble = time.time(), view.trouble(node)
            for event in view.has_happened(node):
                times.setdefault(event, now)
        time.sleep(_guarded.LOOK_SECONDS)
    if "start" in times:
        return times
    raise HostError(f"{by.name}: its cluster did not start {resource} after "
                    f"{_guarded.PATIENCE_SECONDS:g} s", said=trouble, hint=NO_PATIENCE)  # fmt: skip


# Its clock is read again: it is that of another boot.
def _tell_start(lab: Lab, before: str, say: Say) -> None:
    machine = lab.host(CENTER)
    noted = _guarded.started(machine, before)
    say.clocks(Fleet({CENTER: machine}).clocks().check())
    for event in ("boot", "database", "ready"):
        say(host=CENTER, event=event, at=noted[event])
