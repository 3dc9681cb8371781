"""The way to an sshd: a TCP connection, a jump host's channel, or a command's two ends."""

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import paramiko

from labkit.errors import Unreachable
from labkit.ssh import names
from labkit.ssh.address import Target
from labkit.ssh.watched_socket import WatchedSocket

FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
CHANNEL_SECONDS = 15.0
MOMENT_SECONDS = 0.2
WORDS_BYTES = 2000


@dataclass(frozen=True)
class Carrier:
    """The transport of SSH; closing it also closes what it runs through."""

    end: WatchedSocket
    jump: paramiko.Transport | None = None
    hop: str = ""
    command: subprocess.Popen[bytes] | None = None
    words: IO[bytes] | None = None
    """The complaints of the command."""
    address: str = ""
    """The address that answered, of all that a name may have, and what it was reached by."""

    def broken(self) -> str:
        """The host or command on the way that has ended, and its last words; empty if none has."""
        if self.jump is not None:
            # Its channels end a moment before it says so itself.
            self.jump.join(MOMENT_SECONDS)
            return "" if self.jump.is_active() else f"{self.hop} ended the connection"
        if self.command is not None and self.words is not None:
            with suppress(subprocess.TimeoutExpired):
                if code := self.command.wait(MOMENT_SECONDS):
                    self.words.seek(max(self.words.seek(0, os.SEEK_END) - WORDS_BYTES, 0))
                    text = self.words.read().decode("utf-8", "replace")
                    return f"{text}\nthe ProxyCommand ended with code {code}"
        return ""

    def close(self) -> None:
        """Close it all; any number of times."""
        self.end.close()
        if self.jump is not None:
            self.jump.close()
        if self.command is not None and self.command.poll() is None:
            # As ssh ends it.
            self.command.terminate()
            threading.Thread(target=self.command.wait, daemon=True).start()


def through(target: Target, reach: Callable[[Target], paramiko.Transport]) -> Carrier:
    """The way to a target; `reach` logs in to the host on it, should there be one."""
    if target.jump is not None:
        return _by_jump(target, target.jump, reach)
    if target.proxy:
        return _by_command(target)
    return _dial(target)


def _by_jump(
    target: Target, jump: Target, reach: Callable[[Target], paramiko.Transport]
) -> Carrier:
    client = reach(jump)
    try:
        end = (target.address, target.port)
        channel = client.open_channel(
            "direct-tcpip", end, ("127.0.0.1", 0), timeout=CHANNEL_SECONDS
        )
    except BaseException as error:
        client.close()
        if isinstance(error, paramiko.SSHException | EOFError | OSError):
            raise Unreachable(
                f"{jump.name} cannot reach {target.address} port {target.port}",
                said=str(error),
                hint=f"check that {jump.address} can reach the host, and that its sshd allows"
                " forwarding (AllowTcpForwarding)",
            ) from error
        raise
    by = getattr(client, "reached_at", "") or jump.address
    return Carrier(WatchedSocket(channel), client, jump.name, address=f"{target.address} by {by}")


# ssh too gives the command a shell, which it replaces.
def _by_command(target: Target) -> Carrier:
    near, far = socket.socketpair()
    words = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the command)
    with far:
        command = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {target.proxy}"], stdin=far.fileno(), stdout=far.fileno(),
            stderr=words, start_new_session=True,
        )  # fmt: skip
    return Carrier(
        WatchedSocket(near),
        command=command,
        words=words,
        address=f"{target.address} by a ProxyCommand",
    )


def _dial(target: Target) -> Carrier:
    deadline = time.monotonic() + target.seconds
    last_error, attempts = OSError("it has no address of this family"), list[str]()
    stream = names.at_once(target.address, target.port, FAMILIES[target.family])
    if not stream:
        stream = _looked_up(target)
    for number in range(len(stream), 0, -1):
        # An address that does not answer leaves its share of the time to the others.
        seconds = max(deadline - time.monotonic(), 0.1) / number
        address = str(stream[-number][4][0])
        try:
            return Carrier(WatchedSocket(_attempt(stream[-number], seconds)), address=address)
        except OSError as error:
            last_error = error
            attempts.append(f"{address}: {error}")
    raise Unreachable(
        f"{target.name}: cannot reach {target.address} port {target.port}",
        said="\n".join(attempts) if len(attempts) > 1 else str(last_error),
        hint="check that the host is up, and its control address",
    ) from last_error


def _looked_up(target: Target) -> names.Addresses:
    try:
        family = FAMILIES[target.family]
        return names.addresses(target.address, target.port, family, target.seconds)
    except (OSError, UnicodeError) as error:
        raise Unreachable(
            f"{target.name}: cannot reach {target.address} port {target.port}: unknown name",
            said=str(error),
            hint=f"check its control address; try `getent hosts {target.address}`",
        ) from error


def _attempt(address: tuple[Any, ...], seconds: float) -> socket.socket:
    connection = socket.socket(*address[:3])
    try:
        connection.settimeout(seconds)
        connection.connect(address[4])
        _tune(connection)
    except TimeoutError:
        connection.close()
        raise TimeoutError(f"no answer within {seconds:.3g} s") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _tune(connection: socket.socket) -> None:
    # Without this, Nagle's algorithm costs each command about 40 ms.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # paramiko's keepalives alone never notice a silent peer; with this the kernel does.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
