"""Does test traffic reach the other host, and by the interface that the lab names?"""

import re
from collections.abc import Iterator

from labkit.check import FAILURE, OK, WARNING, Check, Finding, Subject
from labkit.host import Host

PROGRAMS = ("ip", "ping")
NETWORK = "cat /proc/sys/kernel/random/boot_id && readlink /proc/self/ns/net"


def _look(place: Subject) -> Iterator[Finding]:
    client, peer = place.host, place.lab.host(place.roles[1])
    if not place.lab.emulated and _network(client) == _network(peer) != "":
        yield Finding(
            FAILURE, "both are one machine, so test traffic never leaves it",
            fix=f"put another machine into [hosts.{place.roles[1]}] of {place.lab.path}",
        )  # fmt: skip
        return
    result = client.run("ping", "-c", "3", "-i", "0.2", "-W", "2", peer.address, seconds=12)
    if not result.ok:
        match = re.search(r"\d+% packet loss", result.stdout)
        yield Finding(
            FAILURE, f"no answer from {peer.address} ({match[0] if match else 'ping failed'})",
            result.stderr or result.stdout,
            f"on {place.role}: ip route get {peer.address}; on {place.roles[1]}: ip addr",
        )  # fmt: skip
        return
    times = re.search(r"= [\d.]+/([\d.]+)/", result.stdout)
    yield Finding(OK, f"{peer.address} answers" + (f" in {times[1]} ms" if times else ""))
    yield from _route(place, peer.address)


# Hosts of one kernel are two where each has a network of its own.
def _network(host: Host) -> str:
    return host.run("sh", "-c", NETWORK, seconds=10).stdout.strip()


def _route(place: Subject, address: str) -> Iterator[Finding]:
    host, text = place.host, place.host.run("ip", "route", "get", address, seconds=10).stdout
    by, via = re.search(r"\bdev (\S+)", text), re.search(r"\bvia (\S+)", text)
    if host.interface and by and by[1] not in (host.interface, "lo"):
        yield Finding(
            WARNING, f"test traffic leaves by {by[1]}, not by {host.interface}", text,
            f"ip route replace {address} dev {host.interface}",
        )  # fmt: skip
    if via:
        yield Finding(
            WARNING, f"test traffic goes through the router {via[1]}, which is measured too", text,
            "give both hosts addresses in one subnet of their own link",
        )  # fmt: skip


check = Check("test traffic gets there", _look, after="interface", about="pair", kinds=("linux",))
