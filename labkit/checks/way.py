"""The way to a host by SSH: its address, server and key, our login, and whose machine it is."""

import socket
from collections.abc import Iterator

from labkit.check import COMMAND_SECONDS, FAILURE, OK, WARNING, Finding, Subject, check
from labkit.errors import HostKeyRefused, LoginRefused
from labkit.ssh import trust
from labkit.ssh.address import Address, Target
from labkit.ssh.certificates import fingerprint, kind_of
from labkit.ssh.connection import shaken_hands
from labkit.ssh.known_hosts import KnownHosts
from labkit.ssh.way import addresses

BANNER_SECONDS = 4.0


# What is connected to first: the host, or the first jump host on the way to it.
def _first(target: Target) -> Target:
    return target if target.jump is None else _first(target.jump)


@check("the control address resolves", by_ssh=True)
def resolves(place: Subject) -> Iterator[Finding]:
    """Does the control address of a host mean an address?"""
    target, first = place.target, _first(place.target)
    if first.proxy:
        yield Finding(OK, f"{target}, through `{first.proxy}`")
        return
    try:
        answers = addresses(first.address, first.port, socket.AF_UNSPEC, first.seconds)
    except (OSError, UnicodeError) as error:
        problem = f"{first.address!r} does not resolve to an address"
        fix = f'put the right control = "..." into {place.table}'
        yield Finding(FAILURE, problem, str(error), fix)
        return
    shown = ", ".join(dict.fromkeys(str(answer[4][0]) for answer in answers))
    way = "" if first is target else f", through {first.address}"
    yield Finding(OK, f"{target}{way}: {shown}")


@check("an SSH server answers", after="resolves", by_ssh=True)
def port(place: Subject) -> Iterator[Finding]:
    """Does an SSH server answer, at the host or at the first jump host on the way to it?"""
    first = _first(place.target)
    if first.proxy:
        yield Finding(OK, "a ProxyCommand leads there: the login shows whether it does")
        return
    text = f"{first.address} port {first.port}"
    try:
        with socket.create_connection((first.address, first.port), BANNER_SECONDS) as connection:
            connection.settimeout(BANNER_SECONDS)
            banner = connection.recv(256).decode("utf-8", "replace").strip()
    except OSError as error:
        fix = _mend_port(place, error)
        yield Finding(FAILURE, f"{text}: no SSH server answers", str(error), fix)
        return
    if "SSH-" in banner:
        line = next(line for line in banner.splitlines() if "SSH-" in line)
        yield Finding(OK, f"{text}: {line}")
    else:
        greeting = banner or "it closed the connection without a reply"
        fix = f"put the right port = ... into {place.table}"
        yield Finding(FAILURE, f"{text} is no SSH server", greeting, fix)


def _mend_port(place: Subject, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "on the host: systemctl enable --now ssh (on ESXi: Host > Actions > Services)"
    for role, server in place.lab.hosts.items():
        if place.role in server.guests:
            machine = server.guests[place.role].vm
            return f"on {role}: virsh start {machine}   # if off; on ESXi: vim-cmd vmsvc/power.on"
    if isinstance(error, TimeoutError):
        return f"ping -c 3 {place.target.address}   # is it up, and does a firewall drop SSH?"
    return f"ip route get {place.target.address}"


@check("the host's key is known", after="port", by_ssh=True)
def key(place: Subject) -> Iterator[Finding]:
    """Is the host's key the one that we know? Nobody logs in for this, but at jump hosts."""
    target = place.target
    known_hosts = KnownHosts.read(target.known_hosts)
    try:
        client = shaken_hands(target, known_hosts.algorithms(target.known_as))
        try:
            known_hosts.verify(target.name, target.known_as, client.shown, target.trust)
        finally:
            client.close()
    except HostKeyRefused as error:
        # Of a jump host too: then the command is for that one.
        yield Finding(FAILURE, error.what, error.said, error.command or error.hint)
        return
    yield Finding(OK, f"{kind_of(client.shown)} {fingerprint(client.shown)} is known")


@check("the host accepts our key", after="key")
def login(place: Subject) -> Iterator[Finding]:
    """Does the host let us in, and does it run a command?"""
    try:
        place.host.check("true", seconds=COMMAND_SECONDS)
    except LoginRefused as error:
        fix = f"{_copy_id(place.target)}   # or the right user = ... in {place.table}"
        yield Finding(FAILURE, error.what, error.said or error.hint, fix)
        return
    if place.here:
        yield Finding(OK, "it is this machine: commands run here, without SSH")
        return
    took = 1000 * place.host.round_trip()
    at = place.host.transport.reached_at
    address = f" at {at}" if at != place.target.address else ""
    yield Finding(OK, f"{place.target.user} may log in{address}; {took:.1f} ms there and back")


def _copy_id(target: Target) -> str:
    words = ["ssh-copy-id"]
    if target.identities and target.only:
        words += ["-i", target.identities[0]]
    if target.jump is not None:
        words += ["-o", f"ProxyJump={target.jump.user}@{target.jump.address}:{target.jump.port}"]
    return " ".join([*words, "-p", str(target.port), f"{target.user}@{target.address}"])


@check("it is the machine that was trusted", after="login", by_ssh=True)
def machine(place: Subject) -> Iterator[Finding]:
    """Is it the machine that was trusted, and not a clone with the same key?"""
    if place.lab.emulated:  # hosts of a box are new each time, and so are their keys
        return
    at = getattr(place.host.transport, "at")  # noqa: B009
    assert isinstance(at, Address)
    name = place.target.known_as.first
    pins_of_host = [pin for _, pin in trust.pins_of(at, name)]
    if not pins_of_host:
        text = "the machine's identity is not recorded, so a clone would go unnoticed"
        yield Finding(WARNING, text, fix=place.labkit("trust", place.role))
        return
    trust.check_pin(place.host)
    yield Finding(OK, f"{pins_of_host[-1].machine}, host name {pins_of_host[-1].hostname}")
