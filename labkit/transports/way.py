"""The way to an sshd: a TCP connection, a jump host's channel, or a command's two ends."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import paramiko

from labkit.errors import Unreachable
from labkit.transports.address import Target

FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
CHANNEL_SECONDS = 15.0


# A jump host's channel. paramiko's cannot be closed once the jump host is gone.
class _Carried:
    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)

    def close(self) -> None:
        with suppress(OSError, EOFError, paramiko.SSHException):
            self.channel.close()


@dataclass(frozen=True)
class Way:
    """What SSH runs over; closing it closes what it runs through too."""

    end: socket.socket | _Carried
    jump: paramiko.Transport | None = None
    hop: str = ""
    command: subprocess.Popen[bytes] | None = None

    @property
    def broken(self) -> str:
        """What is said when the host on the way is gone; empty when it is not."""
        if self.jump is None or self.jump.is_active():
            return ""
        return f"{self.hop} ended the connection"

    def close(self) -> None:
        """Close it all; any number of times."""
        self.end.close()
        if self.jump is not None:
            self.jump.close()
        if self.command is not None and self.command.poll() is None:
            # As ssh ends it.
            self.command.terminate()
            threading.Thread(target=self.command.wait, daemon=True).start()


def through(target: Target, reached: Callable[[Target], paramiko.Transport]) -> Way:
    """The way to a target; `reached` logs in to the host on it, should there be one."""
    if target.jump is not None:
        return _by_jump(target, target.jump, reached)
    if target.proxy:
        return _by_command(target)
    return Way(_dialled(target))


def _by_jump(target: Target, jump: Target, reached: Callable[[Target], paramiko.Transport]) -> Way:
    client = reached(jump)
    try:
        there = (target.address, target.port)
        channel = client.open_channel(
            "direct-tcpip", there, ("127.0.0.1", 0), timeout=CHANNEL_SECONDS
        )
    except BaseException as refused:
        client.close()
        if isinstance(refused, paramiko.SSHException | EOFError | OSError):
            raise Unreachable(
                f"{jump.name} cannot reach {target.address} port {target.port}",
                said=str(refused),
                hint=f"is the host up as {jump.address} sees it, and may sshd there forward"
                " (AllowTcpForwarding)?",
            ) from refused
        raise
    return Way(_Carried(channel), client, jump.name)


# ssh too gives the command a shell, which it replaces. What it says is about this connection.
def _by_command(target: Target) -> Way:
    ours, its = socket.socketpair()
    with its:
        command = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {target.proxy}"], stdin=its.fileno(), stdout=its.fileno(),
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    return Way(ours, command=command)


def _dialled(target: Target) -> socket.socket:
    failed: OSError = OSError("no address")
    deadline = time.monotonic() + target.seconds
    try:
        found = socket.getaddrinfo(
            target.address, target.port, FAMILIES[target.family], socket.SOCK_STREAM
        )
    except OSError as unknown:
        raise _unreachable(target, unknown) from unknown
    for left, (family, kind, protocol, _, where) in zip(
        range(len(found), 0, -1), found, strict=True
    ):
        with _closed_if_failed(socket.socket(family, kind, protocol)) as dialled:
            try:
                dialled.settimeout(max(deadline - time.monotonic(), 0.1) / left)
                dialled.connect(where)
                _tune(dialled)
                return dialled
            except OSError as refused:
                failed = refused
                dialled.close()
    raise _unreachable(target, failed) from failed


@contextmanager
def _closed_if_failed(opened: socket.socket) -> Iterator[socket.socket]:
    try:
        yield opened
    except BaseException:
        opened.close()
        raise


def _tune(dialled: socket.socket) -> None:
    # Without this, Nagle's algorithm costs each command about 40 ms.
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # paramiko's keepalives alone never notice a silent peer; with this the kernel does.
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)


def _unreachable(target: Target, refused: OSError) -> Unreachable:
    return Unreachable(
        f"{target.name}: cannot reach {target.address} port {target.port}",
        said=str(refused),
        hint="is the host up, and is its control address right?",
    )
