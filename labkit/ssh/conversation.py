"""What both ends of an SSH connection say until a login has worked, heard in one thread.

paramiko has a thread that hears all and wakes those who wait: two changes of thread for each step
of a login. Here that thread begins when the login is over, for what nobody waits for.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import paramiko
from paramiko.common import (
    MSG_CHANNEL_OPEN_FAILURE,
    MSG_CHANNEL_OPEN_SUCCESS,
    MSG_DEBUG,
    MSG_DISCONNECT,
    MSG_GLOBAL_REQUEST,
    MSG_IGNORE,
    MSG_KEXINIT,
    MSG_UNIMPLEMENTED,
    cMSG_CHANNEL_OPEN,
    cMSG_KEXINIT,
    cMSG_UNIMPLEMENTED,
)
from paramiko.packet import NeedRekeyException
from paramiko.ssh_exception import MessageOrderError
from paramiko.transport import _active_threads  # type: ignore[attr-defined]

from labkit.machine.turns import Steps
from labkit.ssh.bells import Ring
from labkit.ssh.packets import Packets
from labkit.ssh.private import OpenAuthHandler, OpenTransport, hidden

KEX_KINDS = range(30, 42)
STRICT = "kex-strict-c-v00@openssh.com"
# sshd says which other keys it has just before it opens the first channel.
ABOUT_CHANNELS = {MSG_CHANNEL_OPEN_SUCCESS, MSG_CHANNEL_OPEN_FAILURE, MSG_GLOBAL_REQUEST}
# A signal that comes just as a wait begins, Ctrl-C too, is seen when it ends: so none is long.
TURN_SECONDS = 1.0


# RFC 4253, 7.1: what protects each direction is said twice, and then that no guess follows.
@lru_cache(maxsize=16)
def _offered(
    kex: tuple[str, ...], keys: tuple[str, ...], ciphers: tuple[str, ...], macs: tuple[str, ...],
    compression: tuple[str, ...],
) -> bytes:  # fmt: skip
    made = paramiko.Message()
    for names in (kex, keys, ciphers, ciphers, macs, macs, compression, compression, (), ()):
        made.add_list(names)
    made.add_boolean(False)
    made.add_int(0)
    return made.asbytes()


class _Login(OpenAuthHandler):
    """Says who we are in one breath with the wish to say so: one way there and back less."""

    # What RSA keys sign with depends on what sshd says first, on its own or with its answer.
    def _request_auth(self) -> None:
        assert self.private_key is not None
        self._said = "rsa" not in self.private_key.get_name()
        with self.transport.in_one():
            super()._request_auth()
            if self._said:
                accepted = paramiko.Message()
                accepted.add_string("ssh-userauth")
                super()._parse_service_accept(paramiko.Message(accepted.asbytes()))

    def _parse_service_accept(self, message: paramiko.Message) -> None:
        if not self._said:
            super()._parse_service_accept(message)


class Conversation(OpenTransport):
    """paramiko's connection, whose thread begins once we are logged in."""

    def __init__(self, end: Any) -> None:
        super().__init__(end, packetizer_class=Packets)
        assert isinstance(self.packetizer, Packets)
        self._packets = self.packetizer
        self.in_one = self._packets.in_one
        self._secret: tuple[object, object, bytes] = None, None, b""

    def exchange_keys(self, seconds: float) -> Steps[bool]:
        """Whether the server said all in time, for its banner and then for its keys.

        `is_active` says whether it went well, and `get_exception` says what went wrong.
        """
        self.active = True
        # Whoever reads a line waits for it no longer than for all of them.
        self.banner_timeout = seconds
        greeted = yield from self._in_time(self._greet(), seconds)
        return greeted and (yield from self.hears(lambda: self.initial_kex_done, seconds))

    def offer(self, user: str, key: paramiko.PKey, seconds: float) -> Steps[None]:
        """Log in with a key, as paramiko's `auth_publickey`."""
        decided = threading.Event()
        self.auth_handler, self.auth_timeout = _Login(self), 0.0
        self.auth_handler.auth_publickey(user, key, decided)
        yield from self.hears(decided.is_set, seconds)
        self.auth_handler.wait_for_response(decided)

    def run(self) -> None:
        """paramiko's thread: hears what nobody else does, to the end."""
        _active_threads.append(self)
        failed: Exception | None = None
        try:
            while self.active:
                if self._packets.need_rekey() and not self.in_kex:
                    self._send_kex_init()
                try:
                    heard = self._packets.read_message()
                except NeedRekeyException:
                    continue
                if not self._take(*heard):
                    break
        except Exception as wrong:
            failed = wrong
        finally:
            _active_threads.remove(self)
            self._end(failed)

    # Our first list of algorithms does not depend on what the server says.
    def _greet(self) -> Steps[None]:
        with self.in_one():
            self._packets.write_all(f"{self.local_version}\r\n".encode())
            self._send_kex_init()
        while not self._packets.has_banner():
            yield self._packets.awaited()
        self._check_banner()
        self._expect_packet(MSG_KEXINIT)

    # What paramiko sends, made once for all hosts that are asked for the same kinds of key.
    def _send_kex_init(self) -> None:
        with self.clear_to_send_lock:
            self.clear_to_send.clear()
        self.in_kex = True
        offered = _offered(
            (*self.preferred_kex, "ext-info-c", STRICT),
            tuple(self.preferred_keys), self.preferred_ciphers, self.preferred_macs,
            self.preferred_compression,
        )  # fmt: skip
        said = cMSG_KEXINIT + os.urandom(16) + offered
        self.local_kex_init = self._latest_kex_init = said
        self._send_message(paramiko.Message(said))

    def hears(self, done: Callable[[], bool], seconds: float) -> Steps[bool]:
        """Hear what comes until that is done, while paramiko's thread has not begun.

        Returns whether it was done in time, or never can be.
        """
        return (yield from self._in_time(self._hear(done), seconds))

    def _in_time(self, steps: Steps[None], seconds: float) -> Steps[bool]:
        self._packets.start_handshake(seconds)
        try:
            yield from steps
        except Exception as failed:
            if self._packets.handshake_timed_out():
                return False
            self._end(failed)
        finally:
            self._packets.complete_handshake()
        return True

    def _hear(self, done: Callable[[], bool]) -> Steps[None]:
        while self.active and (self.in_kex or not done()):
            if not self._packets.told:
                yield None
            heard = self._packets.arrived()
            if heard is None:
                yield self._packets.awaited()
            elif not self._take(*heard):
                self._end(None)

    # One message, as paramiko's own thread would take it; False when it is the last.
    def _take(self, kind: int, message: paramiko.Message) -> bool:
        if kind == MSG_DISCONNECT:
            self._parse_disconnect(message)
            return False
        if kind in (MSG_IGNORE, MSG_DEBUG):
            self._enforce_strict_kex(kind)
            return True
        if self._expected_packet:
            self._check_turn(kind)
            if kind in KEX_KINDS:
                hidden(self.kex_engine).parse_next(kind, message)
                return True
        if kind in self._handler_table:
            self._handler_table[kind](message)
            return True
        if kind in self._channel_handler_table:
            return self._take_of_channel(kind, message)
        login = hidden(self.auth_handler)._handler_table if self.auth_handler else {}
        if kind in login:
            login[kind](message)
        elif kind != MSG_UNIMPLEMENTED:
            answer = paramiko.Message()
            answer.add_byte(cMSG_UNIMPLEMENTED)
            answer.add_int(message.seqno)
            self._send_message(answer)
        return True

    def _check_turn(self, kind: int) -> None:
        expected: tuple[int, ...] = self._expected_packet
        self._expected_packet = ()
        if kind not in expected:
            strict = self.agreed_on_strict_kex
            wrong = MessageOrderError if strict else paramiko.SSHException
            raise wrong(f"Expecting packet from {expected!r}, got {kind:d}")

    # One that is closed may still be spoken of; of one that never was nobody may speak.
    def _take_of_channel(self, kind: int, message: paramiko.Message) -> bool:
        number = message.get_int()
        channel = self._channels.get(number)
        if channel is not None:
            self._channel_handler_table[kind](channel, message)
        return channel is not None or number in self.channels_seen

    # Whoever waits for anything hears that it will not come.
    def _end(self, failed: Exception | None) -> None:
        self.saved_exception = failed or self.saved_exception
        for channel in self._channels.values():
            channel._unlink()
        if self.active:
            self.active = False
            self._packets.close()
            waiting = [self.completion_event, *self.channel_events.values()]
            for event in filter(None, waiting):
                event.set()
            if self.auth_handler is not None:
                self.auth_handler.abort()
        self.sock.close()

    def open_session(
        self, window_size: int | None = None, max_packet_size: int | None = None,
        timeout: float | None = None,
    ) -> paramiko.Channel:  # fmt: skip
        """A new channel. Where nobody else listens, its caller hears the answer."""
        if not self.active:
            raise paramiko.SSHException("SSH session not active")
        until = time.monotonic() + (self.channel_timeout if timeout is None else timeout)
        channel, bell = self._asked_for_channel(window_size, max_packet_size)
        number = channel.chanid
        while not self._answered(number) and self.active:
            if (left := until - time.monotonic()) <= 0:
                raise paramiko.SSHException("Timeout opening channel.")
            self._packets.wait(bell, min(left, TURN_SECONDS), self._give)
        if self._channels.get(number) is None or not self.active:
            raise self.get_exception() or paramiko.SSHException("Unable to open channel.")
        return channel

    def opens_session(self, seconds: float) -> Steps[paramiko.Channel | None]:
        """A new channel, while paramiko's thread has not begun; None if the server gives none."""
        channel, _ = self._asked_for_channel(None, None)
        number = channel.chanid
        answered = yield from self.hears(lambda: self._answered(number), seconds)
        opened = self.active and self._channels.get(number) is not None
        return channel if answered and opened else None

    def open_channel(self, *given: Any, **named: Any) -> paramiko.Channel:
        """As paramiko's: of what runs through it nobody waits here, so its thread hears all."""
        with self._packets.needed():
            channel = super().open_channel(*given, **named)
        self._packets.left_to_the_thread()
        return channel

    # paramiko itself holds no channel that nobody else holds.
    def _asked_for_channel(
        self, window: int | None, part: int | None
    ) -> tuple[paramiko.Channel, Ring]:
        with self.lock:
            number, bell = self._next_channel(), Ring()
            channel, message = paramiko.Channel(number), paramiko.Message()
            sizes = self._sanitize_window_size(window), self._sanitize_packet_size(part)
            message.add_byte(cMSG_CHANNEL_OPEN)
            message.add_string("session")
            for size in (number, *sizes):
                message.add_int(size)
            self._channels.put(number, channel)
            self.channel_events[number] = bell
            self.channels_seen[number] = True
            hidden(channel)._set_transport(self)
            hidden(channel)._set_window(*sizes)
        self._send_user_message(message)
        return channel, bell

    def _answered(self, number: int) -> bool:
        with self.lock:
            return number not in self.channel_events

    # What is a channel's, or about one; the rest may change how packets are read.
    def _give(self, kind: int, message: paramiko.Message) -> bool:
        if self.in_kex or self._expected_packet:
            return False
        if kind in (MSG_IGNORE, MSG_DEBUG):
            return True
        if kind in ABOUT_CHANNELS:
            self._handler_table[kind](message)
            return True
        hand = self._channel_handler_table.get(kind)
        begun = message.packet.tell()
        channel = self._channels.get(message.get_int()) if hand else None
        if hand is None or channel is None:
            message.packet.seek(begun)
            return False
        hand(channel, message)
        return True

    # paramiko writes down what all six are made of, six times.
    def _compute_key(self, name: str, size: int) -> bytes:
        assert self.H is not None and self.session_id is not None
        digest = hidden(self.kex_engine).hash_algo
        if digest().digest_size < size:
            key: bytes = super()._compute_key(name, size)
            return key
        if self._secret[:2] != (self.K, self.H):
            shared = paramiko.Message()
            self._add_K(shared)
            self._secret = self.K, self.H, shared.asbytes()
        made: bytes = digest(self._secret[2] + self.H + name.encode() + self.session_id).digest()
        return made[:size]

    # That our first keys are in use is said with what we say by them.
    def _activate_outbound(self) -> None:
        with nullcontext() if self.initial_kex_done else self._packets.later():
            super()._activate_outbound()

    def _parse_newkeys(self, message: paramiko.Message) -> None:
        super()._parse_newkeys(message)
        self._secret = None, None, b""

    # paramiko makes a text of each step, and then finds that nobody reads it.
    def _log(self, level: int, text: Any, *words: Any) -> None:
        if self.logger.isEnabledFor(level):
            super()._log(level, text, *words)
