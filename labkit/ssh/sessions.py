"""The sessions of one address, on as many connections as its sshd makes necessary."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field

import paramiko

from labkit.errors import LabkitError, Unreachable
from labkit.files.pipe import Gone
from labkit.ssh.address import Address
from labkit.ssh.client import ALIVE_SECONDS, LOSSES, Client
from labkit.ssh.connection import CONNECT_SECONDS, connect
from labkit.ssh.shell import GRACE_SECONDS, TURN_SECONDS, Shell

# sshd allows 10 sessions on a connection (MaxSessions); the rest is for people who look on, and
# for asking a command to end.
SESSIONS = 8
RETRY_SECONDS = 0.02
# sshd counts a session that we closed until it looks round.
SETTLE_SECONDS = 0.5
# So that silence is noticed in 20 s, of which the kernel takes about 11 (TCP_USER_TIMEOUT).
SILENT_SECONDS = 8.0
# A host may say anything for a farewell.
LONGEST_REASON = 200


class Bell(threading.Event):
    """Rung by what comes on either stream of a channel; paramiko's own serves one stream."""

    def clear(self) -> None:
        """Do nothing: what was read does not mean that the other stream is empty."""

    def silence(self) -> None:
        """Stop ringing, before both streams are read."""
        super().clear()


@dataclass(eq=False)
class Connection:
    """One connection: how many sessions we hold on it, or have asked for, and when some ended."""

    client: Client
    held: int = 0
    asked: int = 0
    closed: deque[float] = field(default_factory=lambda: deque(maxlen=SESSIONS))
    refused: Counter[object] = field(default_factory=Counter)
    """In how many ways no shell came up there that could run many commands, and for whom."""
    resting: bool = False
    """Whether nobody answers there just now, nor is asked whether he is there."""
    spent: bool = False
    """Whether it can bear no further session."""

    # What is not answered in time ends a connection.
    def rest(self, resting: bool = True) -> None:
        """Send nothing that nobody asked for; or, unless it rests, ask whether it is alive."""
        if self.resting != resting:
            self.resting = resting
            self.client.set_keepalive(0 if resting else ALIVE_SECONDS)


class Session:
    """A channel of a connection: the streams of a shell; `report` is called once at its end."""

    def __init__(
        self, report: Callable[[Connection], object], connection: Connection,
        channel: paramiko.Channel,
    ) -> None:  # fmt: skip
        self.connection, self.channel = connection, channel
        self._report = report
        self._bell, self._roomless = Bell(), True
        self._closing = threading.Lock()
        self._closed = False
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)

    @property
    def ended(self) -> bool:
        """Whether both streams have ended, and have been read."""
        channel = self.channel
        over = bool(channel.eof_received or channel.closed)
        return over and not channel.recv_ready() and not channel.recv_stderr_ready()

    @property
    def lost(self) -> bool:
        """Whether they ended, or are about to, because the connection did."""
        # paramiko closes the channels of a lost connection before it calls it inactive.
        return self.cut_off or not self.connection.client.is_active()

    @property
    def cut_off(self) -> bool:
        """Whether sshd never said that they have ended, which it does where they have."""
        return bool(self.channel.closed and not self.channel.eof_received)

    @property
    def ender(self) -> str:
        """The end of the streams before their time, for people; with the party, if it is known."""
        if not self.lost:
            return "its shell was ended"
        party = " ".join(self.connection.client.ended_by().split())[:LONGEST_REASON]
        return f"the connection was lost ({party})" if party else "the connection was lost"

    def start(self, script: str) -> None:
        """Run a script, without waiting for an answer: its first output is one."""
        self._telling(lambda: self.connection.client.begin(self.channel, script))

    def send(self, part: bytes | memoryview) -> None:
        """Give it input."""
        if self._roomless:
            self._await_room()
        self._telling(lambda: self.channel.sendall(part))  # type: ignore[arg-type]

    # sshd has room for no input before it has begun what will read that. A session that never has
    # any has run nothing.
    def _await_room(self) -> None:
        until = time.monotonic() + CONNECT_SECONDS
        with self.channel.out_buffer_cv:
            while not (self.channel.out_window_size or self.channel.closed):
                if (seconds := until - time.monotonic()) <= 0:
                    raise Gone
                self.channel.out_buffer_cv.wait(min(seconds, TURN_SECONDS))
        self._roomless = False

    def finish(self) -> None:
        """End its input."""
        # paramiko can send that after it has closed the channel, and sshd takes it for the end of
        # another command's input.
        with self._closing:
            if not self._closed:
                self._telling(self.channel.shutdown_write)

    def recv(self, seconds: float) -> tuple[bytes, bytes]:
        """Read what has come on each stream."""
        if seconds and not self.ended:
            self._bell.wait(seconds)
        self._bell.silence()
        taken, channel = self.connection.client.taken, self.channel
        return taken(channel, channel.in_buffer), taken(channel, channel.in_stderr_buffer)

    def close(self) -> None:
        """Close the channel, once."""
        with self._closing:
            was_closed, self._closed = self._closed, True
            if was_closed:
                return
            if self.connection.client.one_at_a_time and not self._over():
                self.connection.spent = True
            with suppress(*LOSSES):
                self.channel.close()
        self._report(self.connection)

    # Whether its process has ended, which is said right behind the end of its streams.
    def _over(self) -> bool:
        if self.channel.eof_received:
            self.channel.status_event.wait(GRACE_SECONDS)
        return self.channel.exit_status_ready()

    def _telling(self, tell: Callable[[], object]) -> None:
        try:
            tell()
        except LOSSES as error:
            raise Gone from error


