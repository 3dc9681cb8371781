"""vCenter: how a virtual machine moves by its API, and is started elsewhere by vSphere HA.

The API says when a task began, how far it is and how it ended. It says nothing of rounds, of bytes,
nor of how long the machine stood still: claims on those are not testable there.
"""

import importlib
import importlib.util
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from labkit.errors import BadInput, HostError, Obstacle, StayedBehind
from labkit.event import Say
from labkit.events._move import ARRIVED, NEAR, US, AskedMove, note
from labkit.fleet.vcenter import PORT, ROLE, USER, connected, kept_password, named
from labkit.host import Host
from labkit.lab import Lab

PROGRAMS = ("vmkping",)

EVERY = 0.05
GIVES = frozenset({"arrived share", "migration time", "load before", "depth", "work lost"})
"""Metrics of a move by vCenter; those of a load are read from that."""
SILENT = "vCenter says when a move began and ended, and no more of it"
FAILED = ("com.vmware.vc.HA.DasHostFailedEvent", "DasHostFailedEvent")
RESTARTED = ("com.vmware.vc.ha.VmRestartedByHAEvent", "VmRestartedOnAlternateHostEvent")
"""Identifiers since vSphere 5, and the classes of events before that."""
MEANS = {**dict.fromkeys(FAILED, "detected"), **dict.fromkeys(RESTARTED, "restarted")}
TRIP = re.compile(r"round-trip min/avg/max = [\d.]+/([\d.]+)/")


def relocated(
    session: Any, vm: str, to: str, say: Say, *,
    roles: tuple[str, str] = ("server", "server2"), deadline: float = 600.0, disks: bool = False,
) -> None:  # fmt: skip
    """Move a machine between the hosts of two roles; what is not done by the deadline ends.

    With its disks it goes to storage of the destination that its own host does not have.
    """
    vim = importlib.import_module("pyVmomi").vim
    machine, host = named(session, vim.VirtualMachine, vm), named(session, vim.HostSystem, to)
    if machine.runtime.host.name == to:
        raise BadInput(f"{vm} is on {to} already")
    spec = vim.vm.RelocateSpec(host=host, pool=host.parent.resourcePool)
    if disks:
        spec.datastore = _new_store(machine, host)
    task = machine.RelocateVM_Task(spec, vim.VirtualMachine.MovePriority.highPriority)
    note(say, roles[0], "setup")
    try:
        ended_well(task, say, roles[0], deadline)
    except (HostError, StayedBehind) as error:
        problem = f"{vm} was not moved to {to}, and is on {machine.runtime.host.name}"
        raise type(error)(problem, said=str(error)) from None
    if machine.runtime.host.name != to:
        raise HostError(f"the task has ended well, and {vm} is not on {to}")
    note(say, roles[0], "completed")
    say(host=roles[1], event=ARRIVED, at=time.time(), by=US)


def ended_well(task: Any, say: Say, host: str, deadline: float) -> None:
    """Follow a task to its end, and raise if that is no success; one that is late is cancelled."""
    until, late, progress = time.monotonic() + deadline, False, 0
    while str(task.info.state) in ("queued", "running"):
        progress = task.info.progress or progress
        say(host=host, progress=progress, by=US)
        if not late and time.monotonic() > until:
            _cancel(task)
            late = True
        time.sleep(EVERY)
    info = task.info
    if str(info.state) != "success":
        kind = StayedBehind if late or progress else HostError
        raise kind(getattr(info.error, "msg", "") or type(info.error).__name__)


# One that cannot be cancelled any more is waited for: what becomes of it has to be known.
def _cancel(task: Any) -> None:
    faults = importlib.import_module("pyVmomi")
    with suppress(faults.vmodl.fault.NotSupported, faults.vim.fault.InvalidState):
        task.CancelTask()


def move(lab: Lab, asked: AskedMove, say: Say) -> None:
    """Move the machine of the role `guest`."""
    with vcenter_of(lab) as session:
        vm, to = _names(lab, asked)
        relocated(session, vm, to, say, roles=(asked.origin, asked.to), deadline=asked.deadline,
                  disks=asked.disks)  # fmt: skip


def back(lab: Lab, asked: AskedMove) -> None:
    """Move it back, if it is there."""
    with vcenter_of(lab) as session:
        vim = importlib.import_module("pyVmomi").vim
        vm, to = _names(lab, asked)
        if named(session, vim.VirtualMachine, vm).runtime.host.name == to:
            relocated(session, vm, lab.host(asked.origin).address, Say(), disks=asked.disks)


def lacking(asked: AskedMove) -> str:
    """The reason why vCenter cannot be asked for such a move at all."""
    if asked.channels > 1:
        return "vMotion chooses its number of connections, vCenter takes none with a move"
    if asked.throttle or asked.post_copy or asked.escape != "give up":
        return "vMotion slows a guest down as it sees fit, vCenter takes no other way out"
    return ""


