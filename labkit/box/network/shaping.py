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

HERE = Path(__file__).parent
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
        kinds, before = kinds_known(), {one.role: one for one in self.links}
        old, how = before.get(link.role), splice.by(link, kinds)
        same = old and how and old.by == how and ("rate" in old.asked) == bool(link.bits)
        if same and self._carried(link.role, how):
            self._change(link, how, kinds)
        else:
            if old and old.by:
                self._undo(old)
            if how:
                self._make(link, how, kinds)
        kept = [link_status for role, link_status in before.items() if role != link.role]
        now = [LinkStatus(link.role, how, link.asked)] if link.asked else []
        self.keep([*kept, *now])

    def _carried(self, role: str, how: str) -> bool:
        stems = splice.stems(self.layout, role) if how == "relay" else []
        return all(held(self.folder.held(stem)) for stem in stems)

    # A role among them has devices of its own between its ends and the network.
    def _spliced(self, *more: str) -> set[str]:
        return {link.role for link in self.links if link.by} | {*more}

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
        asked = {link.role: self._question(link) for link in links if link.role in roles}
        if not asked:
            return
        words = [*self._in("switch"), *_python("gauge.py"), json.dumps(asked)]
        done = subprocess.run(
            Cgroup.of(self.folder.name).within(words), capture_output=True, text=True,
            env=ENVIRONMENT, timeout=MEASURING_SECONDS * len(asked),
        )  # fmt: skip
        if done.returncode:
            raise BoxError("the links of the box could not be measured", said=done.stderr)
        found = {role: _worded(numbers) for role, numbers in json.loads(done.stdout).items()}
        self.keep(
            LinkStatus(link.role, link.by, link.asked, found.get(link.role, link.measured))
            for link in links
        )

    def _question(self, link_status: LinkStatus) -> dict[str, Any]:
        plan, layout = LinkPlan(link_status.role, **link_status.asked), self.layout
        first = next(splices(layout, link_status.role, self._spliced()))
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

    def _make(self, link: LinkPlan, how: str, kinds: Collection[str]) -> None:
        plan = self.layout.topology
        own = [link.role, *(guest.role for guest in self.layout.guests_on(link.role))]
        mtu = max(plan.link(role).bytes or USUAL_MTU for role in own)
        for one in splices(self.layout, link.role, self._spliced(link.role)):
            self._ip(one.at, one.made(how, mtu))
            if how == "relay":
                self._relay(one, link, kinds)
        self._change(link, how, kinds)

    def _change(self, link: LinkPlan, how: str, kinds: Collection[str]) -> None:
        for one in splices(self.layout, link.role, self._spliced(link.role)):
            self._tc(one.at, splice.queues(one, link, kinds))
            if how == "relay":
                self._write_relay(one, link, kinds)
                with suppress(ProcessLookupError):
                    os.kill(self._relay_pid(one), signal.SIGHUP)

    def _undo(self, old: LinkStatus) -> None:
        for one in splices(self.layout, old.role, self._spliced()):
            if old.by == "relay":
                with suppress(ProcessLookupError, BoxError):
                    os.kill(self._relay_pid(one), signal.SIGTERM)
                self.folder.held(one.stem).unlink(missing_ok=True)
            self._ip(one.at, one.unmade(old.by))

    def _relay(self, one: Splice, link: LinkPlan, kinds: Collection[str]) -> None:
        self._write_relay(one, link, kinds)
        words = [*_python("relay.py"), *one.relayed, str(self.folder.relay(one.stem))]
        born = namespaces.begin(
            Cgroup.of(self.folder.name), f"relay of {link.role}", self._in(one.at),
            f"exec {shlex.join(words)}", self.layout.cpus, self.folder.log(f"relay-{one.stem}"),
        ).ready()  # fmt: skip
        born.give(b"")
        self.folder.write(self.folder.relay(one.stem).with_suffix(".pid"), str(born.pid))

    def _write_relay(self, one: Splice, link: LinkPlan, kinds: Collection[str]) -> None:
        asked = splice.relay_asked(link, kinds)
        self.folder.write(self.folder.relay(one.stem), json.dumps(asked))

    def _relay_pid(self, one: Splice) -> int:
        pid = int(self.folder.relay(one.stem).with_suffix(".pid").read_text())
        if pid not in Cgroup.of(self.folder.name).pids():
            raise BoxError(f"the relay {one.stem} of box {self.folder.name} is gone",
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
    made = Shaping.of(name).layout.topology.link(role)
    return LinkPlan(role, rate, delay, jitter, loss, made.mtu) if rate or delay or loss else made


def reshape(name: str, link: LinkPlan) -> LinkStatus:
    """Shape a link of a box that is up, for good, and measure it."""
    shaping = Shaping.of(name)
    linked = shaping.layout.topology.linked
    if link.role not in linked:
        raise Unknown(f"machine with a link of its own in box {name}", link.role, linked)
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
            others = [one for one in shaping.links if one.role != link.role]
            shaping.keep([*others, *([before] if before.asked else [])])


def kinds_known() -> set[str]:
    """The kinds of queues that this kernel has, found by trying them in a namespace that ends."""
    return {kind for kind, words in KINDS.items() if _tried(kind, words)}


def _tried(kind: str, words: str) -> bool:
    asked = ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", kind, *words.split()]
    return subprocess.run(asked, capture_output=True, env=ENVIRONMENT).returncode == 0


# What runs as root reads nothing of the user's: no site, no variables, no folder of the program.
def _python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(HERE / program)]


def _worded(found: Mapping[str, float]) -> dict[str, str]:
    if not found:
        return {"reached": "no"}
    words = {}
    if "rate" in found:
        words["rate"] = f"{found['rate'] / 1e6:.4g} Mbit/s"
    for key in ("delay", "jitter"):
        if key in found:
            words[key] = f"{1000 * found[key]:.4g} ms"
    if "loss" in found:
        words["loss"] = f"{100 * found['loss']:.2g} % of {found['pings']:.0f}"
    if "mtu" in found:
        words["mtu"] = f"{found['mtu']:.0f}"
    return words
