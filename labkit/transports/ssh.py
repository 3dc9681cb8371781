"""SSH by paramiko: one connection per host, kept and reused; host keys always verified."""

from __future__ import annotations

import re
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import paramiko

from labkit.errors import BadInput, HostError, TimedOut, Unreachable
from labkit.host import Completed
from labkit.transports.connection import CONNECT_SECONDS, LOST, Address, connect

LAST_CHANCE_SECONDS = 1.0
RETRY_SECONDS = 0.02
CHUNK = 1 << 16
# sshd allows 10 sessions on a connection (MaxSessions); the rest is for people who look on.
SESSIONS = 8
FILE_SECONDS = 600.0
# What a command's shell says first: the process, and group of processes, to end in need.
PID = "labkit-process:"
SAID_PID = re.compile(rb"labkit-process:(\d+)\n")
END = """\
exec 2>/dev/null; kill -s TERM -- -{pid}; for turn in 1 2 3 4 5 6 7 8 9 10; do
kill -s 0 -- -{pid} || exit 0; sleep 0.1; done; kill -s KILL -- -{pid}"""
PUT = """\
umask 077 && [ ! -d "$3" ] && cat >"$1" && [ "$(wc -c <"$1")" -eq "$4" ] && chmod "$2" "$1" &&
mv -f "$1" "$3" && exit 0; rm -f "$1"; exit 1"""


