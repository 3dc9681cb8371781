"""The right to change a host, held by one process at a time, known by name."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.machine.process import NOT_SEEN, LabkitProcess


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
class Lease(LabkitProcess):
    """A host's record of the process that owns it; `since` is by the host's clock."""

    token: str = NOT_SEEN
    since: str = NOT_SEEN
    study: str = NOT_SEEN
    host_boot: str = NOT_SEEN

    @classmethod
    def told(cls, words: Sequence[str]) -> Lease:
        """The lease of an answer; what a torn line lacks is `?`."""
        token, name, controller, pid, started, boot, *rest = (*words, *9 * NOT_SEEN)[:9]
        return cls(name, controller, pid, started, boot, token, *rest)

    def is_of(self, owner: Owner) -> bool:
        """Whether the same process has it."""
        keys = ("name", "controller", "pid", "started", "boot")
        return all(getattr(self, key) == getattr(owner, key) for key in keys)

    def __str__(self) -> str:
        return f"{super().__str__()} since {self.since}, for {self.study}"
