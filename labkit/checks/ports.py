"""Can the client reach the ports that servers of the workloads will listen on?

Nothing is started for it: a host that says "refused" was reached, a firewall is mostly silent or
says "no route". A firewall that answers as a closed port does cannot be distinguished from one.
"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject
from labkit.machine.scripts import beside
from labkit.workloads._server import PORTS as SERVERS

PROGRAMS = ("bash", "nc", "python3")

# The first and the last that a server of ours may get, and one that Linux itself gives.
PORTS = {
    SERVERS[0]: "servers of netperf and sockperf", SERVERS[-1]: "the same",
    40404: "data of netperf",
}  # fmt: skip
# What shows a closed port from a silent one: any of these, as the client has them.
TRY = beside(__file__, "ports_try.sh")
ANSWERS = ("open", "refused")


def _look(place: Subject) -> Iterator[Finding]:
    peer = place.lab.host(place.roles[1])
    text = place.shown(TRY, peer.address, *map(str, PORTS))
    answers = {line.split()[0]: line.partition(" ")[2] for line in text.splitlines() if line}
    bars = {p: a for p, a in answers.items() if not any(word in a.lower() for word in ANSWERS)}
    if not bars:
        yield Finding(OK, f"TCP {', '.join(map(str, PORTS))}")
        return
    names = ", ".join(f"{port} ({PORTS[int(port)]})" for port in bars)
    yield Finding(
        WARNING, f"{place.roles[1]} cannot be reached at TCP {names}", next(iter(bars.values())),
        f"on {place.roles[1]}: iptables -I INPUT -s {place.host.address} -j ACCEPT",
    )  # fmt: skip


check = Check("ports of the workloads are open", _look, "path", about="pair", kinds=("linux",))
