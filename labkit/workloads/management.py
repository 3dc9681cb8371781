"""An administrator asks a management server that a cluster guards, and changes its inventory.

Machines of another cluster, which nobody fails over, are asked all the while.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from labkit.errors import HostError, ResultsError, absence
from labkit.host import Host
from labkit.programs import simulator
from labkit.workload import Beside, Sample, Series, Workload, knob
from labkit.workloads import _cluster, _guarded
from labkit.workloads._database import absent
from labkit.workloads._pairs import FIND
from labkit.workloads._sections import joined, parted

PROGRAMS = ("/usr/lib/postgresql/*/bin/postgres", "corosync", "pacemakerd", "ping", "python3")

READY_SECONDS = 600.0
PAUSE_SECONDS, READY = 0.05, b"ready\n"
ANSWER = re.compile(r"(\w+) (\S+) (\d+\.\d+) (\d+\.\d+) (\d+) (\d+)", re.ASCII)
CHANGE = re.compile(r"^changed (\S+)$", re.MULTILINE)
PONG = re.compile(r"^\[(\d+\.\d+)\] \d+ bytes from ", re.MULTILINE)
INTERVAL = 0.1
"""Seconds between two pings of a machine."""
SERVES = "200"
"""The code of an answer that has what was asked for."""
ITSELF = " itself"
"""Ends the name of a host that was asked by itself: its link may be cut."""


@dataclass(frozen=True)
class Management(Workload):
    """An administrator logs in and lists every 0.1 s, and changes the inventory each second.

    Both hosts are asked; of a cluster of one's own, the machine that it guards. The inventory has
    `hosts`, and one in `part` of its `vms`. `token_ms` is how long Corosync hears nothing of a host
    before it takes it for lost, where labkit begins the cluster.
    """

    roles = ("client", "server", "server2", "guest", "guest2")
    loop = "closed"
    measures = ("unreachable time", "changes lost")
    programs = ("corosync", "pacemakerd")
    ours = ("corosync", "pacemakerd", "pacemaker-based", "pacemaker-fence", "pacemaker-execd",
            "pacemaker-attrd", "pacemaker-sched", "pacemaker-contr", "postgres", "vcsim",
            "python3")  # fmt: skip
    here = ("vcsim",)
    beside = ("guest", "guest2")
    optional = (_guarded.CENTER,)
    # A cluster of one's own is its owner's to install: no role of such a lab is a box.
    only: ClassVar[Mapping[str, str]] = {
        "ping": "client", PROGRAMS[0]: _guarded.CENTER, **dict.fromkeys(programs, "box"),
    }  # fmt: skip
    needs = ("ping", "python3")
    longest = 0.0
    """None: a cluster ends with the process that began it."""

    hosts: int = knob(1, 1, 1000)
    vms: int = knob(1, 1, 40_000)
    part: int = knob(5, 1, 1000)
    token_ms: int = knob(1000, 100, 600_000)
    duration: int = knob(2, 1, 3600)
    """Seconds for which it is asked where nothing happens meanwhile."""

    @property
    def inventory(self) -> tuple[int, int]:
        """Hosts and machines, as many as are made."""
        return self.hosts, max(1, round(self.vms / self.part))

    @property
    def seconds(self) -> float:
        """About how long one run takes: a cluster begins, and a server starts."""
        hosts, vms = self.inventory
        return 15.0 + self.duration + 0.1 * hosts + 0.01 * vms

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """It takes vcsim, and two hosts with one disk and no cluster, or a machine of a cluster."""
        if _guarded.CENTER in hosts:
            return simulator.lacking() or _guarded.lacking(hosts)
        pair = [hosts["server"], hosts["server2"]]
        if reason := next(filter(None, map(_cluster.foreign, pair)), ""):
            return reason
        for host in pair:
            if not host.run("test", "-w", _cluster.SHARED).ok:
                return (f"{host.name} has no disk that it shares, as a box of `failover` has, and "
                        f"the lab no [hosts.{_guarded.CENTER}] that a cluster guards")  # fmt: skip
            if missing := host.check("sh", "-c", FIND, "find", *self.programs).split():
                return absence(missing[0], host.name, simulator.REMEDY)
        return simulator.lacking() or absent("direct", hosts)

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Ask for a while."""
        return self._ask(hosts, partial(time.sleep, self.duration))

    def during(self, hosts: Mapping[str, Host], beside: Beside) -> str:
        """Ask until what happens has ended."""

        def wait() -> None:
            beside.begun()
            while beside.going:
                time.sleep(PAUSE_SECONDS)

        return self._ask(hosts, wait)

    # In a machine that a cluster of one's own guards, only the server begins.
    def _ask(self, hosts: Mapping[str, Host], wait: Callable[[], None]) -> str:
        client = hosts["client"]
        machines = [hosts[role].address for role in self.beside]
        with self._serving(hosts) as servers:
            at = ",".join(host.address for host in servers)
            words = ("ask", str(self.inventory[1]), at, ",".join(machines))
            with _cluster.brought(client), client.raw(*_cluster.program(), *words) as pipe:
                if pipe.recv() != READY:
                    raise HostError(f"{client.name}: nobody asks", said=pipe.ended()[1])
                wait()
                pipe.finish()
                text = b"".join(iter(pipe.recv, b"")).decode("utf-8", "replace")
                after = {host.name: _after(client, host) for host in servers}
                if _guarded.CENTER in hosts:
                    sides = _guarded.sides(hosts).items()
                    after |= {f"{role}{_guarded.ITS_MACHINE}": side for role, side in sides}
                else:  # each serves it to itself
                    after |= {f"{host.name}{ITSELF}": _after(host, host) for host in servers}
        return joined({"asked": text, **after})

    # The servers that are asked, once the first of them is ready.
    @contextmanager
    def _serving(self, hosts: Mapping[str, Host]) -> Iterator[list[Host]]:
        if _guarded.CENTER in hosts:
            with _guarded.serve(hosts, self.inventory):
                yield [hosts[_guarded.CENTER]]
            return
        pair = (hosts["server"], hosts["server2"])
        with _cluster.clustered(*pair, self.inventory, self.token_ms):
            _cluster.ready(pair[0], 0.0, READY_SECONDS)
            yield [*pair]

    @staticmethod
    def over_time(text: str) -> Mapping[str, Series]:
        """The moments of logins and full lists, and the number of the host that answered."""
        answers = _answers(parted(text, "asked")["asked"])
        hosts = sorted({host for _, host, *_ in answers})
        return {
            page: (
                np.array([end for word, _, _, end in answers if word == page]),
                np.array([float(hosts.index(host)) for word, host, *_ in answers if word == page]),
            )
            for page in ("login", "list")
        }  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """For how long machines elsewhere were unreachable, and what changes were lost.

        Two hosts that serve at once are no figure, and neither are two that run one machine.
        """
        parts = parted(text, "asked")
        request = parts.pop("asked")
        sides = {name: said for name, said in parts.items() if name.endswith(_guarded.ITS_MACHINE)}
        running = [name.removesuffix(_guarded.ITS_MACHINE) for name, said in sides.items()
                   if said == _guarded.RUNNING]  # fmt: skip
        if sides and len(running) != 1:
            raise _split_brain("run the machine", running)
        answerers = [name for name, output in parts.items() if output.splitlines()[:1] == [SERVES]]
        serving = sorted({name.removesuffix(ITSELF) for name in answerers})
        if len(serving) != 1 or _overlap(request):
            raise _split_brain("serve", serving)
        changes = set(parts[answerers[0]].splitlines()[1:])
        missing = [name for name in CHANGE.findall(request) if name not in changes]
        return [
            Sample.single("unreachable time", "s", _unreachable(request)),
            Sample.single("changes lost", "1", len(missing), kind="count"),
        ]


