"""The memory that TCP may use for a connection, and the way TCP finds its rate."""

from dataclasses import replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.settings._fields import amount, pattern, word
from labkit.settings._ways import OnHost, by, of_sysctl, script, switched

PROGRAMS = ("modprobe",)

WAYS = {"receive": "rmem", "send": "wmem"}
MOST_BYTES = 2**31 - 1
# Those that are there, and those that the kernel would load when asked for.
ALGORITHM = """\
known=$(cat /proc/sys/net/ipv4/tcp_available_congestion_control) || exit
case " $known " in *" $1 "*) exit 0 ;; esac
modprobe -n -q "tcp_$1" 2>/dev/null || { echo "no $1 here; known: $known" >&2; exit 1; }"""
IN_THE_GUEST = {"esxi": "TCP of a guest is set in the guest"}


class SocketBuffers(OnHost):
    """Bytes that TCP keeps for a connection: at least, at first and at most.

    `data` is `receive` or `send`. It holds for connections that are opened afterwards.
    """

    data: str = word("way of the data", tuple(WAYS), which=True)
    least: int = amount("socket buffers: least", 1, MOST_BYTES, "bytes")
    first: int = amount("socket buffers: first", 1, MOST_BYTES, "bytes")
    most: int = amount("socket buffers: most", 1, MOST_BYTES, "bytes")
    gaps: ClassVar = IN_THE_GUEST
    on_linux = by(lambda s: of_sysctl(f"net.ipv4.tcp_{WAYS[s.data]}"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.least <= self.first <= self.most:
            raise BadInput("socket buffers: least, first and most must be in that order")


class CongestionControl(OnHost):
    """The algorithm that finds TCP's rate: cubic, bbr, reno, ... as the kernel has them.

    It holds for connections that are opened afterwards.
    """

    algorithm: str = pattern("congestion control", r"[a-z][a-z0-9_]{1,14}", "cubic")
    gaps: ClassVar = IN_THE_GUEST
    on_linux = by(lambda s: replace(
        of_sysctl("net.ipv4.tcp_congestion_control"), probe=script(ALGORITHM, s.algorithm)
    ))  # fmt: skip


class WindowScaling(OnHost):
    """Whether TCP may use windows of more than 64 KiB; off, a long link stays mostly empty."""

    scaling: bool = True
    on_linux = by(switched(of_sysctl("net.ipv4.tcp_window_scaling")))


class Sysctl(OnHost):
    """Any other sysctl by its key, with the value as `sysctl` prints it."""

    key: str = pattern(
        "sysctl", r"[a-z][a-z0-9_]*(\.[a-zA-Z0-9_-]+){1,6}", "net.core.somaxconn", which=True
    )
    value: str = pattern("value of a sysctl", r"-?\d+|\w+([ ,.-]\w+)*", "4096")
    on_linux = by(lambda s: of_sysctl(s.key))
