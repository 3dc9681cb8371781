"""Power of hosts of one's own: taken only from those that the lab file names, and given back.

The tables `[power.ROLE]` of a lab file and their keys are in `notebooks/docs/workloads.md`.
"""

import time
from collections.abc import Callable, Mapping

from labkit.errors import HostError
from labkit.host import Host
from labkit.lab import Lab

PROGRAMS = ("esxcli", "ipmitool", "ping", "virsh")

REASON = "labkit: host_failure"
LEAST_DELAY = 10
"""Seconds; ESXi takes no shorter one."""
EVERY, SILENT_SECONDS = 0.2, 3.0
ALIVE = ("ping", "-n", "-q", "-c", "1", "-W", "1")
Words = tuple[str, ...]
Power = Mapping[str, str]


def _ipmi(power: Power, action: str) -> Words:
    return ("ipmitool", "-I", "lanplus", "-H", power["board"], "-U", power["user"],
            "-f", power["password_file"], "chassis", "power", action)  # fmt: skip


# ESXi ends its services; it takes this in maintenance mode only, and nothing switches it on again.
OFF: Mapping[str, Callable[[Power], Words]] = {
    "ipmi": lambda power: _ipmi(power, "off"),
    "virsh": lambda power: ("virsh", "destroy", power["vm"]),
    "esxcli": lambda power: ("esxcli", "system", "shutdown", "poweroff", "-d", str(LEAST_DELAY),
                             "-r", REASON),
}  # fmt: skip
ON: Mapping[str, Callable[[Power], Words]] = {
    "ipmi": lambda power: _ipmi(power, "on"),
    "virsh": lambda power: ("virsh", "start", power["vm"]),
}


def refusal(lab: Lab, role: str) -> str:
    """The reason why labkit takes no power from a host; empty if it may."""
    if role in lab.power:
        return ""
    return f"{lab.path} has no [power.{role}], and without it labkit takes no power from a host"


def off(lab: Lab, role: str) -> float:
    """Take its power; the moment of the command by our clock."""
    if why := refusal(lab, role):
        raise HostError(why)
    power = lab.power[role]
    at = time.time()
    _tool(lab, role).check(*OFF[power["by"]](power), seconds=60)
    return at


def on(lab: Lab, role: str, deadline: float) -> None:
    """Give it back, and wait until the host answers again."""
    power = lab.power[role]
    if power["by"] not in ON:
        raise HostError(f"nothing switches {role} on again after {power['by']}",
                        hint="switch it on by hand, then `labkit doctor --lab`")  # fmt: skip
    tool = _tool(lab, role)
    # Its cluster may have given it back: then libvirt says that it runs already.
    given = tool.run(*ON[power["by"]](power), seconds=60)
    if not answers(tool, lab.host(role).address, deadline):
        raise HostError(f"{role} did not answer within {deadline:g} s of having its power again",
                        said=given.stderr or given.stdout)  # fmt: skip


def has_power(lab: Lab, role: str) -> bool:
    """Whether a host whose power may be taken answers a ping."""
    return bool(answers(_tool(lab, role), lab.host(role).address, SILENT_SECONDS))


def answers(by: Host, address: str, deadline: float, wanted: bool = True) -> float:
    """The moment by our clock when an address answered a ping, or did not; 0 if never."""
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        if by.run(*ALIVE, address).ok == wanted:
            return time.time()
        time.sleep(EVERY)
    return 0.0


def _tool(lab: Lab, role: str) -> Host:
    power = lab.power[role]
    return lab.host(role if power["by"] == "esxcli" else power["on"])
