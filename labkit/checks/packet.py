"""Do packets of the interface's full size get to the other host in one piece?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

PROGRAMS = ("ping",)

HEADERS = 28  # of IPv4 and ICMP
MTU = 'cat "/sys/class/net/$1/mtu"'


def _look(place: Subject) -> Iterator[Finding]:
    client, other = place.host, place.lab.host(place.roles[1])
    if not client.interface or ":" in other.address:
        return
    mtu = int(place.shown(MTU, client.interface))
    size = str(min(mtu, 65535) - HEADERS)
    sent = client.run(
        "ping", "-c", "1", "-W", "2", "-M", "do", "-s", size, other.address, seconds=8
    )
    if sent.ok:
        yield Finding(OK, f"{mtu} bytes in one piece")
        return
    yield Finding(
        WARNING, f"packets of {mtu} bytes, the MTU of {client.interface}, do not get through whole",
        sent.stderr or sent.stdout,
        f"ip link set {client.interface} mtu 1500   # or the same on both, and on the switch",
    )  # fmt: skip


check = Check("full packets get there whole", _look, after="path", about="pair", kinds=("linux",))
