"""The memory that TCP may use for a connection, and the way TCP finds its rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._ways import OnHost, matching, of_sysctl, on_or_off, one_of, script, whole

PROGRAMS = ("modprobe",)

WAYS = {"receive": "rmem", "send": "wmem"}
MOST = 2**31 - 1


@dataclass(frozen=True)
class SocketBuffers(OnHost):
    """Bytes that TCP keeps for a connection: at least, at first and at most.

    `data` is `receive` or `send`. It holds for connections that are opened afterwards.
    """

    data: str
    least: int
    first: int
    most: int

    elsewhere: ClassVar = {"esxi": "TCP of a guest is set in the guest"}

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("way of the data", self.data, tuple(WAYS))
        for what in ("least", "first", "most"):
            whole(f"socket buffers: {what}", getattr(self, what), 1, MOST, "bytes")
        if not self.least <= self.first <= self.most:
            raise BadInput("socket buffers: least, first and most must be in that order")

    @property
    def which(self) -> str:
        """Receive or send."""
        return self.data

    @property
    def wanted(self) -> str:
        """Three numbers of bytes."""
        return f"{self.least} {self.first} {self.most}"

    def on_linux(self, host: Host) -> Way:
        """`tcp_rmem` or `tcp_wmem`: each network namespace has its own."""
        return of_sysctl(f"net.ipv4.tcp_{WAYS[self.data]}")


# Those that are there, and those that the kernel would load when asked for.
ALGORITHM = """\
known=$(cat /proc/sys/net/ipv4/tcp_available_congestion_control) || exit
case " $known " in *" $1 "*) exit 0 ;; esac
modprobe -n -q "tcp_$1" 2>/dev/null || { echo "no $1 here; known: $known" >&2; exit 1; }"""


@dataclass(frozen=True)
class CongestionControl(OnHost):
    """The algorithm that finds TCP's rate: cubic, bbr, reno, ... as the kernel has them."""

    algorithm: str

    elsewhere: ClassVar = {"esxi": "TCP of a guest is set in the guest"}

    def __post_init__(self) -> None:
        super().__post_init__()
        matching("congestion control", self.algorithm, r"[a-z][a-z0-9_]{1,14}", "cubic")

    @property
    def wanted(self) -> str:
        """The algorithm."""
        return self.algorithm

    def on_linux(self, host: Host) -> Way:
        """For connections that are opened afterwards."""
        way = of_sysctl("net.ipv4.tcp_congestion_control")
        return way.plus(Details(probe=script(ALGORITHM, self.algorithm)))


@dataclass(frozen=True)
class WindowScaling(OnHost):
    """Whether TCP may use windows of more than 64 KiB; off, a long link stays mostly empty."""

    scaling: bool = True

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.scaling)

    def on_linux(self, host: Host) -> Way:
        """For connections that are opened afterwards."""
        way = of_sysctl("net.ipv4.tcp_window_scaling")
        return replace(
            way,
            value=lambda text: on_or_off(text.strip() == "1"),
            writes=lambda value: way.writes("1" if value == "on" else "0"),
        )


@dataclass(frozen=True)
class Sysctl(OnHost):
    """Any other sysctl by its key, with the value as `sysctl` prints it."""

    key: str
    value: str

    def __post_init__(self) -> None:
        super().__post_init__()
        matching(
            "sysctl", self.key, r"[a-z][a-z0-9_]*(\.[a-zA-Z0-9_-]+){1,6}", "net.core.somaxconn"
        )
        matching("value of a sysctl", self.value, r"-?\d+|\w+([ ,.-]\w+)*", "4096")

    @property
    def which(self) -> str:
        """The key."""
        return self.key

    @property
    def wanted(self) -> str:
        """The value."""
        return self.value

    def on_linux(self, host: Host) -> Way:
        """Sysctls of `net` belong to a network namespace, all others to the machine."""
        return of_sysctl(self.key)
