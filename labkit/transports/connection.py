"""A logged-in SSH connection to a host whose key we know."""

from __future__ import annotations

import logging
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.common import MSG_CHANNEL_REQUEST

from labkit.errors import Unreachable
from labkit.transports.known_hosts import KnownHosts

CONNECT_SECONDS = 15.0
# Most hosts compute AES in hardware; 1.25 x paramiko's default choice.
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
LOST = (paramiko.SSHException, EOFError, OSError)

# What goes wrong is raised; paramiko would print it besides, with a traceback.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Address:
    """Where and as whom to log in; `key` is a private key file, empty to ask the agent."""

    name: str
    control: str
    port: int = 22
    user: str = "root"
    key: str = ""
    known_hosts: tuple[str, ...] = ()


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
    channel._handle_request(message)  # type: ignore[attr-defined]


class _Client(paramiko.Transport):
    _channel_handler_table = {  # noqa: RUF012
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_REQUEST: _channel_request,
    }


def connect(at: Address) -> paramiko.Transport:
    """A logged-in connection to a host whose key we know, or a typed error."""
    known = KnownHosts.read([Path(name).expanduser() for name in at.known_hosts])
    client = _Client(_dial(at))
    client.get_security_options().ciphers = CIPHERS
    client.set_keepalive(5)
    try:
        client.banner_timeout = CONNECT_SECONDS
        client.auth_timeout = CONNECT_SECONDS
        known.prefer(client, at.control, at.port)
        client.start_client(timeout=CONNECT_SECONDS)
        known.verify(at.name, at.control, at.port, client.get_remote_server_key())
        _log_in(client, at)
    except BaseException as failed:
        client.close()
        if isinstance(failed, LOST):
            raise Unreachable(
                f"{at.name}: no SSH session with {at.user}@{at.control} port {at.port}",
                said=str(failed) or type(failed).__name__,
                hint=f"try `ssh -p {at.port} {at.user}@{at.control} true`",
            ) from failed
        raise
    return client


def _dial(at: Address) -> socket.socket:
    try:
        dialled = socket.create_connection((at.control, at.port), timeout=CONNECT_SECONDS)
    except OSError as refused:
        raise Unreachable(
            f"{at.name}: cannot reach {at.control} port {at.port}",
            said=str(refused),
            hint="is the host up, and is its control address right?",
        ) from refused
    # Without this, Nagle's algorithm costs each command about 40 ms.
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # paramiko's keepalives alone never notice a silent peer; with this the kernel does.
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
    return dialled


def _log_in(client: paramiko.Transport, at: Address) -> None:
    keys = [_private_key(at)] if at.key else list(paramiko.Agent().get_keys())
    if not keys:
        raise Unreachable(
            f"{at.name}: no key to log in with",
            hint="name one with key = in the lab file, or start an ssh-agent and add one",
        )
    for key in keys[:-1]:
        with suppress(paramiko.AuthenticationException):
            client.auth_publickey(at.user, key)
            return
    client.auth_publickey(at.user, keys[-1])


def _private_key(at: Address) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(Path(at.key).expanduser())
    except (OSError, ValueError, TypeError, paramiko.SSHException) as unreadable:
        raise Unreachable(
            f"{at.name}: cannot use the private key {at.key}",
            said=str(unreadable),
            hint="a key with a passphrase is used through an ssh-agent: leave out key =",
        ) from None
