"""SSH by paramiko: connections are kept and reused; host keys always verified.

An ordinary command takes one way there and back, and no channel of its own: a shell that stays on
the host runs it. Where the host lacks what that takes, each command has a channel.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from labkit.errors import NothingRun, TimedOut, command_line
from labkit.files.pipe import Channel, Gone
from labkit.ssh.connection import CONNECT_SECONDS, Address
from labkit.ssh.sessions import SESSIONS, Idle, Session, Sessions
from labkit.ssh.shell import LOOPS, Kept, Late, Shell, for_any_shell, line
from labkit.ssh.sudo import Sudo
from labkit.ssh.through_shell import ThroughShell

# A shell that has been idle for longer, or whose connection stirs, is asked whether it is still
# there, before it is given a command whose fate nobody would know.
IDLE_SECONDS = 5.0
SPARE_SECONDS = 2.0


@dataclass
class Ssh(ThroughShell):
    """The paramiko transport to one address; any number of threads may use it."""

    at: Address
    sudo: Sudo | None = None
    _sessions: Sessions | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.name = self.at.name
        self._all = self._sessions or Sessions(self.at)

    def as_root(self, password: Callable[[], str] | None = None) -> Ssh:
        """The same host by the same connections, as root."""
        login = f"{self.at.user or 'root'}@{self.at.control}"
        return Ssh(self.at, Sudo.of(login, password), self._all)

    @property
    def reached_at(self) -> str:
        """The address that answered; empty while nobody is connected."""
        return self._all.reached_at

    def round_trip(self) -> float:
        """Seconds to the host's sshd and back."""
        return self._all.round_trip()

    def rest(self) -> None:
        """Keep the connections, and send nothing until the next command."""
        self._all.rest()

    def close(self) -> None:
        """Close the connections; the next command opens a new one."""
        self._all.close()

    @contextmanager
    def _turn(self, words: tuple[str, ...], seconds: float) -> Iterator[float]:
        with self._all.turn(seconds) as wait_seconds:
            if wait_seconds is None:
                raise TimedOut(
                    f"{self.name}: `{command_line(words)}` was not started within {seconds:g} s",
                    said=f"{SESSIONS} commands of ours were still running there",
                    hint="allow more time with seconds=, or fewer at once",
                )
            yield wait_seconds

    @contextmanager
    def _channel(self, script: str, spare: bool) -> Iterator[Channel]:
        seconds = SPARE_SECONDS if spare else CONNECT_SECONDS
        whole = f"exec sh -c {shlex.quote(script)}"
        with closing(self._start(whole, seconds, not spare)) as session:
            yield session

    @contextmanager
    def _loop(self, seconds: float) -> Iterator[Shell | None]:
        lent = self._take(seconds) or self._new(seconds)
        if lent is None:
            yield None
            return
        shell, session = lent.shell, lent.session
        try:
            yield shell
        finally:
            if not shell.up and session.ended and not session.lost:
                session.connection.refused[self.sudo] += 1
            if shell.fit:
                self._all.keep(lent)
            else:
                session.close()

    def _new(self, seconds: float) -> Idle | None:
        ways = LOOPS[self._all.usable().refused[self.sudo] :]
        if not ways:
            return None
        session = self._start(ways[0], min(max(seconds, 1.0), CONNECT_SECONDS))
        return Idle(self.sudo, Shell(session, once=False), session)

    def _take(self, seconds: float) -> Idle | None:
        while idle := self._all.take(self.sudo):
            lately = time.monotonic() - idle.shell.used < IDLE_SECONDS
            if idle.shell.fit and (
                (lately and not idle.session.connection.client.stirs)
                or self._answers(idle, seconds)
            ):
                return idle
            idle.session.close()
        return None

    # One that does not answer has run nothing, so another may take its place.
    def _answers(self, idle: Idle, seconds: float) -> bool:
        try:
            order = idle.shell.give(line(("true",)), Kept(0), Kept(0))
            idle.shell.wait(order, time.monotonic() + min(max(seconds, 1.0), CONNECT_SECONDS))
        except Gone:
            return False
        except Late:
            self._all.drop(idle.session.connection)
            return False
        return True

    # `script` is read by the login shell, which may be of any kind.
    def _start(self, script: str, seconds: float, patient: bool = True) -> Session:
        session = self._all.open(seconds, patient)
        try:
            session.start(for_any_shell(self.sudo.line(script) if self.sudo else script))
            if self.sudo:
                self.sudo.admit(session, self.name)
        except Gone as error:
            session.close()
            raise NothingRun(
                f"{self.name}: the connection was lost before anything was run",
                said=str(error.__cause__ or ""),
                hint="try again: the next command reconnects",
            ) from error
        except BaseException:
            session.close()
            raise
        return session
