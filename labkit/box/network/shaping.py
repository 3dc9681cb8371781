"""Shaping the links of a box that is up, and measuring what came of it.

What is in force stands in `links.json` of the box: what was asked, by what it is done (tbf, netem,
or a relay of ours where the kernel cannot delay), and what was measured.

Guests that move may have a link of their own from host to host, as fast and long as asked. It leads
past the data network, so that what shapes it stands in no guest's way.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labkit.box import namespaces
from labkit.box.cgroup import Cgroup
from labkit.box.folder import Folder, not_up
from labkit.box.layout import PROBE_SEAT, SWITCH_MAC, Layout, data_net
from labkit.box.network import splice
from labkit.box.network.link import LinkPlan
from labkit.box.network.splice import splice_of
from labkit.box.processes import ENVIRONMENT, network_of, run
from labkit.box.status import LinkStatus, in_force, lab_toml
from labkit.errors import BoxError, Unknown

PROGRAMS = ("ip", "sysctl", "tc", "unshare")

PLACE = Path(__file__).parent
KINDS = {"tbf": "rate 1mbit burst 5000 limit 5000", "netem": "delay 1ms"}
MEASURING_SECONDS, ENDS_SECONDS = 120.0, 5.0
END, MIDDLE = "crossing0", ("crossing-o", "crossing-q")
ADDRESSES = ("198.51.100.1", "198.51.100.2")
"""Set aside for documentation (RFC 5737): nothing but the two ends is there."""
BUFFERS = 64 << 20
"""Bytes that TCP may keep for a connection, so that a long link can be filled."""
SYSCTLS = {
    "net.ipv4.tcp_wmem": f"4096 16384 {BUFFERS}", "net.ipv4.tcp_rmem": f"4096 131072 {BUFFERS}",
}  # fmt: skip


@dataclass(frozen=True)
class Relay:
    """A relay of ours in a box, by the stem that names its file."""

    folder: Folder
    stem: str

    def start(
        self, title: str, link: LinkPlan, kinds: Collection[str], holder: int,
        ends: Sequence[str], cpus: Sequence[int],
    ) -> None:  # fmt: skip
        """Have it run between two devices, in the network of a process.

        The kernel's queues do what is left.
        """
        figures = json.dumps(splice.relay_asked(link, kinds))
        words = [*_python("relay.py"), *ends, figures, str(self.folder.held(self.stem))]
        ready = namespaces.begin(
            Cgroup.of(self.folder.name), title, network_of(holder), f"exec {shlex.join(words)}",
            cpus, self.folder.log(f"relay-{self.stem}"),
        )  # fmt: skip
        ready().give(b"")

    def end(self) -> None:
        """End it, if it runs."""
        file, until = self.folder.held(self.stem), time.monotonic() + ENDS_SECONDS
        with suppress(FileNotFoundError, ValueError, ProcessLookupError):
            pid = int(file.read_text())
            if self._has(pid):
                os.kill(pid, signal.SIGTERM)
            while self._has(pid) and time.monotonic() < until:
                time.sleep(0.01)
        file.unlink(missing_ok=True)

    def _has(self, pid: int) -> bool:
        return pid in Cgroup.of(self.folder.name).pids()


@dataclass(frozen=True)
class Shaping:
    """The shaped links of one box; `pids` hold its namespaces."""

    folder: Folder
    layout: Layout
    pids: Mapping[str, int]

    @classmethod
    def of(cls, name: str) -> Shaping:
        """Of a box that is up."""
        folder = Folder(name)
        try:
            layout = Layout.from_json(folder.layout.read_text())
            pids = json.loads(folder.pids.read_text())
        except (OSError, ValueError):
            raise not_up(name) from None
        return cls(folder, layout, pids)

    @property
    def links(self) -> list[LinkStatus]:
        """The links that are shaped now."""
        return in_force(self.folder)

    def shape(self, link: LinkPlan) -> None:
        """Have the link of one host do what is asked, and nothing else."""
        others = [status for status in self.links if status.role != link.role]
        if (old := self.now(link.role)).by:
            self._undo(old)
        kinds = kinds_known()
        if manner := splice.by(link, kinds):
            self._make(link, manner, kinds)
        self.keep([*others, *([LinkStatus(link.role, manner, link.asked)] if link.asked else [])])

    def now(self, role: str) -> LinkStatus:
        """The wanted and the measured figures of one link; nothing for an unshaped one."""
        return next((link for link in self.links if link.role == role), LinkStatus(role, "", {}))

    def keep(self, links: Iterable[LinkStatus]) -> None:
        """Write down what is in force, also where a lab is read from."""
        links = list(links)
        fields = [asdict(link) for link in links]
        self.folder.write(self.folder.links, json.dumps(fields, indent=1))
        if self.folder.lab.exists():
            self.folder.write(self.folder.lab, lab_toml(self.layout, links))

    def measure(self, roles: Collection[str]) -> None:
        """Measure the links of these hosts, and write it down beside what was asked."""
        links = self.links
        questions = {link.role: self._question(link) for link in links if link.role in roles}
        if not questions:
            return
        words = [*network_of(self.pids["switch"]), *_python("gauge.py"), json.dumps(questions)]
        result = subprocess.run(
            Cgroup.of(self.folder.name).within(words), capture_output=True, text=True,
            env=ENVIRONMENT, timeout=MEASURING_SECONDS * len(questions),
        )  # fmt: skip
        if result.returncode:
            raise BoxError("the links of the box could not be measured", said=result.stderr)
        figures = {role: _describe(numbers) for role, numbers in json.loads(result.stdout).items()}
        self.keep(
            LinkStatus(link.role, link.by, link.asked, figures.get(link.role, link.measured))
            for link in links
        )

    def _question(self, link_status: LinkStatus) -> dict[str, Any]:
        plan, layout = LinkPlan(link_status.role, **link_status.asked), self.layout
        part = splice_of(layout, link_status.role)
        toward, away = part.senders(link_status.by)
        return {
            "address": layout.data(link_status.role), "mac": layout.mac(1, link_status.role),
            "switch": layout.mac(*SWITCH_MAC), "probe": str(data_net(layout.pair)[PROBE_SEAT]),
            "delay": plan.seconds, "jitter": plan.spread, "loss": plan.lost, "rate": plan.bits,
            "toward": {"into": splice.BRIDGE, "out": toward},
            "from": {"into": part.middle, "out": away},
        }  # fmt: skip

    def _make(self, link: LinkPlan, manner: str, kinds: Collection[str]) -> None:
        part = splice_of(self.layout, link.role)
        self._batch("ip", part.made(manner))
        self._batch("tc", splice.queues(part, link, kinds))
        if manner == "relay":
            Relay(self.folder, part.stem).start(
                f"relay of {link.role}", link, kinds, self.pids["switch"], part.relayed,
                self.layout.cpus,
            )  # fmt: skip

    def _undo(self, old: LinkStatus) -> None:
        part = splice_of(self.layout, old.role)
        if old.by == "relay":
            Relay(self.folder, part.stem).end()
        self._batch("ip", part.unmade(old.by))

    def _batch(self, tool: str, lines: Iterable[str]) -> None:
        if text := "".join(f"{line}\n" for line in lines):
            words = [*network_of(self.pids["switch"]), tool, "-batch", "-"]
            Cgroup.of(self.folder.name).run(words, text)


@dataclass(frozen=True)
class Crossing:
    """The link between two hosts of the box `name`, by the processes that hold their namespaces."""

    name: str
    pids: Mapping[str, int]
    origin: str
    to: str

    @contextmanager
    def made(self, link: LinkPlan) -> Iterator[str]:
        """Have the link, and yield the address of its far end; it is gone afterwards."""
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
                yield ADDRESSES[1]
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
        both = [(role, key) for role in (self.origin, self.to) for key in SYSCTLS]
        before = [self._run(role, ["sysctl", "-n", key]).strip() for role, key in both]
        try:
            for role, key in both:
                self._run(role, ["sysctl", "-w", f"{key}={SYSCTLS[key]}"])
            yield
        finally:
            for (role, key), value in zip(both, before, strict=True):
                self._run(role, ["sysctl", "-w", f"{key}={value}"])

    def _ip(self, at: str, lines: list[str]) -> None:
        self._run(at, ["ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))

    def _run(self, at: str, words: list[str], text: str = "") -> str:
        return run(words, text, network_of(self.pids[at]))


def asked_of(
    name: str, role: str, *, rate: str = "", delay: str = "", jitter: str = "", loss: str = ""
) -> LinkPlan:
    """A plan of these words for a link of a box that is up; none mean the link as it was made."""
    if rate or delay or loss:
        return LinkPlan(role, rate, delay, jitter, loss)
    return Shaping.of(name).layout.topology.link(role)


def reshape(name: str, link: LinkPlan) -> LinkStatus:
    """Shape a link of a box that is up, for good, and measure it."""
    shaping = Shaping.of(name)
    if link.role not in shaping.layout.hosts:
        raise Unknown(f"host of box {name}", link.role, shaping.layout.hosts)
    with shaping.folder.locked(lambda _: None):
        shaping.shape(link)
        shaping.measure([link.role])
    return shaping.now(link.role)


@contextmanager
def shaped(name: str, link: LinkPlan) -> Iterator[LinkStatus]:
    """Shape a link meanwhile; afterwards it is as it was."""
    before = Shaping.of(name).now(link.role)
    try:
        yield reshape(name, link)
    finally:
        shaping = Shaping.of(name)
        with shaping.folder.locked(lambda _: None):
            shaping.shape(LinkPlan(link.role, **before.asked))
            links = [status for status in shaping.links if status.role != link.role]
            shaping.keep([*links, *([before] if before.asked else [])])


def kinds_known() -> set[str]:
    """The kinds of queues that this kernel has, found by trying them in a namespace that ends."""
    add = "unshare -n tc qdisc add dev lo root"
    tries = {kind: f"{add} {kind} {words}".split() for kind, words in KINDS.items()}
    tried = partial(subprocess.run, capture_output=True, env=ENVIRONMENT)
    return {kind for kind, words in tries.items() if tried(words).returncode == 0}


# What runs as root reads nothing of the user's: no site, no variables, no folder of the program.
def _python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(PLACE / program)]


def _describe(figures: Mapping[str, float]) -> dict[str, str]:
    if not figures:
        return {"reached": "no"}
    forms = {"rate": (1e-6, "Mbit/s"), "delay": (1e3, "ms"), "jitter": (1e3, "ms")}
    words = {key: f"{factor * figures[key]:.4g} {unit}"
             for key, (factor, unit) in forms.items() if key in figures}  # fmt: skip
    if "loss" in figures:
        words["loss"] = f"{100 * figures['loss']:.2g} % of {figures['pings']:.0f}"
    return words
