"""Sessions of remote desktops: how many users a host bears before answers come too late."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.programs.packages import brings
from labkit.workload import Sample, Workload, choice, knob, steps_of
from labkit.workloads import _desktop
from labkit.workloads._desktop_users import ENCODINGS
from labkit.workloads._own_place import no_python

PROGRAMS = ("lowriter", "mupdf-gl", "netsurf-gtk", "xfreerdp", "xrdp")

MOST_USERS = 6
"""Each desktop holds a session of the one connection to its host, which has eight."""
PROTOCOLS = {"rfb": ("Xvnc",), "rdp": ("Xvnc", "xrdp", "xfreerdp")}
"""Protocols that a client is timed by, and the programs of each."""
TASKS = {"reading": "reader", "writing": "writer", "browsing": "browser"}
"""Names of applications, by what their users do."""
ROLES = {**dict.fromkeys(("mupdf-gl", "lowriter", "netsurf-gtk", "xrdp"), "server"),
         "xfreerdp": "client"}  # fmt: skip
"""Of those programs the ones that one role alone needs."""
SCREEN = {"encoding": "raw", "settle": 3.0}
"""Of a client's own screen: no line is between, and a viewer shows several pictures at first."""
BEGIN_SECONDS, START_SECONDS = 60.0, 3.0
PERCENT = 95
NEVER_SECONDS = 100.0
"""The time of a key that was never answered: longer than any that is waited for."""


@dataclass(frozen=True)
class DesktopSessions(Workload):
    """Users, each at a desktop of Xvnc on one server; more of them until a gate fails.

    A trial passes when 95 % of all keys show their picture at the client within `good` seconds, and
    no session fails. Pauses and the limit are shorter than those that people have.
    """

    roles = ("client", "server")
    loop = "open"
    name = "desktop_sessions"
    longest = 0.0
    """None: desktops end with their client."""
    measures = ("users", "response time", "slowest", "bandwidth", "start time")
    programs = ("Xvnc", "xrdp")
    ours = ("Xvnc", "Xtigervnc", "python3", "mupdf-gl", "netsurf-gtk", "soffice.bin", "oosplash",
            "xrdp", "xfreerdp")  # fmt: skip

    encoding: str = choice("tight", ENCODINGS)
    """The encoding of RFB; RDP has its own."""
    protocol: str = choice("rfb", PROTOCOLS)
    task: str = choice("reading", TASKS)
    steps: str = "2 3 4 5 6"
    """Numbers of users, tried in turn until one fails."""
    duration: float = knob(3.0, 0.5, 600)
    warm_up: float = knob(0.5, 0, 60)
    think: float = knob(0.4, 0.05, 60)
    good: float = knob(0.2, 0.01, 60)
    seed: int = 1

    def __post_init__(self) -> None:
        if not self._steps:
            hint = f"such as '1 2 4', each from 1 to {MOST_USERS}"
            raise BadInput(f"desktop sessions: steps cannot be {self.steps!r}", hint=hint)

    @property
    def _steps(self) -> list[int]:
        return steps_of(self.steps, MOST_USERS)

    @property
    def seconds(self) -> float:
        """About how long one run takes, if most steps pass."""
        return len(self._steps) * (self.duration + self.warm_up + START_SECONDS)

    @property
    def memory(self) -> int:
        """KiB of all desktops of the last step; an estimate from what one takes."""
        return self._application.kib * self._steps[-1]

    @property
    def _application(self) -> _desktop.Application:
        return _desktop.APPLICATIONS[TASKS[self.task]]

    @property
    def scaled(self) -> str:
        """The pauses and the limit, which the document does not print."""
        return f"users pause {self.think:g} s, and a picture takes {self.good:g} s at most"

    @property
    def tools(self) -> Mapping[str, str]:
        """Xvnc, and the application of its users."""
        names = (*PROTOCOLS[self.protocol], self._application.program)
        return {name: brings(name) for name in names}

    @property
    def only(self) -> Mapping[str, str]:
        """By RDP the client needs a display for FreeRDP as well."""
        return ROLES if self.protocol == "rdp" else {**ROLES, "Xvnc": "server"}

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Both need Python; for RDP the server needs what xrdp looks for."""
        missing = no_python(hosts.values())
        if missing or self.protocol == "rfb":
            return missing
        return _desktop.unreachable(hosts["server"])

    def run(self, hosts: Mapping[str, Host]) -> str:
        """One trial after the other until one fails; a line of JSON for each."""
        rows = []
        for count in self._steps:
            rows.append(self._trial(hosts, count))
            if not rows[-1]["passed"]:
                break
        if rows[0]["why"]:
            raise HostError(f"{hosts['server'].name}: no session lasts", said=rows[0]["why"][0])
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    def _trial(self, hosts: Mapping[str, Host], count: int) -> dict[str, Any]:
        fields = ("encoding", "warm_up", "think", "good", "seed")
        with ExitStack() as up:
            seats = _desktop.all_up(up, hosts["server"], count * [self._application])
            if self.protocol == "rdp":
                seats = _desktop.screens(up, seats, hosts["client"], self._application)
            task = {
                "desktops": [seat.place for seat in seats],
                "users": count, "seconds": self.duration, "begin": BEGIN_SECONDS,
                **{name: getattr(self, name) for name in fields}, **self._application.used,
                **(SCREEN if self.protocol == "rdp" else {}),
            }  # fmt: skip
            row = _desktop.look(hosts["client"], task, BEGIN_SECONDS + self.duration)
            reasons = [reason for seat in seats if (reason := seat.end()["why"])]
        return {**row, "passed": row["passed"] and not reasons, "why": reasons or [*row["failed"]]}

    def behind(self, text: str) -> float | None:
        """The share of keys that were pressed too late to tell, where it was largest."""
        rows = [_desktop.trial(line) for line in text.splitlines()]
        return max((float(row["behind"]) for row in rows if "behind" in row), default=None)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """The most users of a trial that passed, and what one user saw."""
        rows = [_desktop.trial(line) for line in text.splitlines()]
        if not rows or any(not isinstance(row.get("times"), list) for row in rows):
            raise ResultsError("desktop sessions: the run did not finish")
        first = rows[0]
        users = max((int(row["users"]) for row in rows if row["passed"]), default=0)
        rate = first["bytes"] / first["users"] / first["seconds"] / 1e3
        samples = [
            Sample.single("users", "1", users),
            Sample("response time", "ms", _milliseconds(first["times"])),
            Sample.single("bandwidth", "kB/s", rate),
            Sample("start time", "ms", _milliseconds(first["opened"])),
        ]
        slow = [slowest(row) for row in rows if row["times"]]
        return [*samples, Sample("slowest", "ms", np.array(slow))]


def _milliseconds(seconds: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return 1e3 * np.array([float(value) for value in seconds])


def slowest(row: Mapping[str, Any]) -> float:
    """The time within which 95 % of a trial's keys were answered, in ms; the rest is slower."""
    missing = [NEVER_SECONDS] * (row["keys"] - len(row["times"]))
    return float(1e3 * np.percentile([*row["times"], *missing], PERCENT))


def curve(text: str) -> list[tuple[int, float]]:
    """Users of each trial of a run, and the share of their keys that were answered in time."""
    rows = [_desktop.trial(line) for line in text.splitlines()]
    return [(row["users"], row["good"] / max(1, row["keys"])) for row in rows]
