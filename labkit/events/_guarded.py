"""An outage of a machine that its owner's own Pacemaker guards, as that cluster and it show it.

Moments of the cluster are those at which its other host showed them first, by our clock.
"""

import time
from collections.abc import Mapping
from contextlib import suppress

from labkit.errors import HostError
from labkit.event import Say
from labkit.events import _power
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.lab import Lab
from labkit.workloads import _guarded
from labkit.workloads._guarded import CENTER, PAIR, ClusterView

PROGRAMS = ("crm_resource", "systemctl")

SETTLE_SECONDS = 600
MENDED = "put its cluster right by hand: labkit changes nothing of it"
NO_PATIENCE = "has it a way to fence, and a disk that the other host has, too?"


def fail_over(lab: Lab, say: Say) -> None:
    """Take the power of the host that runs it, and wait until its server is ready on the other."""
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
    for event, when in _seen(lab.host(other), machine.resource, node).items():
        say(host=other, event=event, at=when, by="controller")
    _tell_start(lab, before, say)


def reboot(lab: Lab, say: Say) -> None:
    """Let the machine reboot where it is, by its own system."""
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
def _seen(by: Host, resource: str, node: str) -> Mapping[str, float]:
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
