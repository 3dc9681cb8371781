"""The right to change a host, held by one process at a time, known by name."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.machine.process import LabkitProcess


@dataclass(frozen=True)
class Owner:
    """A process that changes hosts; `token` is what a host knows its lease by."""

    name: str
    controller: str
    pid: str
    started: str
    boot: str
    study: str
    token: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)

    @classmethod
    def me(cls, study: str) -> Owner:
        """The current process, at work on `study`."""
        me = LabkitProcess.me()
        return cls(me.name, me.controller, me.pid, me.started, me.boot, study)


@dataclass(frozen=True)
class Lease:
    """A host's record of its owner; `since` is by the host's clock."""

    token: str
    name: str
    controller: str
    pid: str
    started: str
    boot: str
    since: str
    study: str
    host_boot: str

    @classmethod
    def told(cls, fields: Sequence[str]) -> Lease:
        """The lease of an answer; what a torn line lacks is `?`."""
        return cls(*(*fields, *"?????????")[:9])

    def is_of(self, owner: Owner) -> bool:
        """Whether the same process has it."""
        keys = ("name", "controller", "pid", "started", "boot")
        return all(getattr(self, key) == getattr(owner, key) for key in keys)

    @property
    def ended(self) -> bool:
        """Whether its process ran on this very machine and runs no more, as far as can be seen."""
        return self._process.ended

    @property
    def _process(self) -> LabkitProcess:
        return LabkitProcess(self.name, self.controller, self.pid, self.started, self.boot)

    def __str__(self) -> str:
        return f"{self._process} since {self.since}, for {self.study}"