def refusal(lab: Lab, asked: AskedMove) -> str:
    """It takes pyVmomi here, a guest that vCenter knows, and a link and storage as asked for."""
    if importlib.util.find_spec("pyVmomi") is None:
        return Obstacle("pyVmomi is missing here", "pip install pyvmomi")
    if why := asked.lacking(lab) or lacking(asked):
        return why
    hosts = lab.host(asked.origin), lab.host(asked.to)
    if why := _other_trip(*hosts, asked.rtt_ms):
        return why
    with vcenter_of(lab) as session:
        return _other_rate(session, hosts, asked.rate_mbit) or _stored(session, lab, asked)


def _other_trip(origin: Host, destination: Host, rtt_ms: float) -> str:
    if not rtt_ms:
        return ""
    trip = TRIP.search(origin.run("vmkping", "-c", "5", "-i", "0.2", destination.address).stdout)
    if trip and rtt_ms / NEAR <= float(trip[1]) <= rtt_ms * NEAR:
        return ""
    answer = f"takes {float(trip[1]):g} ms" if trip else "gives no answer"
    return f"the way from {origin.name} to {destination.name} {answer}, not {rtt_ms:g} ms"


# What its NICs have together, as vMotion may use all of them.
def _other_rate(session: Any, hosts: Iterable[Host], rate_mbit: float) -> str:
    if not rate_mbit:
        return ""
    vim = importlib.import_module("pyVmomi").vim
    for host in hosts:
        nics = named(session, vim.HostSystem, host.address).config.network.pnic
        speed = sum(nic.linkSpeed.speedMb for nic in nics if nic.linkSpeed)
        if not rate_mbit / NEAR <= speed <= rate_mbit * NEAR:
            return f"the NICs of {host.name} have {speed} Mbit/s, not {rate_mbit:g}"
    return ""


# A machine whose storage both hosts have moves without it, and else only with it.
def _stored(session: Any, lab: Lab, move: AskedMove) -> str:
    vim = importlib.import_module("pyVmomi").vim
    vm, to = _names(lab, move)
    machine, host = named(session, vim.VirtualMachine, vm), named(session, vim.HostSystem, to)
    stores = {store.name for store in host.datastore}
    alone = [store.name for store in machine.datastore if store.name not in stores]
    if move.disks and not alone:
        return f"both hosts have the storage of {vm}, so its disks do not move"
    if move.disks and _new_store(machine, host) is None:
        return f"{to} has no storage of its own that the disks of {vm} could go to"
    if alone and not move.disks:
        return f"{to} does not have {alone[0]}, where the disks of {vm} are: they have to move"
    return ""


def _new_store(machine: Any, host: Any) -> Any:
    mine = {store.name for store in machine.runtime.host.datastore}
    return next((store for store in host.datastore if store.name not in mine), None)


def vcenter_of(lab: Lab) -> Any:
    """A session of the lab's vCenter, by the password that the keyring has."""
    address = lab.host(ROLE).address
    return connected(address, USER, kept_password(address), port=PORT)


# vCenter calls a host by the name or address under which it was added: that of its test traffic.
def _names(lab: Lab, asked: AskedMove) -> tuple[str, str]:
    return asked.vm(lab), lab.host(asked.to).address


# --- vSphere HA, as vCenter's events tell it ----------------------------------------------------


def seen(session: Any, after: datetime) -> dict[str, float]:
    """The first moment of each kind of event since then, in order, in seconds since 1970."""
    vim = importlib.import_module("pyVmomi").vim
    times = vim.event.EventFilterSpec.ByTime(beginTime=after)
    filters = vim.event.EventFilterSpec(time=times, eventTypeId=list(MEANS))
    first: dict[str, float] = {}
    for event in session.RetrieveContent().eventManager.QueryEvents(filters):
        kinds = (type(event).__name__.rpartition(".")[2], str(getattr(event, "eventTypeId", "")))
        for name in kinds:
            if name in MEANS and event.createdTime >= after:
                at = event.createdTime.timestamp()
                first[MEANS[name]] = min(at, first.get(MEANS[name], at))
    return dict(sorted(first.items(), key=lambda event: event[1]))


def now(lab: Lab) -> datetime:
    """The time by vCenter's own clock."""
    with vcenter_of(lab) as session:
        moment: datetime = session.CurrentTime()
    return moment


def tell(lab: Lab, begun: datetime, at: float, say: Say) -> None:
    """Say what vCenter saw since `begun`, which was `at` by our clock."""
    with vcenter_of(lab) as session:
        for event, when in seen(session, begun).items():
            say(host=ROLE, event=event, at=at + when - begun.timestamp(), by=US)
