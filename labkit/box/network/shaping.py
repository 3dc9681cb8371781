"""Shaping the links of a box that is up, and measuring what came of it.

What is in force stands in `links.json` of the box: what was asked, by what it is done (tbf, netem,
or a relay of ours where the kernel cannot delay), and what was measured.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.box import namespaces
from labkit.box.cgroup import ENVIRONMENT, Cgroup
from labkit.box.folder import Folder, not_up
from labkit.box.lab_file import LinkStatus, lab_toml
from labkit.box.layout import Layout
from labkit.box.network import splice
from labkit.box.network.link import USUAL_MTU, LinkPlan
from labkit.box.network.splice import Splice, splices
from labkit.box.status import in_force
from labkit.errors import BadInput, BoxError, Unknown
from labkit.lab import held

PROGRAMS = ("nsenter", "unshare")

PLACE = Path(__file__).parent
KINDS = {"tbf": "rate 1mbit burst 5000 limit 5000", "netem": "delay 1ms"}
MEASURING_SECONDS = 120.0


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
        """Have the link of one machine do what is asked, and nothing else."""
        kinds, before = kinds_known(), {status.role: status for status in self.links}
        old, manner = before.get(link.role), splice.by(link, kinds)
        unchanged = old and manner and old.by == manner and ("rate" in old.asked) == bool(link.bits)
        if unchanged and self._is_carried(link.role, manner):
            self._change(link, manner, kinds)
        else:
            if old and old.by:
                self._undo(old)
            if manner:
                self._make(link, manner, kinds)
        others = [link_status for role, link_status in before.items() if role != link.role]
        news = [LinkStatus(link.role, manner, link.asked)] if link.asked else []
        self.keep([*others, *news])

    def _is_carried(self, role: str, manner: str) -> bool:
        stems = splice.stems(self.layout, role) if manner == "relay" else []
        return all(held(self.folder.held(stem)) for stem in stems)

    # A role among them has devices of its own between its ends and the network.
    def _roles(self, *roles: str) -> set[str]:
        return {link.role for link in self.links if link.by} | {*roles}

    def now(self, role: str) -> LinkStatus:
        """The wanted and the measured figures of one link; nothing for an unshaped one."""
        return next((link for link in self.links if link.role == role), LinkStatus(role, "", {}))

    def keep(self, links: Iterable[LinkStatus]) -> None:
        """Write down what is in force, also where a lab is read from."""
        links = list(links)
        fields = [vars(link) | {"asked": dict(link.asked), "measured": dict(link.measured)}
                  for link in links]  # fmt: skip
        self.folder.write(self.folder.links, json.dumps(fields, indent=1))
        if self.folder.lab.exists():
            self.folder.write(self.folder.lab, lab_toml(self.layout, links))

    def measure(self, roles: Collection[str]) -> None:
        """Measure the links of these machines, and write it down beside what was asked."""
        links = self.links
        questions = {link.role: self._question(link) for link in links if link.role in roles}
        if not questions:
            return
        words = [*self._in("switch"), *_python("gauge.py"), json.dumps(questions)]
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
        first = next(splices(layout, link_status.role, self._roles()))
        toward, away = first.senders(link_status.by)
        inner, pid = first.middle, self.pids[first.at]
        outer = first.bridge
        return {
            "address": layout.data(link_status.role), "mac": layout.mac(1, link_status.role),
            "switch": layout.switch_mac, "probe": layout.probe,
            "delay": plan.seconds, "jitter": plan.spread, "loss": plan.lost, "mtu": plan.bytes,
            "rate": plan.bits, "toward": {"into": outer, "out": toward, "of": pid},
            "from": {"into": inner, "out": away, "of": pid},
        }  # fmt: skip

    def _make(self, link: LinkPlan, manner: str, kinds: Collection[str]) -> None:
        plan = self.layout.topology
        roles = [link.role, *(guest.role for guest in self.layout.guests_on(link.role))]
        mtu = max(plan.link(role).bytes or USUAL_MTU for role in roles)
        for part in splices(self.layout, link.role, self._roles(link.role)):
            self._ip(part.at, part.made(manner, mtu))
            if manner == "relay":
                self._relay(part, link, kinds)
        self._change(link, manner, kinds)

    def _change(self, link: LinkPlan, manner: str, kinds: Collection[str]) -> None:
        for part in splices(self.layout, link.role, self._roles(link.role)):
            self._tc(part.at, splice.queues(part, link, kinds))
            if manner == "relay":
                self._write_relay(part, link, kinds)
                with suppress(ProcessLookupError):
                    os.kill(self._relay_pid(part), signal.SIGHUP)

    def _undo(self, old: LinkStatus) -> None:
        for part in splices(self.layout, old.role, self._roles()):
            if old.by == "relay":
                with suppress(ProcessLookupError, BoxError):
                    os.kill(self._relay_pid(part), signal.SIGTERM)
                self.folder.held(part.stem).unlink(missing_ok=True)
            self._ip(part.at, part.unmade(old.by))

    def _relay(self, part: Splice, link: LinkPlan, kinds: Collection[str]) -> None:
        self._write_relay(part, link, kinds)
        words = [*_python("relay.py"), *part.relayed, str(self.folder.relay(part.stem))]
        process = namespaces.begin(
            Cgroup.of(self.folder.name), f"relay of {link.role}", self._in(part.at),
            f"exec {shlex.join(words)}", self.layout.cpus, self.folder.log(f"relay-{part.stem}"),
        ).ready()  # fmt: skip
        process.give(b"")
        self.folder.write(self.folder.relay(part.stem).with_suffix(".pid"), str(process.pid))

    def _write_relay(self, part: Splice, link: LinkPlan, kinds: Collection[str]) -> None:
        figures = splice.relay_asked(link, kinds)
        self.folder.write(self.folder.relay(part.stem), json.dumps(figures))

    def _relay_pid(self, part: Splice) -> int:
        pid = int(self.folder.relay(part.stem).with_suffix(".pid").read_text())
        if pid not in Cgroup.of(self.folder.name).pids():
            raise BoxError(f"the relay {part.stem} of box {self.folder.name} is gone",
                           hint="`labkit box shape` of its link starts another")  # fmt: skip
        return pid

    def _ip(self, at: str, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        Cgroup.of(self.folder.name).run([*self._in(at), "ip", "-batch", "-"], text)

    def _tc(self, at: str, lines: Iterable[str]) -> None:
        if text := "".join(f"{line}\n" for line in lines):
            Cgroup.of(self.folder.name).run([*self._in(at), "tc", "-batch", "-"], text)

    def _in(self, at: str) -> list[str]:
        return ["nsenter", "-t", str(self.pids[at]), "-n"]


def asked_of(
    name: str, role: str, *, rate: str = "", delay: str = "", jitter: str = "", loss: str = ""
) -> LinkPlan:
    """A plan of these words for a link of a box that is up; none mean the link as it was made."""
    usual = Shaping.of(name).layout.topology.link(role)
    return LinkPlan(role, rate, delay, jitter, loss, usual.mtu) if rate or delay or loss else usual


def reshape(name: str, link: LinkPlan) -> LinkStatus:
    """Shape a link of a box that is up, for good, and measure it."""
    shaping = Shaping.of(name)
    machines = shaping.layout.topology.linked
    if link.role not in machines:
        raise Unknown(f"machine with a link of its own in box {name}", link.role, machines)
    if link.mtu and link.mtu != shaping.layout.topology.link(link.role).mtu:
        raise BadInput(f"{link.role} of box {name} is up with another MTU",
                       hint="name it in the topology, or use the setting Mtu")  # fmt: skip
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
    return {kind for kind, words in KINDS.items() if _try(kind, words)}


def _try(kind: str, words: str) -> bool:
    command = ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", kind, *words.split()]
    return subprocess.run(command, capture_output=True, env=ENVIRONMENT).returncode == 0


# What runs as root reads nothing of the user's: no site, no variables, no folder of the program.
def _python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(PLACE / program)]


def _describe(figures: Mapping[str, float]) -> dict[str, str]:
    if not figures:
        return {"reached": "no"}
    words = {}
    if "rate" in figures:
        words["rate"] = f"{figures['rate'] / 1e6:.4g} Mbit/s"
    for key in ("delay", "jitter"):
        if key in figures:
            words[key] = f"{1000 * figures[key]:.4g} ms"
    if "loss" in figures:
        words["loss"] = f"{100 * figures['loss']:.2g} % of {figures['pings']:.0f}"
    if "mtu" in figures:
        words["mtu"] = f"{figures['mtu']:.0f}"
    return words
