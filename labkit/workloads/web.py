"""A web of three shapes on nginx: how many users its servers bear within limits of time."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labkit.errors import BadInput, HostError, ResultsError, Unknown, absence
from labkit.host import Host
from labkit.machine.scripts import beside, by_nginx
from labkit.machine.stopping import together
from labkit.probes.ready_time import ReadyTime, between
from labkit.programs.packages import brings
from labkit.setting import Words
from labkit.workload import Sample, Workload, knob, steps_of
from labkit.workloads._brought import bring, could_bring
from labkit.workloads._own_place import no_python, own_file, own_scratch
from labkit.workloads._sections import joined, parted, read_number, read_object
from labkit.workloads._server import serving

PROGRAMS = ("nginx", "openssl", "perl", "python3")

MOST_SERVERS = 16
SERVERS = tuple(f"server{n or ''}" for n in (0, *range(2, MOST_SERVERS + 1)))
SERVE, APP = by_nginx(__file__, "web_serve.sh"), beside(__file__, "web_app.pl")
SECURE = 500
"""TLS listens this many ports above, below those that Linux gives to clients."""
READY_SECONDS = 120
IDENTITY = beside(__file__, "web_identity.sh")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)
FIND = "PATH=$PATH:/usr/sbin; command -v nginx"
SITES = tomllib.loads(beside(__file__, "_web_sites.toml"))
"""The pages of each shape of use."""
TRACED = beside(__file__, "web_traced.sh")
EXITS = "exits"
NAME = re.compile(r"(\w+), servers (\d{1,2}): (search|hold|exits|host before|host after)", re.ASCII)


@dataclass(frozen=True)
class WebSessions(Workload):
    """Users of a bank, a shop and a place to download from, at nginx and an application behind it.

    Users come and ask on schedules of their own, whatever is answered (`_web_users.py`). As many as
    possible are found by bisection: 95 % of the pages have to be there within `good` seconds, 99 %
    within `tolerable`, all images included. Limits and pauses are a tenth of the document's.
    """

    roles = ("client", "host", *SERVERS)
    beside = ("host",)
    loop = "open"
    measures = ("throughput", "sessions", "score", "latency", "cpu per byte", "exits",
                "generator busy", "late")  # fmt: skip
    programs = ("nginx", "perl", "python3")
    ours = ("nginx", "perl", "python3")
    needs = ("openssl",)
    only: ClassVar[Mapping[str, str]] = {"openssl": "client"}
    name = "web"
    longest = 0.0
    """None: what guests used is read between its commands."""

    shapes: str = "banking shop download"
    steps: str = "1"
    """Numbers of servers, from few to all: users are dealt out to these."""
    sessions: int = knob(0, 0, 10_000)
    """Users in each trial; 0 searches for the most."""
    start: int = knob(16, 1, 10_000)
    step: float = knob(0.15, 0.01, 1)
    """The part of the result by which two trials of the search differ at last."""
    duration: float = knob(1.0, 0.2, 3600)
    warm_up: float = knob(0.4, 0, 600)
    think: float = knob(1.0, 0.01, 60)
    good: float = knob(0.3, 0.01, 60)
    tolerable: float = 0.5
    seed: int = 1
    guests: tuple[str, ...] = ()
    """The host's names for the guests that serve, whose CPU time is taken; empty: none do."""

    exits: bool = False
    """Whether to count what the first guest's hypervisor is entered for."""

    def __post_init__(self) -> None:
        for shape in self.shapes.split() or [""]:
            if shape not in SITES:
                raise Unknown("shape of web", shape, SITES)
        if not self._steps:
            raise BadInput(f"web: steps are numbers of servers as '1 2 4', not {self.steps!r}")
        self.insist_between("tolerable", self.tolerable, self.good, 600)

    @property
    def _steps(self) -> list[int]:
        return steps_of(self.steps, MOST_SERVERS)

    @property
    def seconds(self) -> float:
        """About how long one run takes: some seven trials for each step and shape."""
        trials = 2 if self.sessions else 8
        step_seconds = trials * (self.duration + self.warm_up)
        return 5.0 + len(self._steps) * len(self.shapes.split()) * step_seconds

    @property
    def scaled(self) -> str:
        """The pauses and limits, beside those of the document's users."""
        return f"users pause {self.think:g} s (10 there), pages take {self.good:g} s (3 there)"

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """The client needs Python, each server nginx."""
        if missing := no_python([hosts["client"]]):
            return missing
        for host in self._servers(hosts):
            if not host.run("sh", "-c", FIND).ok and not could_bring("nginx", host):
                return absence("nginx", host.name, brings("nginx"))
        return ""

    def _servers(self, hosts: Mapping[str, Host]) -> list[Host]:
        servers = {hosts[role].name: hosts[role] for role in SERVERS[: self._steps[-1]]}
        return list(servers.values())

    def run(self, hosts: Mapping[str, Host]) -> str:
        """For each number of servers and each shape: search, hold what was found, and look."""
        client, parts = hosts["client"], dict[str, str]()
        identity = client.check("sh", "-c", IDENTITY)
        users = own_file(client, "web_users", beside(__file__, "_web_users.py").encode(), 0o644)
        with ExitStack() as up:
            program, servers = up.enter_context(users), self._servers(hosts)
            contexts = [_serve(host, identity) for host in servers]
            ports = together(up.enter_context, contexts, len(contexts))
            at = [(host.address, port) for host, port in zip(servers, ports, strict=True)]
            starts = dict.fromkeys(self.shapes.split(), self.start)
            for count in self._steps:
                for shape in starts:
                    task = self._request(shape, at[:count], identity) | {"start": starts[shape]}
                    name = f"{shape}, servers {count}"
                    parts |= self._stretch(hosts, name, count, ("python3", program), task)
                    starts[shape] = max(self.start, task["sessions"])
        return joined(parts)

    def _stretch(
        self, hosts: Mapping[str, Host], name: str, count: int, words: Words, task: dict[str, Any]
    ) -> dict[str, str]:
        client, parts = hosts["client"], dict[str, str]()

        def drive() -> str:
            return client.check(*words, json.dumps(task), seconds=60 + 5 * self.seconds)

        if not self.sessions:
            parts[f"{name}: search"] = found = drive()
            # Without one that was passed, the search has said why.
            task["sessions"] = max(int(t["sessions"]) for t in _trials(found) if t["passed"])
        if guests := self.guests[:count]:
            with ReadyTime(guests).watching(hosts["host"], self.duration) as window:
                parts[f"{name}: hold"] = drive()
            parts |= {f"{name}: host before": window.before, f"{name}: host after": window.after}
        else:
            parts[f"{name}: hold"] = drive()
        if self.exits and self.guests:
            with _trace(hosts["host"], self.guests[0]) as lines:
                trial = drive()
            parts[f"{name}: exits"] = f"{trial}{lines[0]}"
        return parts

    def _request(
        self, shape: str, servers: Sequence[tuple[str, int]], identity: str
    ) -> dict[str, Any]:
        certificate = CERTIFICATE.search(identity)
        if not certificate:
            raise HostError("web: openssl made no certificate", said=identity[-200:])
        fields = ("sessions", "start", "step", "warm_up", "think", "good", "tolerable", "seed")
        return {
            "site": shape, "pages": SITES[shape],
            "servers": [[at, port, port + SECURE] for at, port in servers],
            "identity": certificate[0], "seconds": self.duration, "most": 10_000,
            **{name: getattr(self, name) for name in fields},
        }  # fmt: skip

    def behind(self, text: str) -> float | None:
        """The share of pages that were asked for too late to tell, where it was largest."""
        shares = (float(trial["behind"]) for name, part in parted(text).items()
                  if name.endswith("hold") for trial in _trials(part))  # fmt: skip
        return max(shares, default=None)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Of each shape at each number of servers, and of all shapes together."""
        parts = parted(text)
        holds: dict[int, list[dict[str, Any]]] = {}
        for part in parts:
            match = NAME.fullmatch(part)
            if not match:
                raise ResultsError("web: part of the output is not recognized", said=part)
            if match[3] == "hold":
                count = int(match[2])
                holds.setdefault(count, []).append(_hold(parts, match[1], count))
        if not holds:
            raise ResultsError("web: the run did not finish: no trial was held")
        points = len(holds) > 1 or max(holds) > 1
        samples = []
        for count, shapes in holds.items():
            point = f"vms={count}" if points else ""
            for hold in shapes:
                at = ", ".join(filter(None, [point, f"load={hold['shape'].capitalize()}"]))
                samples.append(Sample.single(f"throughput [{at}]", "Gbit/s", hold["rate"]))
                samples.append(Sample.single(f"sessions [{at}]", "1", hold["sessions"]))
            samples += _all_of(shapes, point)
        return samples + (_all_of(holds[max(holds)], "") if points else [])


def _all_of(shapes: Sequence[Mapping[str, Any]], point: str) -> list[Sample]:
    at = f" [{point}]" if point else ""
    times = np.array([1000 * time for hold in shapes for time in hold["times"]])
    sessions = [hold["sessions"] for hold in shapes]
    figures: dict[tuple[str, str], Any] = {
        ("throughput", "Gbit/s"): np.mean([hold["rate"] for hold in shapes]),
        ("sessions", "1"): np.mean(sessions),
        ("score", "1"): math.exp(np.mean([math.log(users) for users in sessions])),
        ("generator busy", "share"): max(hold["busy"] for hold in shapes),
        ("late", "ms"): 1000 * max(hold["late"] for hold in shapes),
    }  # fmt: skip
    for name, unit in (("cpu per byte", "ns"), (EXITS, "1/page")):
        if values := [hold[name] for hold in shapes if name in hold]:
            figures[name, unit] = np.mean(values)
    samples = [Sample.single(f"{name}{at}", unit, value) for (name, unit), value in figures.items()]
    return [*samples, Sample(f"latency{at}", "ms", times)]


# What one shape did at the number of users that was held: the trial, its Gbit/s, and what a byte
# and a page cost the guests, where that was looked at.
def _hold(parts: Mapping[str, str], shape: str, count: int) -> dict[str, Any]:
    name = f"{shape}, servers {count}"
    hold = {"shape": shape, **_trials(parts[f"{name}: hold"])[-1]}
    if not hold["times"] or not hold["sessions"]:
        raise ResultsError(f"web: no page came in time: {name}", said=str(hold["failed"]))
    hold["rate"] = 8e-9 * hold["bytes"] / hold["seconds"]
    looks = [parts.get(f"{name}: host {moment}", "") for moment in ("before", "after")]
    if all(looks):
        hold["cpu per byte"] = 1e9 * between(*looks).ran() / hold["bytes"]
    trial, *counted = _trials(parts.get(f"{name}: exits", "")) or [{}]
    if counted and EXITS in counted[0]:
        hold[EXITS] = counted[0][EXITS] / trial["pages"]
    return hold


NUMBERS = ("sessions", "pages", "bytes", "seconds", "busy", "late")


def _trials(text: str) -> list[dict[str, Any]]:
    problem = "web: a trial cannot be read"
    try:
        return [_trial(read_object(line, problem)) for line in text.splitlines()]
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(problem, said=str(error)) from None


def _trial(row: dict[str, Any]) -> dict[str, Any]:
    if row.keys() <= {EXITS}:
        return {name: float(value) for name, value in row.items()}
    numbers = {name: read_number(row, name, "web") for name in NUMBERS}
    rest = {"passed": row["passed"], "failed": row["failed"]}
    return row | numbers | rest | {"times": [float(seconds) for seconds in row["times"]]}


@contextmanager
def _serve(host: Host, identity: str) -> Iterator[int]:
    if not host.run("sh", "-c", FIND).ok:
        bring("nginx", host)
    with own_scratch(host, "web", "711") as folder:
        host.put(APP.encode(), f"{folder}/app.pl", 0o644)
        host.put(identity.encode(), f"{folder}/identity.pem", 0o600)
        host.put(SERVE.encode(), f"{folder}/serve.sh", 0o644)

        def words(port: int) -> Words:
            return ("sh", f"{folder}/serve.sh", folder, host.address, str(port), str(port + SECURE))

        with serving(host, words, seconds=READY_SECONDS) as port:
            yield port


@contextmanager
def _trace(host: Host, guest: str) -> Iterator[list[str]]:
    lines: list[str] = []
    before = host.check("sh", "-c", TRACED, "traced", guest, "begin").strip()
    try:
        yield lines
    finally:
        after = host.check("sh", "-c", TRACED, "traced", guest, "end").strip()
        lines.append(json.dumps({EXITS: int(after) - int(before)} if before and after else {}))


def curve(text: str, shape: str) -> list[tuple[int, float]]:
    """Users, and the share of good pages, in a run's trials of one shape at the most servers."""
    parts = parted(text)
    matches = {name: match for name in parts if (match := NAME.fullmatch(name))}
    servers = max((int(match[2]) for match in matches.values()), default=0)
    names = {f"{shape}, servers {servers}: {kind}" for kind in ("search", "hold")}
    return [
        (trial["sessions"], trial["good"] / max(1, trial["pages"]))
        for name in parts if name in names
        for trial in _trials(parts[name])
    ]  # fmt: skip
