"""Two hosts of a study: does test traffic get from one to the other, whole, and to each port?"""

import re
from collections.abc import Iterator

from labkit.check import FAILURE, OK, WARNING, Finding, Subject, check
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.workloads._server import PORTS as SERVERS

PROGRAMS = ("bash", "ip", "nc", "ping", "python3")

LINUX = ("linux",)
NETWORK = "cat /proc/sys/kernel/random/boot_id && readlink /proc/self/ns/net"
HEADERS = 28  # of IPv4 and ICMP
MTU = 'cat "/sys/class/net/$1/mtu"'
# The first and the last that a server of ours may get, and one that Linux itself gives.
PORTS = {
    SERVERS[0]: "servers of netperf and sockperf", SERVERS[-1]: "the same",
    40404: "data of netperf",
}  # fmt: skip
# What shows a closed port from a silent one: any of these, as the client has them.
TRY = beside(__file__, "pairs_ports.sh")
ANSWERS = ("open", "refused")


@check("test traffic gets there", after="interface", about="pair", kinds=LINUX)
def path(place: Subject) -> Iterator[Finding]:
    """Does test traffic reach the other host, and by the interface that the lab names?"""
    client, role = place.host, place.roles[1]
    peer = place.lab.host(role)
    if not place.lab.emulated and _network(client) == _network(peer) != "":
        fix = f"put another machine into [hosts.{role}] of {place.lab.path}"
        yield Finding(FAILURE, "both are one machine, so test traffic never leaves it", fix=fix)
        return
    result = client.run("ping", "-c", "3", "-i", "0.2", "-W", "2", peer.address, seconds=12)
    if not result.ok:
        match = re.search(r"\d+% packet loss", result.stdout)
        yield Finding(
            FAILURE, f"no answer from {peer.address} ({match[0] if match else 'ping failed'})",
            result.stderr or result.stdout,
            f"on {place.role}: ip route get {peer.address}; on {role}: ip addr",
        )  # fmt: skip
        return
    times = re.search(r"= [\d.]+/([\d.]+)/", result.stdout)
    yield Finding(OK, f"{peer.address} answers" + (f" in {times[1]} ms" if times else ""))
    yield from _route(client, peer.address)


# Hosts of one kernel are two where each has a network of its own.
def _network(host: Host) -> str:
    return host.run("sh", "-c", NETWORK, seconds=10).stdout.strip()


def _route(host: Host, address: str) -> Iterator[Finding]:
    text = host.run("ip", "route", "get", address, seconds=10).stdout
    by, via = re.search(r"\bdev (\S+)", text), re.search(r"\bvia (\S+)", text)
    if host.interface and by and by[1] not in (host.interface, "lo"):
        problem = f"test traffic leaves by {by[1]}, not by {host.interface}"
        fix = f"ip route replace {address} dev {host.interface}"
        yield Finding(WARNING, problem, text, fix)
    if via:
        problem = f"test traffic goes through the router {via[1]}, which is measured too"
        fix = "give both hosts addresses in one subnet of their own link"
        yield Finding(WARNING, problem, text, fix)


@check("full packets get there whole", after="path", about="pair", kinds=LINUX)
def packet(place: Subject) -> Iterator[Finding]:
    """Do packets of the interface's full size get to the other host in one piece?"""
    client, peer = place.host, place.lab.host(place.roles[1])
    if not client.interface or ":" in peer.address:
        return
    mtu = int(place.shown(MTU, client.interface))
    size = str(min(mtu, 65535) - HEADERS)
    words = ("-c", "1", "-W", "2", "-M", "do", "-s", size, peer.address)
    result = client.run("ping", *words, seconds=8)
    if result.ok:
        yield Finding(OK, f"{mtu} bytes in one piece")
        return
    yield Finding(
        WARNING, f"packets of {mtu} bytes, the MTU of {client.interface}, do not get through whole",
        result.stderr or result.stdout,
        f"ip link set {client.interface} mtu 1500   # or the same on both, and on the switch",
    )  # fmt: skip


@check("ports of the workloads are open", after="path", about="pair", kinds=LINUX)
def ports(place: Subject) -> Iterator[Finding]:
    """Can the client reach the ports that servers of the workloads will listen on?

    Nothing is started for it: a host that says "refused" was reached, a firewall is mostly silent
    or says "no route". A firewall that answers as a closed port does cannot be distinguished from
    one.
    """
    role = place.roles[1]
    text = place.shown(TRY, place.lab.host(role).address, *map(str, PORTS))
    answers = {line.split()[0]: line.partition(" ")[2] for line in text.splitlines() if line}
    bars = {p: a for p, a in answers.items() if not any(word in a.lower() for word in ANSWERS)}
    if not bars:
        yield Finding(OK, f"TCP {', '.join(map(str, PORTS))}")
        return
    names = ", ".join(f"{port} ({PORTS[int(port)]})" for port in bars)
    problem, answer = f"{role} cannot be reached at TCP {names}", next(iter(bars.values()))
    fix = f"on {role}: iptables -I INPUT -s {place.host.address} -j ACCEPT"
    yield Finding(WARNING, problem, answer, fix)