@dataclass
class Idle:
    """A shell that waits for the next command of somebody, and the session that it has."""

    whose: object
    shell: Shell
    session: Session


@dataclass
class Sessions:
    """Opens and closes sessions; any number of threads may ask."""

    at: Address
    _most: int = SESSIONS
    _fell_silent: float = -math.inf
    _failed: tuple[float, LabkitError] | None = None
    _connections: list[Connection] = field(default_factory=list)
    _idle: list[Idle] = field(default_factory=list)
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
                return Session(self._closed, connection, channel)
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

    def take(self, whose: object) -> Idle | None:
        """The idle shell of somebody that was used last."""
        with self._lock:
            for idle in reversed(self._idle):
                if idle.whose == whose:
                    self._idle.remove(idle)
                    idle.session.connection.rest(False)
                    return idle
        return None

    def keep(self, idle: Idle) -> None:
        """Keep a shell for the next command."""
        with self._lock:
            usable = idle.session.connection in self._connections
            if usable:
                self._idle.append(idle)
        if not usable:
            idle.session.close()

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

    def drop(self, connection: Connection) -> None:
        """Use a connection no more; another thread may have a new one already."""
        with self._lock:
            if connection.client.silence > 2 * ALIVE_SECONDS:
                self._fell_silent = time.monotonic()
            if connection in self._connections:
                self._connections.remove(connection)
            self._idle = [idle for idle in self._idle if idle.session.connection is not connection]
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
            parents = [*self._parents, *self._connections, *self._idle]
            self.__dict__.update(vars(Sessions(self.at, _parents=parents)))

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
        connection = next((link for link in live if link.held + link.asked < self._most), None)
        if not connection and self._idle:
            session = self._idle.pop(0).session
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

    # One session less on a connection.
    def _closed(self, connection: Connection) -> None:
        self._count(connection, held=-1)
        connection.closed.append(time.monotonic())
        if connection.spent:
            self.drop(connection)

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
            connection.rest(False)
        return self._connections


def _no_session(name: str, error: Exception) -> Unreachable:
    return Unreachable(
        f"{name}: the host is there but opens no session",
        said=str(error),
        hint=f"labkit uses up to {SESSIONS} at once; check MaxSessions in its sshd_config",
    )
