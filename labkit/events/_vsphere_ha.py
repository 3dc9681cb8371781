"""vSphere HA as vCenter's events tell it: a host taken for dead, and a machine started again."""

import importlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from labkit.event import Say
from labkit.events import _vsphere
from labkit.fleet import vcenter
from labkit.lab import Lab

FAILED = ("com.vmware.vc.HA.DasHostFailedEvent", "DasHostFailedEvent")
RESTARTED = ("com.vmware.vc.ha.VmRestartedByHAEvent", "VmRestartedOnAlternateHostEvent")
"""Identifiers since vSphere 5, and the classes of events before that."""
MEANS = {**dict.fromkeys(FAILED, "detected"), **dict.fromkeys(RESTARTED, "restarted")}


def seen(session: Any, after: datetime) -> dict[str, float]:
    """The first moment of each kind of event since then, in order, in seconds since 1970."""
    vim = importlib.import_module("pyVmomi").vim
    times = vim.event.EventFilterSpec.ByTime(beginTime=after)
    filters = vim.event.EventFilterSpec(time=times, eventTypeId=list(MEANS))
    first: dict[str, float] = {}
    for event in session.RetrieveContent().eventManager.QueryEvents(filters):
        for name in _names(event):
            if name in MEANS and event.createdTime >= after:
                at = event.createdTime.timestamp()
                first[MEANS[name]] = min(at, first.get(MEANS[name], at))
    return dict(sorted(first.items(), key=lambda event: event[1]))


def now(lab: Lab) -> datetime:
    """The time by vCenter's own clock."""
    with _vsphere.vcenter_of(lab) as session:
        moment: datetime = session.CurrentTime()
    return moment


def tell(lab: Lab, begun: datetime, at: float, say: Say) -> None:
    """Say what vCenter saw since `begun`, which was `at` by our clock."""
    with _vsphere.vcenter_of(lab) as session:
        for event, when in seen(session, begun).items():
            say(host=vcenter.ROLE, event=event, at=at + when - begun.timestamp(), by="controller")


def _names(event: Any) -> Iterator[str]:
    yield type(event).__name__.rpartition(".")[2]
    yield str(getattr(event, "eventTypeId", ""))
