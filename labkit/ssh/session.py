"""A connection, and one session on it: the streams of a shell."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import paramiko
from paramiko.buffered_pipe import BufferedPipe
from paramiko.common import cMSG_CHANNEL_REQUEST, cMSG_CHANNEL_WINDOW_ADJUST

from labkit.ssh.bells import Ring
from labkit.ssh.connection import ALIVE_SECONDS, CONNECT_SECONDS, LOST, Client
from labkit.ssh.private import hidden
from labkit.ssh.shell import TURN_SECONDS, Gone

if TYPE_CHECKING:
    from labkit.ssh.sessions import Sessions

# sshd allows 10 sessions on a connection (MaxSessions); the rest is for people who look on, and
# for asking a command to end.
SESSIONS = 8
# All that has come: what is left in paramiko's buffer is moved each time.
MANY = 1 << 30


@dataclass(eq=False)
class Connection:
    """One connection: how many sessions we hold on it, or have asked for, and when some ended."""

    client: Client
    held: int = 0
    asked: int = 0
    closed: deque[float] = field(default_factory=lambda: deque(maxlen=SESSIONS))
    round_trip: float = math.inf
    asked_about: bool = False
    refused: Counter[object] = field(default_factory=Counter)
    """In how many ways no shell came up there that could run many commands, and for whom."""
    resting: bool = False
    """Whether nobody answers there just now, nor is asked whether he is there."""

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
    """A channel of a connection: the streams of a shell."""

    def __init__(self, owner: Sessions, connection: Connection, channel: paramiko.Channel) -> None:
        self.connection, self.channel = connection, channel
        self._owner = owner
        self._bell, self._room, self._roomless = Ring(), Ring(), True
        self._closing = threading.Lock()
        self._closed = False
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)
        channel.event = self._room

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
        """Who ended the connection: a jump host on the way, or sshd, if it said why."""
        return self.connection.client.ended_by()

    def start(self, script: str) -> None:
        """Run a script, without waiting for an answer: its first output is one."""
        request = paramiko.Message()
        request.add_byte(cMSG_CHANNEL_REQUEST)
        request.add_int(self.channel.remote_chanid)
        request.add_string("exec")
        request.add_boolean(True)
        request.add_string(script.encode("utf-8", "surrogateescape"))
        client = self.connection.client
        self._telling(lambda: client._send_user_message(request))

    def send(self, part: bytes | memoryview) -> None:
        """Give it input."""
        if self._roomless:
            self._await_room()
        # Until sshd has room it is nobody's output that has to be read.
        roomy = self.channel.out_window_size > len(part)
        with nullcontext() if roomy else self.connection.client.listening():
            self._telling(lambda: self.channel.sendall(part))  # type: ignore[arg-type]

    # sshd has room for no input before it has begun what will read that. A session that never has
    # any has run nothing.
    def _await_room(self) -> None:
        until = time.monotonic() + CONNECT_SECONDS
        while not (self.channel.out_window_size or self.channel.closed):
            if (left := until - time.monotonic()) <= 0:
                raise Gone
            self.connection.client.wait(self._room, min(left, TURN_SECONDS))
        self._roomless = False

    def finish(self) -> None:
        """End its input."""
        # paramiko can send that after it has closed the channel, and sshd takes it for the end of
        # another command's input.
        with self._closing:
            if not self._closed:
                self._telling(self.channel.shutdown_write)

    def recv(self, seconds: float) -> tuple[bytes, bytes]:
        """What has come on each stream."""
        channel = self.channel
        if not seconds:
            self._bell.wait(0)
        elif not self.ended:
            self.connection.client.wait(self._bell, seconds)
        out = self._taken(channel.in_buffer)
        err = self._taken(channel.in_stderr_buffer)
        return out, err

    # To read is also to let sshd know that there is room again. It may be gone, and paramiko's own
    # reading would then lose what it has read, though more may have come behind that.
    def _taken(self, buffer: BufferedPipe[bytes]) -> bytes:
        part = buffer.read(MANY) if buffer.read_ready() else b""
        if room := hidden(self.channel)._check_add_window(len(part)):
            adjust = paramiko.Message()
            adjust.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
            adjust.add_int(self.channel.remote_chanid)
            adjust.add_int(room)
            with suppress(*LOST):
                self.connection.client._send_user_message(adjust)
        return part

    def close(self) -> None:
        """Close the channel, once."""
        with self._closing:
            closed, self._closed = self._closed, True
            if closed:
                return
            with suppress(*LOST):
                self.channel.close()
        self._owner.closed(self.connection)

    def _telling(self, tell: Callable[[], object]) -> None:
        try:
            tell()
        except LOST as lost:
            raise Gone from lost
