"""The first command on a host in steps, from the login on: one thread does so on many hosts.

paramiko's thread begins on a connection when the command has ended, or goes on for longer than a
moment. Until then nobody else knows of the connection, and the one who does the steps hears it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from labkit.host import Completed
from labkit.machine.turns import Steps
from labkit.ssh.connection import CONNECT_SECONDS, connecting
from labkit.ssh.running import NotRun, Running
from labkit.ssh.session import Connection, Session
from labkit.ssh.sessions import Sessions
from labkit.ssh.shell import LONGEST_LINE, LOOPS, Gone, Shell

MOMENT_SECONDS = 0.1
# A shell gets what it has to know before its first command.
ROOM = LONGEST_LINE + 4096


@dataclass(frozen=True)
class First:
    """A command that somebody wants on a host that nobody may have logged in to."""

    sessions: Sessions
    given: Callable[[Shell], Running]
    """Gives it to a shell."""
    lent: Callable[[tuple[Shell, Session]], AbstractContextManager[object]]
    """Sees to it that the shell is kept for others, or closed."""

    def steps(self) -> Steps[Completed | None]:
        """How it ended; None where it was not run, for this is not the first command."""
        with self.sessions.turn(0) as waited:
            with self.sessions.first() as add:
                if waited is None or add is None:
                    return None
                connection = Connection((yield from connecting(self.sessions.at)))
                try:
                    begun = yield from self._begun(connection)
                except BaseException:
                    connection.client.close()
                    raise
                connection.client.start()
                add(connection)
            if begun is None:
                return None
            shell, session, command = begun
            with self.lent((shell, session)), suppress(NotRun), command:
                if not command.ended(0):
                    yield None
                return command.done
        return None

    def _begun(self, connection: Connection) -> Steps[tuple[Shell, Session, Running] | None]:
        session = yield from self._session(connection)
        if session is None:
            return None
        shell = Shell(session, once=False)
        command = self.given(shell)
        yield from connection.client.hears(command.heard, min(MOMENT_SECONDS, command.seconds))
        return shell, session, command

    # With a shell that is about to read.
    def _session(self, connection: Connection) -> Steps[Session | None]:
        client = connection.client
        channel = yield from client.opens_session(CONNECT_SECONDS)
        if channel is None:
            return None
        connection.held += 1
        session = Session(self.sessions, connection, channel)
        with suppress(Gone):
            session.start(LOOPS[0])
            yield from client.hears(
                lambda: bool(channel.out_window_size or channel.closed), CONNECT_SECONDS
            )
            if channel.out_window_size >= ROOM and not channel.closed:
                return session
        session.close()
        return None
