"""A link of its own between two hosts of a box, for guests that move: as fast and long as asked.

It leads past the data network, so that what shapes it stands in no guest's way. Where the kernel
cannot delay, a relay of ours does, in the namespace of the box's switch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from labkit.box.folder import Folder
from labkit.box.network import splice
from labkit.box.network.link import LinkPlan
from labkit.box.network.shaping import Relay, kinds_known
from labkit.box.processes import network_of, run
from labkit.errors import BoxError

PROGRAMS = ("ip", "sysctl", "tc")

END, MIDDLE = "crossing0", ("crossing-o", "crossing-q")
ADDRESSES = ("198.51.100.1", "198.51.100.2")
"""Set aside for documentation (RFC 5737): nothing but the two ends is there."""
BUFFERS = 64 << 20
"""Bytes that TCP may keep for a connection, so that a long link can be filled."""
SYSCTLS = {"tcp_wmem": f"4096 16384 {BUFFERS}", "tcp_rmem": f"4096 131072 {BUFFERS}"}


@dataclass(frozen=True)
class Crossing:
    """The link between two hosts of the box `name`, by the processes that hold their namespaces."""

    name: str
    pids: Mapping[str, int]
    origin: str
    to: str

    @contextmanager
    def made(self, link: LinkPlan) -> Iterator[tuple[str, str]]:
        """The addresses of both ends; the link is gone afterwards."""
        kinds, relay = kinds_known(), Relay(Folder(self.name), "crossing")
        manner = splice.by(link, kinds)
        self._unwire()  # one that was killed may have left its own, and its relay
        relay.end()
        try:
            self._wire(manner)
            for role, address in zip((self.origin, self.to), ADDRESSES, strict=True):
                self._ip(role, [f"addr add {address}/30 dev {END}", f"link set {END} up"])
                if words := splice.queue_of(link, kinds):
                    self._run(role, ["tc", "qdisc", "replace", "dev", END, "root", *words.split()])
            if manner == "relay":
                cpus, switch = sorted(os.sched_getaffinity(0)), self.pids["switch"]
                relay.start("relay between two hosts", link, kinds, switch, MIDDLE, cpus)
            with self._buffers():
                yield ADDRESSES
        finally:
            relay.end()
            self._unwire()

    def _wire(self, manner: str) -> None:
        ends = (self.pids[self.origin], self.pids[self.to])
        if manner != "relay":
            lines = [f"link add {END} netns {ends[0]} type veth peer name {END} netns {ends[1]}"]
        else:
            lines = [f"link add {middle} up type veth peer name {END} netns {pid}"
                     for middle, pid in zip(MIDDLE, ends, strict=True)]  # fmt: skip
        self._ip("switch", lines)

    def _unwire(self) -> None:
        for role in (self.origin, self.to):
            with suppress(BoxError):
                self._ip(role, [f"link delete {END}"])

    @contextmanager
    def _buffers(self) -> Iterator[None]:
        roles = (self.origin, self.to)
        before = {(role, key): self._sysctl(role, key) for role in roles for key in SYSCTLS}
        try:
            for role, key in before:
                self._sysctl(role, key, SYSCTLS[key])
            yield
        finally:
            for (role, key), value in before.items():
                self._sysctl(role, key, value)

    def _sysctl(self, role: str, key: str, value: str = "") -> str:
        text = f"net.ipv4.{key}"
        words = ["-w", f"{text}={value}"] if value else ["-n", text]
        return self._run(role, ["sysctl", *words]).strip()

    def _ip(self, at: str, lines: list[str]) -> None:
        self._run(at, ["ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))

    def _run(self, at: str, words: list[str], text: str = "") -> str:
        return run(words, text, network_of(self.pids[at]))
