"""A logged-in SSH connection to a host whose key we know."""

from __future__ import annotations

import logging
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import paramiko
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_FAILURE,
    MSG_CHANNEL_REQUEST,
    MSG_CHANNEL_WINDOW_ADJUST,
)

from labkit.errors import Unreachable
from labkit.machine.turns import Awaited, Steps, finished
from labkit.ssh.address import NOT_READ, Target
from labkit.ssh.address import Address as Address
from labkit.ssh.bells import Bell
from labkit.ssh.conversation import Conversation
from labkit.ssh.known_hosts import KnownHosts
from labkit.ssh.login import log_in
from labkit.ssh.openssh import resolved
from labkit.ssh.private import hidden
from labkit.ssh.refusals import Refusals
from labkit.ssh.way import MOMENT_SECONDS, Carrier, through

CONNECT_SECONDS = 15.0
# So often a connection on which nothing comes is asked whether it is alive.
ALIVE_SECONDS = 5
# paramiko's, in another order: on an sshd that knows nothing newer, nistp256 costs its host 1.1 ms
# of CPU less for each login than curve25519, which OpenSSH computes without the CPU's help.
_FIRST = ("mlkem768x25519-sha256", "ecdh-sha2-nistp256")
KEX = tuple(sorted(
    hidden(paramiko.Transport)._preferred_kex,
    key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST),
))  # fmt: skip
# Most hosts compute AES in hardware; 1.25 x paramiko's default choice. No CBC, which with MACs
# over the ciphertext is what Terrapin (CVE-2023-48795) breaks; paramiko has no chacha20 at all.
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
MACS = (
    "hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256", "hmac-sha2-512",
)  # fmt: skip
EXCHANGING = "while exchanging keys"
LOST = (paramiko.SSHException, EOFError, OSError)
# What sshd says before it hangs up on an address that comes too often, if it says anything.
BUSY = ("Exceeded MaxStartups", "Not allowed at this time")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

# What goes wrong is raised; paramiko would print it besides, with a traceback.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


# paramiko passes over the message that says which signal ended a command, and reports -1.
def _channel_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
    begun = message.packet.tell()
    if message.get_text() == "exit-signal":
        message.get_boolean()
        known = signal.Signals.__members__.get(f"SIG{message.get_text()}", 0)
        channel.exit_status = 128 + known
        channel.status_event.set()
        return
    message.packet.seek(begun)
    hidden(channel)._handle_request(message)


# It is the host that says no, and it has said all; what paramiko makes of that looks as if the
# connection had been lost.
def _nothing_started(channel: paramiko.Channel, message: paramiko.Message) -> None:
    channel.eof_received = True
    hidden(channel)._request_failed(message)


Hand = Callable[[paramiko.Channel, paramiko.Message], None]


# sshd sends no more than it was given room for (RFC 4254, 5.2); paramiko would keep all of it.
def _in_its_window(hand: Hand) -> Hand:
    def fed(channel: paramiko.Channel, message: paramiko.Message) -> None:
        held = len(channel.in_buffer) + len(channel.in_stderr_buffer)
        if held > channel.in_window_size:
            raise paramiko.SSHException("the host sends more than it was given room for")
        hand(channel, message)

    return fed


# Whoever has input for a command waits for room himself, and is told by the channel's own event.
def _has_room(channel: paramiko.Channel, message: paramiko.Message) -> None:
    hidden(channel)._window_adjust(message)
    channel.event.set()


class Client(Conversation):
    """paramiko's connection, with the key the host showed and the way that it runs over."""

    _channel_handler_table = {  # noqa: RUF012
        **hidden(paramiko.Transport)._channel_handler_table,
        MSG_CHANNEL_FAILURE: _nothing_started,
        MSG_CHANNEL_REQUEST: _channel_request,
        MSG_CHANNEL_WINDOW_ADJUST: _has_room,
        MSG_CHANNEL_DATA: _in_its_window(hidden(paramiko.Channel)._feed),
        MSG_CHANNEL_EXTENDED_DATA: _in_its_window(hidden(paramiko.Channel)._feed_extended),
    }
    # paramiko computes these lists anew each time it asks for them, 14 times a login.
    preferred_kex, preferred_ciphers, preferred_macs = KEX, CIPHERS, MACS

    def __init__(self, way: Carrier, algorithms: tuple[str, ...]) -> None:
        super().__init__(way.end)
        self._way, self._algorithms = way, algorithms
        self.shown, self.kex, self._closing = b"", "", False
        self.farewell = ""
        """Why the host hung up, if it said so."""
        self.lost_on_the_way = ""
        """Which jump host or command, if any, took the connection with it when it ended."""
        self.set_keepalive(ALIVE_SECONDS)

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """The kinds of host key to ask for, certificates among them, in this order."""
        return self._algorithms

    # When the connection ends, however it does, its way goes too.
    def _end(self, failed: Exception | None) -> None:
        super()._end(failed)
        if not self._closing:
            self.lost_on_the_way = self._way.broken()
        self._way.close()

    @property
    def reached_at(self) -> str:
        """The address that answered; a name may have several, and not all of one machine."""
        return self._way.address

    def ended_by(self) -> str:
        """Who ended it, in words for people; empty when no one can say."""
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
        super()._verify_key(host_key, sig)
        if self.shown and self.shown != host_key:
            raise paramiko.SSHException("the host showed another key than before")
        self.shown = host_key
        # paramiko forgets it as soon as the new keys are in use.
        names = {kind: name for name, kind in self._kex_info.items()}
        self.kex = names[type(self.kex_engine)]

    # paramiko reads it, and keeps it to itself.
    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()
        self.farewell = message.get_text()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have paramiko's thread read, for what we wait for is no output."""
        with self._packets.needed():
            yield

    def wait(self, bell: Bell, seconds: float) -> None:
        """Wait for output, which rings the bell; what comes meanwhile is handed out."""
        self._packets.wait(bell, seconds, self._give)

    @property
    def stirs(self) -> bool:
        """Whether something has come that nobody has read yet, such as the connection's end."""
        return self._packets.stirs

    @property
    def silence(self) -> float:
        """Seconds since anything came; of one that is alive no more than between two keepalives."""
        return time.monotonic() - self._packets.came

    @property
    def heard(self) -> str:
        """The last words of whatever answered, if it was no SSH server."""
        return "\n".join(line.strip() for line in self._packets.lines if line.strip())