def _split_brain(verb: str, hosts: list[str]) -> ResultsError:
    return ResultsError(
        f"one host may {verb} at a time: it was {' and '.join(hosts) or 'none'}",
        hint="two are a split brain: what either has done is void",
    )


# Asked of each host from outside and by itself, and told apart from what it does not serve.
def _after(client: Host, host: Host) -> str:
    return client.check(*_cluster.program(), "list", host.address)


def _answers(output: str) -> list[tuple[str, str, float, float]]:
    rows = [match.groups() for line in output.splitlines() if (match := ANSWER.fullmatch(line))]
    return [(word, host, float(start), float(end))
            for word, host, start, end, code, vms in rows
            if code == SERVES and (word != "list" or int(vms))]  # fmt: skip


# Whoever has answered once and is followed by another may not answer again.
def _overlap(output: str) -> bool:
    spans: dict[str, tuple[float, float]] = {}
    for _, host, start, end in _answers(output):
        first, last = spans.get(host, (start, end))
        spans[host] = (min(first, start), max(last, end))
    return any(span[1] > successor[0] for span, successor in pairwise(sorted(spans.values())))


def _unreachable(output: str) -> float:
    parts = re.split(r"^machine \S+$", output, flags=re.MULTILINE)[1:]
    gaps = [np.diff([float(at) for at in PONG.findall(part)]) for part in parts]
    if not gaps or not all(gap.size for gap in gaps):
        raise ResultsError("the machines elsewhere did not answer at all")
    return max(0.0, float(max(gap.max() for gap in gaps)) - INTERVAL)
