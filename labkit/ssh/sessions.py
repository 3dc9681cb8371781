"""The sessions of one address, on as many connections as its sshd makes necessary."""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field

from labkit.errors import LabkitError, Unreachable
from labkit.ssh.address import Address
from labkit.ssh.client import ALIVE_SECONDS, LOSSES
from labkit.ssh.connection import CONNECT_SECONDS, connect
from labkit.ssh.session import SESSIONS, Connection, Session
from labkit.ssh.shell import Shell

RETRY_SECONDS = 0.02
# sshd counts a session that we closed until it looks round.
SETTLE_SECONDS = 0.5
# So that silence is noticed in 20 s, of which the kernel takes about 11 (TCP_USER_TIMEOUT).
SILENT_SECONDS = 8.0


@dataclass
class Sessions:
    """Opens and closes sessions; any number of threads may ask."""

    at: Address
    _most: int = SESSIONS
    _fell_silent: float = -math.inf
    _failed: tuple[float, LabkitError] | None = None
    _connections: list[Connection] = field(default_factory=list)
    _idle: list[tuple[object, Shell, Session]] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _connecting: threading.Lock = field(default_factory=threading.Lock)
    _free: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(SESSIONS))
    _process: int = field(default_factory=os.getpid)
    _parents: list[object] = field(default_factory=list)

    @contextmanager
    def turn(self, seconds: float) -> Iterator[float | None]:
        """Wait until fewer than the usual number of commands are running, but only so long.

        Yields the seconds that it took, or None when none of them has ended.
        """
        self._apart()
        start, free = time.monotonic(), self._free
        if not free.acquire(timeout=min(max(seconds, 0), threading.TIMEOUT_MAX)):
            yield None
            return
        try:
            yield time.monotonic() - start
        finally:
            free.release()

    def open(self, seconds: float, patient: bool = True) -> Session:
        """A new session. One that was not opened has run nothing, so trying again is safe.

        Where a connection hangs, a new one takes its place; but not for the impatient.
        """
        beginning, connections = time.monotonic(), 0
        while True:
            connection = self._pick(self._roomy)
            start = time.monotonic()
            try:
                channel = connection.client.open_session(timeout=seconds)
                self._count(connection, held=1)
                return Session(self.closed, connection, channel)
            except LOSSES as error:
                hangs = time.monotonic() - start >= seconds
                if hangs and not patient:
                    raise _no_session(self.at.name, error) from error
                if hangs or not connection.client.is_active():
                    self.drop(connection)
                    connections += 1
                else:
                    self._learn(connection)
                if connections == 2 or start - beginning > CONNECT_SECONDS:
                    raise _no_session(self.at.name, error) from error
                time.sleep(RETRY_SECONDS)
            finally:
                self._count(connection, asked=-1)

    def take(self, key: object) -> tuple[Shell, Session] | None:
        """The idle shell that was used last."""
        with self._lock:
            for idle in reversed(self._idle):
                if idle[0] == key:
                    self._idle.remove(idle)
                    idle[2].connection.wake()
                    return idle[1:]
        return None

    def keep(self, key: object, shell: Shell, session: Session) -> None:
        """Keep a shell for the next command."""
        with self._lock:
            usable = session.connection in self._connections
            if usable:
                self._idle.append((key, shell, session))
        if not usable:
            session.close()

    def usable(self) -> Connection:
        """A live connection; made if there is none."""
        return self._pick(lambda: next(iter(self._live()), None))

    def round_trip(self) -> float:
        """Seconds to sshd and back, by a request that every server has to answer."""
        self._apart()
        with self._lock:
            while True:
                connection, start = self.usable(), time.monotonic()
                with suppress(*LOSSES):
                    connection.client.global_request("keepalive@openssh.com", wait=True)
                if connection.client.is_active():  # how long a loss took is no round trip
                    return time.monotonic() - start
                self.drop(connection)

    @property
    def reached_at(self) -> str:
        """The address that answered; empty while nobody is connected."""
        with self._lock:
            return next((connection.client.reached_at for connection in self._live()), "")

    def closed(self, connection: Connection) -> None:
        """One session less on a connection."""
        self._count(connection, held=-1)
        connection.closed.append(time.monotonic())
        if connection.spent:
            self.drop(connection)

    def drop(self, connection: Connection) -> None:
        """Use a connection no more; another thread may have a new one already."""
        with self._lock:
            if connection.client.silence > 2 * ALIVE_SECONDS:
                self._fell_silent = time.monotonic()
            if connection in self._connections:
                self._connections.remove(connection)
            self._idle = [idle for idle in self._idle if idle[2].connection is not connection]
        connection.client.close()

    def rest(self) -> None:
        """Send nothing until somebody asks for a session."""
        with self._lock:
            for connection in self._connections:
                connection.rest()

    def close(self) -> None:
        """Close all connections; the next command opens a new one."""
        self._apart()
        with self._lock:
            for connection in list(self._connections):
                self.drop(connection)

    # A child of fork(2), such as multiprocessing makes, has our sockets but not the threads that
    # read them, and perhaps locks that nobody will open: it begins anew. What it has inherited is
    # kept, for paramiko would say goodbye for whatever is let go of.
    def _apart(self) -> None:
        if self._process != os.getpid():
            self._parents += [*self._connections, *self._idle]
            fresh = Sessions(self.at)
            self._connections, self._idle, self._failed = [], [], None
            self._lock, self._connecting, self._free = fresh._lock, fresh._connecting, fresh._free
            self._process = fresh._process

    # A connection that `pick` finds, or a new one.
    def _pick(self, pick: Callable[[], Connection | None]) -> Connection:
        start = time.monotonic()
        with self._lock:
            if connection := pick():
                return connection
        with self._connecting:
            with self._lock:
                if connection := pick():
                    return connection
            # Those who waited for a login that failed share its error, instead of failing in turn.
            if self._failed and self._failed[0] > start:
                raise copy(self._failed[1])
            # A host whose connection has just been lost in silence has had time to answer already.
            fell_silent = time.monotonic() - self._fell_silent < CONNECT_SECONDS
            try:
                client = connect(self.at, SILENT_SECONDS if fell_silent else CONNECT_SECONDS)
            except LabkitError as error:
                self._failed = time.monotonic(), error
                raise
            connection = Connection(client)
            with self._lock:
                if client.one_at_a_time:
                    self._most = 1
                # In how many ways no shell comes up there is known from its other connections.
                if self._connections:
                    connection.refused = self._connections[0].refused
                self._connections.append(connection)
                return pick() or connection

    # One that has room, where need be that of an idle shell.
    def _roomy(self) -> Connection | None:
        live = self._live()
        connection = next(
            (link for link in live if link.held + link.asked < self._most),
            None,
        )
        if not connection and self._idle:
            _, _, session = self._idle.pop(0)
            session.close()
            connection = None if session.connection.spent else session.connection
        # Those who end commands need no room of their own on a usual sshd.
        if not connection and self._most == SESSIONS:
            connection = next((link for link in live if link.held <= SESSIONS), None)
        if connection:
            connection.asked += 1
        return connection

    def _count(self, connection: Connection, held: int = 0, asked: int = 0) -> None:
        with self._lock:
            connection.held += held
            connection.asked += asked

    # sshd refused a session: its limit is what we hold there, and have just closed.
    def _learn(self, connection: Connection) -> None:
        with self._lock:
            late = time.monotonic() - SETTLE_SECONDS
            count = connection.held + sum(moment > late for moment in connection.closed)
            self._most = min(self._most, max(count, 1))

    def _live(self) -> list[Connection]:
        for connection in [link for link in self._connections if not link.client.is_active()]:
            self.drop(connection)
        for connection in self._connections:
            connection.wake()
        return self._connections


def _no_session(name: str, error: Exception) -> Unreachable:
    return Unreachable(
        f"{name}: the host is there but opens no session",
        said=str(error),
        hint=f"labkit uses up to {SESSIONS} at once; check MaxSessions in its sshd_config",
    )