@dataclass
class Ssh:
    """The paramiko transport to one address; any number of threads may use it."""

    at: Address
    _client: paramiko.Transport | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _free: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(SESSIONS))

    def run(
        self, words: tuple[str, ...], *, stdin: bytes = b"", seconds: float = 60.0
    ) -> Completed:
        """Run one command on a channel of its own and read both its streams to their end."""
        begun = time.monotonic()
        code, *streams = self._ended(words, stdin, seconds)
        out, err = (stream.decode("utf-8", "replace") for stream in streams)
        return Completed(self.at.name, words, code, out, err, time.monotonic() - begun)

    def put(self, content: bytes, path: str, mode: int) -> None:
        """Write beside the target, then rename, so that no reader sees half a file."""
        beside = f"{path}.labkit-{secrets.token_hex(4)}"
        words = ("sh", "-c", PUT, "put", beside, f"{mode:o}", path, str(len(content)))
        code, _, err = self._ended(words, content, FILE_SECONDS)
        if code:
            said = err.decode("utf-8", "replace") or "not all of it arrived, or it is a directory"
            raise HostError(f"{self.at.name}: cannot write {path}", said=said)

    def get(self, path: str) -> bytes:
        """The bytes of a file, as they are."""
        code, content, err = self._ended(("cat", "--", path), b"", FILE_SECONDS)
        if code:
            said = err.decode("utf-8", "replace")
            raise HostError(f"{self.at.name}: cannot read {path}", said=said)
        return content

    def close(self) -> None:
        """Close the connection; the next command opens a new one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # The exit code, and the bytes of both streams.
    def _ended(
        self, words: tuple[str, ...], stdin: bytes, seconds: float
    ) -> tuple[int, bytes, bytes]:
        if not words or any("\0" in word for word in words):
            raise BadInput(f"{self.at.name}: {words!r} cannot be a command")
        with self._free, self._session(seconds) as channel:
            command = _Command(channel)
            try:
                with command.watched(seconds):
                    return command.run(words, stdin)
            except LOST as lost:
                if not command.expired:
                    raise _lost(self.at.name, words, lost) from lost
                raise TimedOut(
                    f"{self.at.name}: `{shlex.join(words)}` had not ended after {seconds:g} s",
                    hint="it was told to end; allow more time with seconds=",
                ) from None
            except BaseException:  # Ctrl-C ends the command too
                command.end()
                raise

    @contextmanager
    def _session(self, seconds: float) -> Iterator[paramiko.Channel]:
        channel = self._opened(min(max(seconds, 1.0), CONNECT_SECONDS))
        try:
            yield channel
        finally:
            with suppress(*LOST):
                channel.close()

    # A session that was not opened has run nothing, so trying again is safe. A live connection
    # may refuse one for a moment: sshd counts a session that we closed until it looks round.
    def _opened(self, seconds: float) -> paramiko.Channel:
        begun, connections = time.monotonic(), 0
        while True:
            client = self._connected()
            asked = time.monotonic()
            try:
                return client.open_session(timeout=seconds)
            except LOST as refused:
                hung = time.monotonic() - asked >= seconds
                if hung or not client.is_active():
                    self._drop(client)
                    connections += 1
                if connections == 2 or asked - begun > CONNECT_SECONDS:
                    raise _no_session(self.at.name, refused) from refused
                time.sleep(RETRY_SECONDS)

    def _connected(self) -> paramiko.Transport:
        with self._lock:
            if self._client is None or not self._client.is_active():
                self._client = connect(self.at)
            return self._client

    # Another thread may have put a new connection in its place already.
    def _drop(self, client: paramiko.Transport) -> None:
        with self._lock:
            if self._client is client:
                self._client = None
        client.close()


class _Command:
    """One command on one channel, which knows how to end it."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self.expired = False
        self._channel = channel
        self._err = bytearray()

    def run(self, words: tuple[str, ...], stdin: bytes) -> tuple[int, bytes, bytes]:
        """The exit code and both streams."""
        channel = self._channel
        # Tools speak English in the C locale; most sshd accept LC_*, and others pass over it.
        channel.set_environment_variable("LC_ALL", "C")
        # `exec`: the process is the command, and `until` or `A=b` are no words of the shell.
        # `/dev/null` instead of our end of file: paramiko can send that one after the channel
        # has closed, and sshd takes it for the end of another command's input.
        line = f"echo {PID}$$ >&2; exec {shlex.join(words)}" + ("" if stdin else " </dev/null")
        channel.exec_command(line.encode("utf-8", "surrogateescape"))
        errors = _aside(self._read_errors)
        if stdin:
            _aside(lambda: _send(channel, stdin))
        out = b"".join(iter(lambda: channel.recv(CHUNK), b""))
        errors.join()
        code = channel.recv_exit_status()
        if code < 0 or self.expired:
            raise EOFError("the connection ended before the command did")
        return code, out, SAID_PID.sub(b"", bytes(self._err), count=1)

    @contextmanager
    def watched(self, seconds: float) -> Iterator[None]:
        """End the command, and with it `run`, when its time is over."""
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def end(self) -> None:
        """Ask the command to end, then tell it: on a session of its own.

        SSH has a message for this, but sshd passes over it where root logged in.
        """
        pid = SAID_PID.search(bytes(self._err))
        client = self._channel.get_transport()
        if not pid or self._channel.exit_status_ready() or not client.is_active():
            return
        with suppress(*LOST), closing(client.open_session(timeout=LAST_CHANCE_SECONDS)) as other:
            other.exec_command(END.format(pid=int(pid[1])))
            self._channel.status_event.wait(2 * LAST_CHANCE_SECONDS)

    def _expire(self) -> None:
        self.expired = True
        self.end()
        with suppress(*LOST):
            self._channel.close()

    def _read_errors(self) -> None:
        while part := self._channel.recv_stderr(CHUNK):
            self._err += part


def _aside(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


# A command need not read all that it is given.
def _send(channel: paramiko.Channel, stdin: bytes) -> None:
    with suppress(*LOST):
        # In parts, for sendall copies all that is left each time it has sent some.
        for start in range(0, len(stdin), CHUNK):
            channel.sendall(stdin[start : start + CHUNK])
        channel.shutdown_write()


def _no_session(name: str, refused: Exception) -> Unreachable:
    return Unreachable(
        f"{name}: the host is there but opens no session",
        said=str(refused),
        hint=f"labkit uses up to {SESSIONS} at once; what is MaxSessions in its sshd_config?",
    )


def _lost(name: str, words: tuple[str, ...], lost: Exception) -> Unreachable:
    return Unreachable(
        f"{name}: the connection was lost during `{shlex.join(words)}`",
        said=str(lost),
        hint="whether the command ended is unknown; look on the host before repeating it",
    )
