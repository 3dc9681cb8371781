"""The largest packet on the network that carries test traffic, and how many go as one."""

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way
from labkit.settings._device import NIC, nic, of_nic
from labkit.settings._fields import amount
from labkit.settings._ways import ROOT, OnHost, picked, script

PROGRAMS = ("esxcli", "ip")

SIZE = 'cat "/sys/class/net/$1/mtu"'

# One line: interface, its MTU, the virtual switch below it, and the switch's MTU.
SIZES = beside(__file__, "mtu_sizes.sh")
# The switch may at no moment have a smaller MTU than the interface on it.
RESIZE = SIZES + beside(__file__, "mtu_resized.sh")


class Mtu(OnHost):
    """The largest packet of the test interface, in bytes, the link's own header not counted.

    On ESXi the interface is a vmkernel one, and its virtual switch gets the same size.
    """

    size: int = amount("the MTU", 68, 65535, "bytes", default=9000)

    def on_linux(self, host: Host) -> Way:
        """`ip link`; a bridge takes the smallest size of its ports."""
        return of_nic(host, Way(
            script(SIZE, NIC),
            lambda value: (("ip", "link", "set", "dev", NIC, "mtu", value),),
            needs=ROOT, legal="68 to 65535 bytes, as the driver allows", cuts_management=True,
        ))  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """Interface and switch, the switch first when both grow."""
        vmk = nic(host, r"vmk\d+", "vmk1")
        return Way(
            script(f'{SIZES}sizes "$1"', vmk),
            lambda value: (script(RESIZE, vmk, *(value.split("/") * 2)[:2]),), _sizes,
            lambda text: "" if 1280 <= self.size <= 9000 else "1280 to 9000 bytes",
            needs=ROOT, legal="1280 to 9000 bytes", persists=True, cuts_management=True,
        )  # fmt: skip


class PacketsAtOnce(OnHost):
    """The most packets that TCP hands to the test interface as one piece, to be cut there.

    A queue that takes turns counts such a piece as one: to divide by small shares it takes 1.
    """

    packets: int = amount("packets at once", 1, 65535, "packets", default=65535)

    def on_linux(self, host: Host) -> Way:
        """`ip link`; a connection that is open keeps what it began with."""
        return of_nic(host, Way(
            picked(r"s/.* gso_max_segs \([0-9]*\).*/\1/p", "ip", "-d", "link", "show", "dev", NIC),
            lambda value: (("ip", "link", "set", "dev", NIC, "gso_max_segs", value),),
            needs=ROOT,
        ))  # fmt: skip


def _sizes(text: str) -> str:
    _, size, _, below = text.split()
    return size if size == below else f"{size}/{below}"
