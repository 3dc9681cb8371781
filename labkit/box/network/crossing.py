"""A link of its own between two hosts of a box, for guests that move: as fast and long as asked.

It leads past the data network, so that what shapes it stands in no guest's way. Where the kernel
cannot delay, a relay of ours does, in the namespace of the box's switch.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.box import namespaces
from labkit.box.cgroup import ENVIRONMENT, Cgroup
from labkit.box.folder import Folder
from labkit.box.network import splice
from labkit.box.network.link import LinkPlan
from labkit.box.network.shaping import kinds_known
from labkit.errors import BoxError

PROGRAMS = ("ip", "nsenter", "sysctl", "tc")

END, MIDDLE = "crossing0", ("crossing-o", "crossing-q")
ADDRESSES = ("198.51.100.1", "198.51.100.2")
"""Set aside for documentation (RFC 5737): nothing but the two ends is there."""
RELAY = Path(__file__).with_name("relay.py")
BUFFERS = 64 << 20
"""Bytes that TCP may keep for a connection, so that a long link can be filled."""
ENDS_SECONDS = 5.0
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
        kinds = kinds_known()
        manner = splice.by(link, kinds)
        self._unwire()  # one that was killed may have left its own, and its relay
        self._end_relay()
        try:
            self._wire(manner)
            self._address()
            self._shape(link, manner, kinds)
            with (
                self._buffers(),
                self._relaying(link, kinds) if manner == "relay" else _do_nothing(),
            ):
                yield ADDRESSES
        finally:
            self._unwire()

    def _wire(self, manner: str) -> None:
        ends = (self.pids[self.origin], self.pids[self.to])
        if manner != "relay":
            lines = [f"link add {END} netns {ends[0]} type veth peer name {END} netns {ends[1]}"]
        else:
            lines = [
                line
                for middle, pid in zip(MIDDLE, ends, strict=True)
                for line in (
                    f"link add {middle} type veth peer name {END} netns {pid}",
                    f"link set {middle} up",
                )
            ]
        self._ip("switch", lines)

    def _unwire(self) -> None:
        for role in (self.origin, self.to):
            with suppress(BoxError):
                self._ip(role, [f"link delete {END}"])

    def _address(self) -> None:
        for role, address in zip((self.origin, self.to), ADDRESSES, strict=True):
            self._ip(role, [f"addr add {address}/30 dev {END}", f"link set {END} up"])

    def _shape(self, link: LinkPlan, manner: str, kinds: set[str]) -> None:
        if words := splice.queue_of(link, kinds):
            for role in (self.origin, self.to):
                self._run(role, ["tc", "qdisc", "replace", "dev", END, "root", *words.split()])

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

    @contextmanager
    def _relaying(self, link: LinkPlan, kinds: set[str]) -> Iterator[None]:
        folder, file = self._folder, self._relay
        folder.write(file, splice.as_json(link, kinds))
        words = [sys.executable, "-I", "-S", str(RELAY), *MIDDLE, str(file)]
        relay = namespaces.begin(
            Cgroup.of(self.name), "relay between two hosts", self._in("switch"),
            f"exec {shlex.join(words)}", sorted(os.sched_getaffinity(0)),
            folder.log("relay-crossing"),
        ).ready()  # fmt: skip
        relay.give(b"")
        folder.write(file.with_suffix(".pid"), str(relay.pid))
        try:
            yield
        finally:
            self._end_relay()

    def _end_relay(self) -> None:
        note, group = self._relay.with_suffix(".pid"), Cgroup.of(self.name)
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int(note.read_text())
            note.unlink()
            if pid in group.pids():
                os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + ENDS_SECONDS
            while pid in group.pids() and time.monotonic() < until:
                time.sleep(0.01)

    @property
    def _folder(self) -> Folder:
        return Folder(self.name)

    @property
    def _relay(self) -> Path:
        return self._folder.relay("crossing")

    def _ip(self, at: str, lines: list[str]) -> None:
        self._run(at, ["ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))

    def _run(self, at: str, words: list[str], text: str = "") -> str:
        command = [*self._in(at), *words]
        result = subprocess.run(
            command, input=text, capture_output=True, text=True, env=ENVIRONMENT
        )
        if result.returncode:
            problem = f"`{' '.join(words)}` at {at} ended with code {result.returncode}"
            raise BoxError(problem, said=result.stderr)
        return result.stdout

    def _in(self, at: str) -> list[str]:
        return ["nsenter", "-t", str(self.pids[at]), "-n"]


@contextmanager
def _do_nothing() -> Iterator[None]:
    yield