def connect(at: Address, seconds: float = CONNECT_SECONDS) -> Client:
    """A logged-in connection to a host whose key we know, or a typed error.

    It must answer within `seconds`; then each step has the usual time.
    """
    return _begun(finished(connecting(at, seconds)))


def _within(target: Target, seconds: float) -> Target:
    jump = target.jump and _within(target.jump, seconds)
    return replace(target, seconds=min(target.seconds, seconds), jump=jump)


def reached(target: Target) -> Client:
    """The same, for a host that ssh's files have been asked about, through its jump hosts."""
    return _begun(finished(_reached(target)))


def connecting(at: Address, seconds: float = CONNECT_SECONDS) -> Steps[Client]:
    """`connect` in steps. paramiko's thread has not begun there, so its maker hears the answers."""
    if at.ssh_config != NOT_READ or at.jump:
        yield None
    return (yield from _reached(_within(resolved(at), seconds)))


def _begun(client: Client) -> Client:
    client.start()
    return client


def _reached(target: Target) -> Steps[Client]:
    refusals = Refusals.of_user()
    refusals.check(target)
    known = KnownHosts.read(target.known_hosts)
    client = yield from _patiently(target, known.algorithms(target.known_as))
    try:
        who = f"{target.name}{_other(target, client)}"
        known.verify(who, target.known_as, client.shown, target.trust)
        yield from log_in(client, target, refusals)
    except BaseException as failed:
        client.close()
        if isinstance(failed, LOST):
            said = client.farewell or str(failed) or "it hung up"
            raise _failed(target, client, "while logging in", said) from failed
        raise
    return client


class _TurnedAwayError(Exception):
    pass


def shaken_hands(target: Target, algorithms: tuple[str, ...]) -> Client:
    """A connection whose keys are exchanged; the host's key is not judged yet."""
    return finished(_patiently(target, algorithms))


# A server with too many logins under way turns some away at random (sshd_config(5), MaxStartups):
# these are tried again, ever more slowly.
def _patiently(target: Target, algorithms: tuple[str, ...]) -> Steps[Client]:
    begun, attempts = time.monotonic(), 0
    while True:
        try:
            return (yield from _shaken_hands(target, algorithms))
        except _TurnedAwayError as busy:
            pause = min(FIRST_PAUSE * 2**attempts, LONGEST_PAUSE) * random.uniform(0.5, 1.0)
            attempts += 1
            if time.monotonic() + pause - begun > CONNECT_SECONDS:
                raise Unreachable(
                    f"{target.name}: {target.address} port {target.port} refuses new connections"
                    f" from this address: {attempts} in {CONNECT_SECONDS:g} s",
                    said=str(busy) or "it hangs up before it says anything",
                    hint="wait, and see MaxStartups and PerSourcePenalties in its sshd_config",
                ) from None
            yield Awaited(time.monotonic() + pause)


def _shaken_hands(target: Target, algorithms: tuple[str, ...]) -> Steps[Client]:
    client = Client((yield from through(target, reached)), algorithms)
    try:
        answered = yield from client.exchange_keys(CONNECT_SECONDS)
        if answered and client.is_active():
            return client
        failed = client.get_exception()
        raise _no_session(target, client, failed, answered) from failed
    except BaseException:
        client.close()
        raise


def _no_session(
    target: Target, client: Client, failed: Exception | None, answered: bool
) -> Exception:
    ended = str(failed or "") or "it hung up"
    said = ended if answered else f"nothing within {CONNECT_SECONDS:g} s"
    if client.lost_on_the_way:
        return _failed(target, client, "on the way", client.lost_on_the_way)
    if client.remote_version:
        return _failed(target, client, EXCHANGING, client.farewell or said)
    heard = client.heard
    if heard.startswith(BUSY) or (answered and not heard):
        return _TurnedAwayError(heard)
    return Unreachable(
        f"{target.name}: no SSH session with {target}{_other(target, client)}:"
        f" no SSH banner in {CONNECT_SECONDS:g} s",
        said=heard or said,
        hint="check the port of its sshd" if heard else "does the host hang?",
    )


# Of the addresses of a name one may be wrong, and it is not always the same that answers.
def _other(target: Target, client: Client) -> str:
    same = client.reached_at.split(" ")[0] == target.address
    return "" if same else f" (at {client.reached_at})"


def _failed(target: Target, client: Client, when: str, said: str) -> Unreachable:
    return Unreachable(
        f"{target.name}: no SSH session with {target}{_other(target, client)}: failed {when}",
        said=said,
        hint=f"try `ssh -p {target.port} {target.user}@{target.address} true`",
    )
