"""A check: one thing that has to be right before a lab can measure, and what was found of it.

Checks only look. Each host is looked at by itself, all hosts at the same time, and a check whose
precondition failed is not made. A host that is silent costs seconds, never more.
"""

import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from labkit.changes.journal import Greeting, hello
from labkit.errors import BadInput, HostError, LabkitError
from labkit.host import Host
from labkit.lab import Lab
from labkit.ssh.address import Address, Target, resolved
from labkit.transports.local import Local

OK, WARNING, FAILURE, NOT_SEEN = "ok", "warning", "failed", "not looked at"
ABOUT = ("host", "pair", "lab")
"""Subjects of a check: each host, two hosts that a study has talk to each other, or all."""
HOST_SECONDS = 40.0
"""Seconds that all checks of one host may take, and equally those of a pair or of the lab."""
COMMAND_SECONDS = 10.0


@dataclass(frozen=True)
class Finding:
    """The result of one check at one place; `fix` is the one command, or line, that mends it."""

    state: str
    found: str
    said: str = ""
    fix: str = ""
    where: str = ""
    check: str = ""


@dataclass(frozen=True)
class Subject:
    """The subject of checks: a lab, and in it one host, two, or all; what is asked once is kept."""

    lab: Lab
    roles: tuple[str, ...]
    cut: frozenset[tuple[str, ...]] = frozenset()
    """Two hosts between which no test traffic goes."""

    @property
    def role(self) -> str:
        """The first host's role."""
        return self.roles[0]

    @property
    def host(self) -> Host:
        """The first host."""
        return self.lab.host(self.role)

    @property
    def where(self) -> str:
        """The roles, as a table shows them."""
        return " to ".join(self.roles)

    @property
    def table(self) -> str:
        """The place of the first host in the lab's file."""
        return f"[hosts.{self.role}] of {self.lab.path}"

    @cached_property
    def target(self) -> Target:
        """The sshd of the first host, as ssh's own files have it."""
        at = getattr(self.host.transport, "at", None)
        if not isinstance(at, Address):
            raise BadInput(f"{self.role} is not reached by SSH")
        return resolved(at)

    @property
    def here(self) -> bool:
        """Whether the first host is the machine that labkit runs on."""
        return isinstance(self.host.transport, Local)

    @cached_property
    def greeting(self) -> Greeting:
        """The first host's account of itself."""
        return hello(self.host)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that it is. A host with ESXi's tools is ESXi alone."""
        kinds = self.greeting.kinds
        return ("esxi",) if "esxi" in kinds else kinds

    def shown(self, script: str, *words: str) -> str:
        """Return the output of a few lines of shell on the first host."""
        return self.host.check("sh", "-c", script, "labkit", *words, seconds=COMMAND_SECONDS)

    def labkit(self, *words: str) -> str:
        """A command of labkit about this lab."""
        return shlex.join(["labkit", *words, "--lab", str(self.lab.path)])


Look = Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True)
class Check:
    """One check; it is made where the check named by `after` did not fail."""

    asks: str
    look: Look
    after: str = ""
    about: str = "host"
    kinds: tuple[str, ...] = ()
    """Kinds of host that it is about; empty for all."""
    name: str = ""
    by_ssh: bool = False
    """Whether it is about the way to a host by SSH, which this machine needs none of."""

    def made(self, place: Subject) -> list[Finding]:
        """The findings of the check at a place; an error is a finding too."""
        try:
            if self.by_ssh and place.here:
                return []
            if self.kinds and not set(self.kinds) & set(place.kinds):
                return []
            findings = list(self.look(place))
        except LabkitError as error:
            findings = [Finding(FAILURE, error.what, error.said, error.hint)]
        return [replace(f, check=self.name, where=f.where or place.where) for f in findings]


def check(
    asks: str,
    *,
    after: str = "",
    about: str = "host",
    kinds: tuple[str, ...] = (),
    by_ssh: bool = False,
) -> Callable[[Look], Check]:
    """Make a check of the function below, which gives it its name."""
    return lambda look: Check(asks, look, after, about, kinds, look.__name__, by_ssh)


@dataclass
class _Visit:
    # The checks of one place, one after another, in a thread that may be left behind.
    place: Subject
    checks: Sequence[Check]
    failed: set[str] = field(default_factory=set)
    found: list[Finding] = field(default_factory=list)
    at: str = ""
    _left: bool = False

    def through(self) -> None:
        for check in self.checks:
            self.at = check.name
            findings = self._make(check)
            if self._left:
                return
            self.found += findings
        self.at = ""

    def _make(self, check: Check) -> list[Finding]:
        if check.after in self.failed:
            self.failed.add(check.name)
            place = " on both" if check.about == "pair" and not self.found else ""
            reason = f"`{check.after}` has to be right first{place}"
            return [Finding(NOT_SEEN, reason, where=self.place.where, check=check.name)]
        findings = check.made(self.place)
        if any(finding.state == FAILURE for finding in findings):
            self.failed.add(check.name)
        return findings

    # Whatever the thread still finds is not waited for.
    def leave(self, seconds: float) -> list[Finding]:
        self._left = True
        if not self.at:
            return self.found
        place = self.place.where
        late = Finding(
            FAILURE, f"it had not answered after {seconds:.0f} s",
            fix="log in by hand: does the host hang?", where=place, check=self.at,
        )  # fmt: skip
        names = [check.name for check in self.checks]
        names_after = names[names.index(self.at) + 1 :]
        self.failed |= {self.at, *names_after}
        reason = f"`{self.at}` did not end"
        unseen = [Finding(NOT_SEEN, reason, where=place, check=name) for name in names_after]
        return [*self.found, late, *unseen]


def look_over(
    lab: Lab,
    checks: Sequence[Check],
    pairs: Iterable[tuple[str, str]],
    seconds: float = HOST_SECONDS,
) -> list[Finding]:
    """Make all checks: of the hosts, then of pairs of them, then of the lab."""
    by = {about: [check for check in checks if check.about == about] for about in ABOUT}
    hosts = [_Visit(Subject(lab, (role,)), by["host"]) for role in lab.hosts]
    findings = _make_all(hosts, seconds)
    failures = {visit.place.role: visit.failed for visit in hosts}
    two = [_Visit(Subject(lab, (a, b)), by["pair"], failures[a] | failures[b])
           for a, b in sorted(set(pairs))]  # fmt: skip
    findings += _make_all(two, seconds)
    well = tuple(role for role, wrong in failures.items() if "kind" not in wrong)
    cut = frozenset(visit.place.roles for visit in two if "path" in visit.failed)
    return [*findings, *_make_all([_Visit(Subject(lab, well, cut), by["lab"])], seconds)]


def _make_all(visits: Sequence[_Visit], seconds: float) -> list[Finding]:
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=visit.through, daemon=True) for visit in visits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return [finding for visit in visits for finding in visit.leave(seconds)]


def close(lab: Lab) -> None:
    """Let go of the hosts, in the background: one that hangs is not waited for."""

    def let_go() -> None:
        with suppress(HostError, OSError):
            lab.close()

    threading.Thread(target=let_go, daemon=True).start()
