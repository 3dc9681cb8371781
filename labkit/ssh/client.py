"""paramiko's connection as labkit uses it; the one module that knows paramiko's private parts.

A new paramiko may change any of them; `tests/ssh/test_client.py` says which is gone. Each is here
because paramiko has no public way to the same, and none for speed alone: see `docs/proof/speed.md`.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.buffered_pipe import BufferedPipe
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_FAILURE,
    cMSG_CHANNEL_REQUEST,
    cMSG_CHANNEL_WINDOW_ADJUST,
)
from paramiko.packet import Packetizer

from labkit.ssh.way import MOMENT_SECONDS, Carrier

PRIVATE: dict[type, dict[str, str]] = {
    paramiko.Transport: {
        "_channel_handler_table": "what a host sends beyond its window is refused",
        "_parse_disconnect": "why a host hung up",
        "_send_user_message": "nothing read is lost with a connection; scripts begin sooner",
        "_verify_key": "a host may not change its key when keys are exchanged again",
    },
    paramiko.Channel: {
        "_check_add_window": "what came before a connection was lost is read to its end",
        "_feed": "what a host sends beyond its window is refused",
        "_feed_extended": "what a host sends beyond its window is refused",
        "_request_failed": "a host that starts no shell is not taken for a lost connection",
    },
    AgentSSH: {"_connect": "an agent at another address than the environment's"},
}
"""The private members that we use of each class, and their purpose."""

# So often a connection on which nothing comes is asked whether it is alive.
ALIVE_SECONDS = 5
# Most hosts compute AES in hardware; 1.25 x paramiko's default choice. No CBC, which with MACs
# over the ciphertext is what Terrapin (CVE-2023-48795) breaks; paramiko has no chacha20 at all.
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
MACS = (
    "hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256", "hmac-sha2-512",
)  # fmt: skip
LOSSES = (paramiko.SSHException, EOFError, OSError)
# OpenSSH's own packets have 256 KiB at most; a host could else have us hold 4 GiB.
LARGEST = 1 << 20
# All that has come: what is left in paramiko's buffer is moved each time.
LARGE = 1 << 30


def _unhide(thing: object) -> Any:
    """The same, with the parts that its types leave out."""
    return thing


class Packets(Packetizer):
    """paramiko's packets, none of them larger than any that OpenSSH sends."""

    def readline(self, timeout: float) -> str:
        """A line before the keys; how long that may take is for `exchange_keys` to say."""
        return super().readline(math.inf)

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read `n` bytes, as paramiko does."""
        if n > LARGEST:
            raise paramiko.SSHException(f"a packet of {n} bytes")
        return super().read_all(n, check_rekey)


# It is the host that says no, and it has said all; what paramiko makes of that looks as if the
# connection had been lost.
def _nothing_started(channel: paramiko.Channel, message: paramiko.Message) -> None:
    channel.eof_received = True
    _unhide(channel)._request_failed(message)


Hand = Callable[[paramiko.Channel, paramiko.Message], None]


# sshd sends no more than it was given room for (RFC 4254, 5.2); paramiko would keep all of it.
def _in_its_window(hand: Hand) -> Hand:
    def feed(channel: paramiko.Channel, message: paramiko.Message) -> None:
        size = len(channel.in_buffer) + len(channel.in_stderr_buffer)
        if size > channel.in_window_size:
            raise paramiko.SSHException("the host sends more than it was given room for")
        hand(channel, message)

    return feed


class Client(paramiko.Transport):
    """paramiko's connection, with the key the host showed and the way that it runs over."""

    _channel_handler_table = {  # noqa: RUF012
        **_unhide(paramiko.Transport)._channel_handler_table,
        MSG_CHANNEL_FAILURE: _nothing_started,
        MSG_CHANNEL_DATA: _in_its_window(_unhide(paramiko.Channel)._feed),
        MSG_CHANNEL_EXTENDED_DATA: _in_its_window(_unhide(paramiko.Channel)._feed_extended),
    }

    def __init__(self, way: Carrier, algorithms: tuple[str, ...]) -> None:
        super().__init__(_unhide(way.end), packetizer_class=Packets)
        options = self.get_security_options()
        # Of the kinds of host key, certificates among them, those come first that we know it by.
        options.ciphers, options.digests, options.key_types = CIPHERS, MACS, algorithms
        self._way, self.shown, self._closing = way, b"", False
        self.reached_at = way.address
        """The address that answered; a name may have several, and not all of one machine."""
        self.farewell = ""
        """Why the host hung up, if it said so."""
        self.lost_on_the_way = ""
        """Which jump host or command, if any, took the connection with it when it ended."""
        self.set_keepalive(ALIVE_SECONDS)

    def exchange_keys(self, seconds: float) -> bool:
        """Whether the server said all in time; raises what went wrong."""
        self.start_client(timeout=seconds)
        if self.initial_kex_done:
            self._way.end.trust()
        return self.initial_kex_done

    # However the connection ends, its way goes too.
    def run(self) -> None:
        """paramiko's thread."""
        try:
            super().run()
        finally:
            if not self._closing:
                self.lost_on_the_way = self._way.broken()
            self._way.close()

    def ended_by(self) -> str:
        """The party that ended it, in words for people; empty if unknown."""
        # Its channels end a moment before it knows what went with it.
        self.join(2 * MOMENT_SECONDS)
        return self.lost_on_the_way or self.farewell

    def close(self) -> None:
        """End the connection, and what it runs over."""
        self._closing = True
        super().close()
        self._way.close()

    # Keys are exchanged again now and then. ssh looks at the key each time, paramiko does not.
    def _verify_key(self, host_key: bytes, sig: bytes) -> None:
        _unhide(super())._verify_key(host_key, sig)
        if self.shown and self.shown != host_key:
            raise paramiko.SSHException("the host showed another key than before")
        self.shown = host_key

    # paramiko reads it, and keeps it to itself.
    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()
        self.farewell = message.get_text()

    @property
    def one_at_a_time(self) -> bool:
        """Whether a session that ends there may end another that has not begun.

        Dropbear's may from 2022.82 to 2024.85: see its issue 321.
        """
        return "dropbear" in self.remote_version

    @property
    def stirs(self) -> bool:
        """Whether it has ended, or is about to."""
        return not self.is_active() or self._way.end.ended

    @property
    def silence(self) -> float:
        """Seconds since anything came; of one that is alive no more than between two keepalives."""
        return time.monotonic() - self._way.end.came

    @property
    def heard(self) -> str:
        """The last words of whatever answered, if it was no SSH server."""
        return self._way.end.heard

    def begin(self, channel: paramiko.Channel, script: str) -> None:
        """Have the login shell run a script, without waiting for an answer."""
        request = self._about(channel, cMSG_CHANNEL_REQUEST)
        request.add_string("exec")
        request.add_boolean(True)
        request.add_string(script.encode("utf-8", "surrogateescape"))
        _unhide(self)._send_user_message(request)

    # To read is also to let sshd know that there is room again. It may be gone, and paramiko's own
    # reading would then lose what it has read, though more may have come behind that.
    def taken(self, channel: paramiko.Channel, buffer: BufferedPipe[bytes]) -> bytes:
        """Read what has come on one stream of a channel."""
        part = buffer.read(LARGE) if buffer.read_ready() else b""
        if room := _unhide(channel)._check_add_window(len(part)):
            adjust = self._about(channel, cMSG_CHANNEL_WINDOW_ADJUST)
            adjust.add_int(room)
            with suppress(*LOSSES):
                _unhide(self)._send_user_message(adjust)
        return part

    @staticmethod
    def _about(channel: paramiko.Channel, kind: bytes) -> paramiko.Message:
        message = paramiko.Message()
        message.add_byte(kind)
        message.add_int(channel.remote_chanid)
        return message


def agent_at(connection: socket.socket, path: str) -> AgentSSH:
    """The agent at a path and its keys; no keys if none answers or the path is empty."""
    agent = AgentSSH()
    if path:
        with suppress(OSError, paramiko.SSHException):
            connection.connect(path)
            _unhide(agent)._connect(connection)
    return agent
