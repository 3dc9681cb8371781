"""The way to an sshd: a TCP connection, a jump host's channel, or a command's two ends."""

import os
import select
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import paramiko

from labkit.errors import Unreachable
from labkit.ssh.address import Target

FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
CHANNEL_SECONDS = 15.0
MOMENT_SECONDS = 0.2
WORDS_BYTES = 2000
Addresses = list[tuple[Any, ...]]
# paramiko's thread looks up so often whether a keepalive is due; closing wakes it. Its own tenth
# of a second wakes this machine's CPUs ten times as often, on every connection of a fleet.
QUIET_SECONDS = 1.0
# A server has this many bytes for its banner and its keys.
MOST_HEARD = 1 << 20
# Kept for people of what is no SSH server's.
LONGEST_WORDS = 2000
RDHUP: int = getattr(select, "POLLRDHUP", 0)
"""The other end has closed; Linux alone reports it."""


class UnknownName(Unreachable):
    """No address is known for the name of a host, or no name server answers."""


class WatchedSocket:
    """The stream that SSH runs over, with the parts of a socket that paramiko uses."""

    def __init__(self, end: socket.socket | paramiko.Channel) -> None:
        self._end, self._process = end, os.getpid()
        self._closed = False
        """paramiko looks at this, as at a socket's."""
        self._heard: bytearray | None = bytearray()
        self.came = time.monotonic()
        """When anything came last."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._end, name)

    @property
    def heard(self) -> str:
        """Text that came before keys were exchanged; it shows what answers, if not sshd."""
        words = bytes((self._heard or b"")[:LONGEST_WORDS]).decode("utf-8", "replace")
        return "\n".join(line.strip() for line in words.splitlines() if line.strip())

    def trust(self) -> None:
        """Keys are exchanged: from now on anything may come, and is not kept."""
        self._heard = None

    def recv(self, size: int) -> bytes:
        """Read what has come."""
        part = self._end.recv(size)
        if part:  # its end, which a silent host brings about too, is no sign of life
            self.came = time.monotonic()
        if self._heard is not None:
            self._heard += part
            if len(self._heard) > MOST_HEARD:
                raise OSError(f"more than {MOST_HEARD} bytes before its keys")
        return part

    def send(self, part: bytes) -> int:
        """Send some of it."""
        # After fork(2) a child has the socket too: what it sent would be its parent's.
        if os.getpid() != self._process:
            raise EOFError("the connection is that of the parent process")
        return self._end.send(part)

    def settimeout(self, seconds: float) -> None:
        """Set how long `recv` and `send` may wait; never less than a second."""
        self._end.settimeout(max(seconds, QUIET_SECONDS))

    @property
    def ended(self) -> bool:
        """Whether the other end has closed it, though paramiko may not have read so yet."""
        if isinstance(self._end, paramiko.Channel):
            return bool(self._end.closed)
        poll = select.poll()  # one object serves one thread
        with suppress(ValueError):
            poll.register(self._end, RDHUP)
            return bool(poll.poll(0))
        return True

    def close(self) -> None:
        """Close it, and wake the thread that reads it; any number of times."""
        self._closed = True
        # A jump host's channel cannot be closed once the jump host is gone.
        with suppress(OSError, EOFError, paramiko.SSHException):
            if isinstance(self._end, socket.socket) and os.getpid() == self._process:
                self._end.shutdown(socket.SHUT_RDWR)
        with suppress(OSError, EOFError, paramiko.SSHException):
            self._end.close()


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
    address = f"{target.address} by a ProxyCommand"
    return Carrier(WatchedSocket(near), command=command, words=words, address=address)


def _dial(target: Target) -> Carrier:
    deadline = time.monotonic() + target.seconds
    last_error, attempts = OSError("it has no address of this family"), list[str]()
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


def _looked_up(target: Target) -> Addresses:
    try:
        return addresses(target.address, target.port, FAMILIES[target.family], target.seconds)
    except (OSError, UnicodeError) as error:
        raise UnknownName(
            f"{target.name}: cannot reach {target.address} port {target.port}: unknown name",
            said=str(error),
            hint=f"check its control address; try `getent hosts {target.address}`",
        ) from error


def _attempt(address: tuple[Any, ...], seconds: float) -> socket.socket:
    connection = socket.socket(*address[:3])
    try:
        connection.settimeout(seconds)
        connection.connect(address[4])
        # Without this, Nagle's algorithm costs each command about 40 ms.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # paramiko's keepalives alone never notice a silent peer; with this the kernel does.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
    except TimeoutError:
        connection.close()
        raise TimeoutError(f"no answer within {seconds:.3g} s") from None
    except BaseException:
        connection.close()
        raise
    return connection


# --- names: this machine's resolver would take as long as it likes


def addresses(host: str, port: int, family: int, seconds: float) -> Addresses:
    """The addresses that getaddrinfo(3) finds; OSError if there are none, or no answer in time.

    Nothing ends a resolver that waits for its servers: it is left behind in a thread of its own.
    """
    with suppress(socket.gaierror, UnicodeError):  # a literal address needs no server
        return _ask(host, port, family, socket.AI_NUMERICHOST)
    answer: Future[Addresses] = Future()
    threading.Thread(target=_answer, args=(answer, host, port, family), daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        raise OSError(f"no name server answered within {seconds:g} s") from None


def _ask(host: str, port: int, family: int, flags: int = 0) -> Addresses:
    # For a text Python loads its tables of all alphabets first, which takes some milliseconds.
    name = host.encode() if host.isascii() else host
    return list(socket.getaddrinfo(name, port, family, socket.SOCK_STREAM, flags=flags))


def _answer(answer: Future[Addresses], host: str, port: int, family: int) -> None:
    try:
        answer.set_result(_ask(host, port, family))
    except (OSError, UnicodeError) as error:
        answer.set_exception(error)
