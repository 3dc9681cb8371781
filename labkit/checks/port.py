"""Does an SSH server answer, at the host or at the first jump host on the way to it?"""

import socket
from collections.abc import Iterator

from labkit.check import FAILURE, OK, Check, Finding, Subject

SECONDS = 4.0


def _look(place: Subject) -> Iterator[Finding]:
    first = place.target
    while first.jump is not None:
        first = first.jump
    if first.proxy:
        yield Finding(OK, "a ProxyCommand leads there: the login shows whether it does")
        return
    text = f"{first.address} port {first.port}"
    try:
        with socket.create_connection((first.address, first.port), SECONDS) as connection:
            connection.settimeout(SECONDS)
            banner = connection.recv(256).decode("utf-8", "replace").strip()
    except OSError as error:
        yield Finding(FAILURE, f"{text}: no SSH server answers", str(error), _fix(place, error))
        return
    if "SSH-" not in banner:
        greeting = banner or "it closed the connection without a reply"
        yield Finding(FAILURE, f"{text} is no SSH server", greeting, _port(place))
        return
    line = next(line for line in banner.splitlines() if "SSH-" in line)
    yield Finding(OK, f"{text}: {line}")


def _fix(place: Subject, error: OSError) -> str:
    for role, server in place.lab.hosts.items():
        if place.role in server.guests and not isinstance(error, ConnectionRefusedError):
            machine = server.guests[place.role].vm
            return f"on {role}: virsh start {machine}   # if off; on ESXi: vim-cmd vmsvc/power.on"
    if isinstance(error, ConnectionRefusedError):
        return "on the host: systemctl enable --now ssh (on ESXi: Host > Actions > Services)"
    if isinstance(error, TimeoutError):
        return f"ping -c 3 {place.target.address}   # is it up, and does a firewall drop SSH?"
    return f"ip route get {place.target.address}"


def _port(place: Subject) -> str:
    return f"put the right port = ... into [hosts.{place.role}] of {place.lab.path}"


check = Check("an SSH server answers", _look, after="resolves", by_ssh=True)
