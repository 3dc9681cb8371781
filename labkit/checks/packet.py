"""Do packets of the interface's full size get to the other host in one piece?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

PROGRAMS = ("ping",)

HEADERS = 28  # of IPv4 and ICMP
MTU = 'cat "/sys/class/net/$1/mtu"'


def _look(place: Subject) -> Iterator[Finding]:
    client, peer = place.host, place.lab.host(place.roles[1])
    if not client.interface or ":" in peer.address:
        return
    mtu = int(place.shown(MTU, client.interface))
    size = str(min(mtu, 65535) - HEADERS)
    result = client.run(
        "ping", "-c", "1", "-W", "2", "-M", "do", "-s", size, peer.address, seconds=8
    )
    if result.ok:
        yield Finding(OK, f"{mtu} bytes in one piece")
        return
    yield Finding(
        WARNING, f"packets of {mtu} bytes, the MTU of {client.interface}, do not get through whole",
        result.stderr or result.stdout,
        f"ip link set {client.interface} mtu 1500   # or the same on both, and on the switch",
    )  # fmt: skip


check = Check("full packets get there whole", _look, after="path", about="pair", kinds=("linux",))
