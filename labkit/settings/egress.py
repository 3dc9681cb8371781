"""Traffic that leaves a NIC, and its timing: rate, delay, and shares of the link by kind."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._device import NIC, nic, of_nic
from labkit.settings._fields import amount, share, whole
from labkit.settings._ways import ROOT, OnHost, script

PROGRAMS = ("tc", "unshare")

HANDLE = "1ab:"
DEFAULT = "the kernel's default"
# What counts is left out: packets, and who looks at the queue.
SHOW = """\
said=$(tc -j qdisc show dev "$1") || exit
printf '%s\\n' "$said" | sed 's/"refcnt":[0-9]*,//g; s/"direct_packets_stat":[0-9]*,//g'
tc -d class show dev "$1"; tc filter show dev "$1\""""
# Queues of ours have the handle 1ab: and go before new ones come; each word is one tc command.
MAKE = """\
dev=$1; shift
case $(tc qdisc show dev "$dev") in *' 1ab: root '*) tc qdisc del dev "$dev" root || exit ;; esac
for words; do tc ${words%% *} add dev "$dev" ${words#* } || exit; done"""
TRIAL = """\
! unshare -n true 2>/dev/null || unshare -n tc qdisc add dev lo root "$@\""""


class OnEgress(OnHost, ABC):
    """A setting of the root queue of the test interface, which there is only one of."""

    gaps: ClassVar = {
        "esxi": "NetIOC and traffic shaping are of the distributed switch, which vCenter keeps",
    }  # fmt: skip

    @property
    def thing(self) -> str:
        """The same for all settings of the root queue, so that one replaces the other."""
        return f"egress of {self.role}"

    def on_linux(self, host: Host) -> Way:
        """Queues of ours have the handle 1ab:; those of anybody else are left alone."""
        conflict = f"{nic(host)} of {host.name} has queues already"
        return of_nic(host, Way(
            script(SHOW, NIC), lambda value: (script(MAKE, NIC, *_tree(value)),), _value,
            lambda text: conflict if _foreign(text) else "",
            needs=ROOT,
            # Only trying shows what kinds of queue the kernel has; it ends with its namespace.
            probe=script(TRIAL, *self._tried), cuts_management=True,
        ))  # fmt: skip

    @property
    @abstractmethod
    def _tried(self) -> Words: ...


