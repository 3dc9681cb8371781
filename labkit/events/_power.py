"""Power of hosts of one's own: taken only from those that the lab file names, and given back.

The tables `[power.ROLE]` of a lab file and their keys are in `notebooks/docs/workloads.md`.
"""

import time
from collections.abc import Mapping

from labkit.errors import HostError
from labkit.host import Host
from labkit.lab import Lab

PROGRAMS = ("ipmitool", "ping", "virsh")

EVERY, SILENT_SECONDS = 0.2, 3.0
ALIVE = ("ping", "-n", "-q", "-c", "1", "-W", "1")
Words = tuple[str, ...]
Power = Mapping[str, str]


def _words(power: Power, action: str) -> Words:
    if power["by"] == "virsh":
        return ("virsh", {"off": "destroy", "on": "start"}[action], power["vm"])
    return ("ipmitool", "-I", "lanplus", "-H", power["board"], "-U", power["user"],
            "-f", power["password_file"], "chassis", "power", action)  # fmt: skip


def refusal(lab: Lab, role: str) -> str:
    """The reason why labkit takes no power from a host; empty if it may."""
    if role in lab.power:
        return ""
    return f"{lab.path} has no [power.{role}], and without it labkit takes no power from a host"


def off(lab: Lab, role: str) -> float:
    """Take its power; the moment of the command by our clock."""
    if why := refusal(lab, role):
        raise HostError(why)
    at = time.time()
    _tool(lab, role).check(*_words(lab.power[role], "off"), seconds=60)
    return at


def on(lab: Lab, role: str, deadline: float) -> None:
    """Give it back, and wait until the host answers again."""
    tool = _tool(lab, role)
    # Its cluster may have given it back: then libvirt says that it runs already.
    given = tool.run(*_words(lab.power[role], "on"), seconds=60)
    if not _answers(tool, lab.host(role).address, deadline):
        raise HostError(f"{role} did not answer within {deadline:g} s of having its power again",
                        said=given.stderr or given.stdout)  # fmt: skip


def has_power(lab: Lab, role: str) -> bool:
    """Whether a host whose power may be taken answers a ping."""
    return _answers(_tool(lab, role), lab.host(role).address, SILENT_SECONDS)


def _answers(by: Host, address: str, deadline: float) -> bool:
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        if by.run(*ALIVE, address).ok:
            return True
        time.sleep(EVERY)
    return False


def _tool(lab: Lab, role: str) -> Host:
    return lab.host(lab.power[role]["on"])
