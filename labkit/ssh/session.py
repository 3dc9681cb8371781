"""A connection, and one session on it: the streams of a shell."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import paramiko

from labkit.ssh.client import ALIVE_SECONDS, LOSSES, Client
from labkit.ssh.connection import CONNECT_SECONDS
from labkit.ssh.shell import GRACE_SECONDS, TURN_SECONDS, Gone

# sshd allows 10 sessions on a connection (MaxSessions); the rest is for people who look on, and
# for asking a command to end.
SESSIONS = 8


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

    def rest(self) -> None:
        """Nothing is sent that nobody asked for: what is not answered in time ends a connection."""
        self.resting = True
        self.client.set_keepalive(0)

    def wake(self) -> None:
        """From now on it is asked again whether it is alive."""
        if self.resting:
            self.resting = False
            self.client.set_keepalive(ALIVE_SECONDS)


class Session:
    """A channel of a connection: the streams of a shell; `closed` is called once at its end."""

    def __init__(
        self,
        report: Callable[[Connection], object],
        connection: Connection,
        channel: paramiko.Channel,
    ) -> None:
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
    def ended_by(self) -> str:
        """The party that ended the connection: a jump host on the way, or sshd, if it said why."""
        return self.connection.client.ended_by()

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
        client, channel = self.connection.client, self.channel
        return client.taken(channel, channel.in_buffer), client.taken(
            channel, channel.in_stderr_buffer
        )

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