class Link(OnEgress):
    """A slower or longer link, by what leaves the test interface; a round trip has two ends.

    `rate_mbit` in 10^6 bits per second, 0 for as fast as it goes; `delay_ms` one way.
    """

    rate_mbit: float = share("the rate", 0, 400_000, "Mbit/s")
    delay_ms: float = share("the delay", 0, 10_000, "ms", default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rate_mbit and not self.delay_ms:
            raise BadInput("neither rate nor delay of the link is named")

    @property
    def wanted(self) -> str:
        """Rate and delay, each with its unit."""
        return _link(self.rate_mbit, self.delay_ms)

    @property
    def _tried(self) -> Words:
        if self.delay_ms:
            return ("netem", "delay", "1ms")
        return ("tbf", "rate", "1mbit", "burst", "32kb", "latency", "50ms")


@dataclass(frozen=True)
class Traffic:
    """One kind of traffic, known by the port it goes to: shares 1 to 100, rates in Mbit/s."""

    port: int
    shares: int = 50
    reservation_mbit: int = 0
    limit_mbit: int = 0

    def __post_init__(self) -> None:
        whole("the port", self.port, 1, 65535)
        whole("shares", self.shares, 1, 100)
        whole("the reservation", self.reservation_mbit, 0, 400_000, "Mbit/s")
        whole("the limit", self.limit_mbit, 0, 400_000, "Mbit/s")
        if 0 < self.limit_mbit < self.reservation_mbit:
            raise BadInput(f"port {self.port} may not have less than is reserved for it")


class NetIoControl(OnEgress):
    """Shares, reservations and limits for what leaves the test interface, as NetIOC has them.

    Spare bandwidth is divided by shares. As in vSphere, three quarters of the link can be reserved.
    """

    link_mbit: int = amount("the link's rate", 1, 400_000, "Mbit/s")
    traffic: tuple[Traffic, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        ports = [traffic.port for traffic in self.traffic]
        if not ports or len(set(ports)) < len(ports):
            raise BadInput("NetIoControl needs some kinds of traffic, each port once")
        if sum(traffic.reservation_mbit for traffic in self.traffic) > 0.75 * self.link_mbit:
            raise BadInput(f"at most 75 % of {self.link_mbit} Mbit/s can be reserved")

    @property
    def wanted(self) -> str:
        """The link's rate, then each kind of traffic."""
        kinds = [
            f"port {traffic.port}: {traffic.shares} shares, {traffic.reservation_mbit or 1} to "
            f"{traffic.limit_mbit or self.link_mbit} Mbit/s"
            for traffic in sorted(self.traffic, key=lambda traffic: traffic.port)
        ]
        return "; ".join([f"link {self.link_mbit} Mbit/s", *kinds])

    @property
    def _tried(self) -> Words:
        return ("htb",)


# --- between tc's words and ours --------------------------------------------------------------

KIND = re.compile(r"port (\d+): (\d+) shares, (\d+) to (\d+) Mbit/s")
CLASS = re.compile(r"class htb 1ab:(\w+) (?:root|parent \S+).*? rate (\S+) ceil (\S+)")
QUANTUM = re.compile(r" quantum (\d+)")
PORT = re.compile(r"flowid 1ab:(\w+).*\n\s*match 0000([0-9a-f]{4})/0000ffff at 20")
UNITS = {"bit": 1e-6, "Kbit": 1e-3, "Mbit": 1.0, "Gbit": 1e3, "Tbit": 1e6}
# A share is worth a packet of 1514 bytes, and a queue's turn must hold one at least.
SHARE_BYTES = 1514


def _queues(text: str) -> list[dict[str, Any]]:
    queues: list[dict[str, Any]] = json.loads(text.partition("\n")[0])
    return queues


# The kernel's own queues have the handle 0:.
def _foreign(text: str) -> bool:
    return any(queue["handle"] not in ("0:", HANDLE) for queue in _queues(text))


def _value(text: str) -> str:
    root = next((queue for queue in _queues(text) if queue.get("handle") == HANDLE), None)
    if root is None:
        return "somebody else's" if _foreign(text) else DEFAULT
    options = root["options"]
    if root["kind"] == "htb":
        return _describe_shares(text)
    delay = options.get("delay", {}).get("delay", 0) * 1000
    rate = (options["rate"]["rate"] if root["kind"] == "netem" and "rate" in options
            else options.get("rate", 0)) * 8e-6  # fmt: skip
    return _link(rate, delay)


def _link(rate: float, delay: float) -> str:
    parts = (f"{rate:g} Mbit/s" if rate else "", f"{delay:g} ms" if delay else "")
    return ", ".join(filter(None, parts))


def _describe_shares(text: str) -> str:
    classes = {number: (line, rate, ceil) for line in text.splitlines()
               for number, rate, ceil in CLASS.findall(line)}  # fmt: skip
    ports = sorted((int(port, 16), number) for number, port in PORT.findall(text))
    kinds = [f"link {_mbit(classes['1'][1])} Mbit/s"]
    for port, (line, rate, ceil) in ((p, classes[n]) for p, n in ports if n in classes):
        quantum = QUANTUM.search(line)
        shares = int(quantum[1]) // SHARE_BYTES if quantum else 0
        kinds.append(f"port {port}: {shares} shares, {_mbit(rate)} to {_mbit(ceil)} Mbit/s")
    return "; ".join(kinds)


def _mbit(text: str) -> str:
    match = re.fullmatch(r"([\d.]+)(\w+)", text)
    return f"{float(match[1]) * UNITS[match[2]]:g}" if match else text


# The tc commands that make what a value says, each as one word.
def _tree(value: str) -> Iterable[str]:
    if value == DEFAULT:
        return ()
    if value.startswith("link "):
        return _classes(value)
    numbers = {unit: float(n) for n, unit in re.findall(r"([\d.e+]+) (Mbit/s|ms)", value)}
    bits, delay = numbers.get("Mbit/s", 0) * 1e6, numbers.get("ms", 0)
    root = "qdisc root handle 1ab:"
    if not delay:
        # What may go at once is 4 ms of the rate: less cannot be kept up by slow timers.
        return (
            f"{root} tbf rate {bits:.0f}bit burst {max(bits * 0.004 / 8, 32_768):.0f} latency 50ms",
        )
    # What is under way must fit: packets of 1500 bytes, twice what the delay holds.
    limit = max(1000, int(2 * delay / 1000 * (bits or 10e9) / 8 / 1500))
    rate = f" rate {bits:.0f}bit" if bits else ""
    return (f"{root} netem limit {limit} delay {delay * 1000:.0f}us{rate}",)


def _classes(value: str) -> Iterable[str]:
    link = value.split()[1]
    yield "qdisc root handle 1ab: htb default ffff"
    yield f"class parent 1ab: classid 1ab:1 htb rate {link}mbit ceil {link}mbit quantum 60000"
    for n, (port, shares, low, high) in enumerate(KIND.findall(value), 16):
        turn = int(shares) * SHARE_BYTES
        yield (f"class parent 1ab:1 classid 1ab:{n:x} "
               f"htb rate {low}mbit ceil {high}mbit quantum {turn}")  # fmt: skip
        yield (f"filter parent 1ab: protocol ip prio 1 "
               f"u32 match ip dport {port} 0xffff flowid 1ab:{n:x}")  # fmt: skip
