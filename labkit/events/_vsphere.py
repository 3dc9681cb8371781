"""vCenter: how a virtual machine moves by its API, where the lab has a host `vcenter`.

The API says when a task began, how far it is and how it ended. It says nothing of rounds, nor of
how long the machine stood still: for that the load has to be asked.
"""

from __future__ import annotations

import importlib
import importlib.util
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from labkit.errors import BadInput, HostError, LoginRefused, Unknown
from labkit.event import Say
from labkit.events._move import AskedMove
from labkit.lab import Lab

ROLE = "vcenter"
EVERY = 0.05
PORT = 443
USER = "administrator@vsphere.local"


@contextmanager
def connected(
    address: str, user: str, password: str, *, port: int = PORT, trusted: str = ""
) -> Iterator[Any]:
    """A session of vCenter's API, which ends with the block; `trusted` is a file of its CA."""
    connect = importlib.import_module("pyVim.connect")
    trust = ssl.create_default_context(cafile=trusted or None)
    try:
        session = connect.SmartConnect(
            host=address, port=port, user=user, pwd=password, sslContext=trust
        )
    except Exception as refused:
        said = getattr(refused, "msg", "") or str(refused)
        hint = "keep the password with `keyring set labkit " + f"{user}@{address}`"
        raise LoginRefused(f"vCenter at {address} refused the login of {user}", said=said,
                           hint=hint) from None  # fmt: skip
    try:
        yield session
    finally:
        connect.Disconnect(session)


def relocated(session: Any, vm: str, to: str, say: Say, *, deadline: float = 600.0) -> None:
    """Move a machine to a host; a task that is not done by the deadline is cancelled."""
    vim = importlib.import_module("pyVmomi").vim
    machine, host = _named(session, vim.VirtualMachine, vm), _named(session, vim.HostSystem, to)
    before = machine.runtime.host.name
    if before == to:
        raise BadInput(f"{vm} is on {to} already")
    spec = vim.vm.RelocateSpec(host=host, pool=host.parent.resourcePool)
    task = machine.RelocateVM_Task(spec, vim.VirtualMachine.MovePriority.highPriority)
    say(host=before, event="MIGRATION", status="setup", at=time.time(), by="controller")
    try:
        ended_well(task, say, before, deadline)
    except HostError as failed:
        now = machine.runtime.host.name
        raise HostError(f"{vm} was not moved to {to}, and is on {now}", said=str(failed)) from None
    if machine.runtime.host.name != to:
        raise HostError(f"the task has ended well, and {vm} is not on {to}")
    done = {"host": before, "at": time.time(), "by": "controller"}
    say(event="MIGRATION", status="completed", **done)


def ended_well(task: Any, say: Say, host: str, deadline: float) -> None:
    """Follow a task to its end, and raise if that is no success; one that is late is cancelled."""
    until = time.monotonic() + deadline
    while str(task.info.state) in ("queued", "running"):
        say(host=host, progress=task.info.progress or 0, by="controller")
        if time.monotonic() > until:
            _cancel(task)
            until = float("inf")
        time.sleep(EVERY)
    info = task.info
    if str(info.state) != "success":
        raise HostError(getattr(info.error, "msg", "") or type(info.error).__name__)


# One that cannot be cancelled any more is waited for: what becomes of it has to be known.
def _cancel(task: Any) -> None:
    faults = importlib.import_module("pyVmomi")
    with suppress(faults.vmodl.fault.NotSupported, faults.vim.fault.InvalidState):
        task.CancelTask()


def move(lab: Lab, asked: AskedMove, say: Say) -> None:
    """Move the machine of the role `guest`."""
    with _session(lab) as session:
        vm, to = _names(lab, asked)
        relocated(session, vm, to, say, deadline=asked.deadline)


def back(lab: Lab, asked: AskedMove) -> None:
    """Move it back, if it is there."""
    with _session(lab) as session:
        vim = importlib.import_module("pyVmomi").vim
        vm, to = _names(lab, asked)
        if _named(session, vim.VirtualMachine, vm).runtime.host.name == to:
            relocated(session, vm, lab.host(asked.origin).address, Say())


def refusal(lab: Lab, asked: AskedMove) -> str:
    """It takes pyVmomi here, and a guest that vCenter knows."""
    if importlib.util.find_spec("pyVmomi") is None:
        return "pyVmomi is missing here, to get it: pip install pyvmomi"
    if asked.origin not in lab.hosts or asked.guest not in lab.host(asked.origin).guests:
        return f"the lab has no guest {asked.guest} with a vm = on {asked.origin}"
    return ""


def _session(lab: Lab) -> Any:
    address = lab.host(ROLE).address
    return connected(address, USER, _kept_password(address))


def _kept_password(address: str) -> str:
    login, kept = f"{USER}@{address}", None
    if importlib.util.find_spec("keyring"):
        kept = importlib.import_module("keyring").get_password("labkit", login)
    if kept is None:
        raise LoginRefused(f"the keyring has no password of {login}",
                           hint=f"keep it with `keyring set labkit {login}`")  # fmt: skip
    return str(kept)


# vCenter calls a host by the name or address under which it was added: that of its test traffic.
def _names(lab: Lab, asked: AskedMove) -> tuple[str, str]:
    return lab.host(asked.origin).guests[asked.guest].vm, lab.host(asked.to).address


def _named(session: Any, kind: Any, name: str) -> Any:
    content = session.RetrieveContent()
    view = content.viewManager.CreateContainerView(content.rootFolder, [kind], True)
    try:
        found = {one.name: one for one in view.view}
    finally:
        view.Destroy()
    if name not in found:
        raise Unknown(f"{kind.__name__.rpartition('.')[2]} of vCenter", name, found)
    return found[name]
