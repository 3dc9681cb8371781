"""The machine that labkit runs on, as a host."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace

from labkit.errors import HostError
from labkit.files.pipe import Channel, Gone
from labkit.ssh.sudo import Sudo
from labkit.ssh.through_shell import ThroughShell

LARGE = 1 << 20
# A thread that gives input looks up so often whether its pipe has been closed.
TURN_SECONDS = 0.1


@dataclass(frozen=True)
class Local(ThroughShell):
    """Runs each command in a session, and by a shell, of its own."""

    name: str = "local"
    sudo: Sudo | None = None

    def as_root(self, password: Callable[[], str] | None = None) -> Local:
        """The same machine, as root."""
        return replace(self, sudo=Sudo.of("localhost", password))

    @property
    def reached_at(self) -> str:
        """No address: it is this machine."""
        return ""

    def round_trip(self) -> float:
        """No way at all."""
        return 0.0

    def rest(self) -> None:
        """Nothing is sent to it unasked."""

    def close(self) -> None:
        """Nothing to let go of."""

    @contextmanager
    def _channel(self, script: str, spare: bool) -> Iterator[Channel]:
        with closing(
            Process(self.sudo.line(script) if self.sudo else script, self.name)
        ) as process:
            if self.sudo:
                self.sudo.admit(process, self.name)
            yield process


class Process:
    """A shell script as a child process, in a session of its own."""

    lost, cut_off, ender = False, False, "its shell was ended"

    def __init__(self, script: str, name: str) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                ("sh", "-c", script), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise HostError(f"{name}: cannot start a shell", said=str(error)) from error
        self._pipes = selectors.DefaultSelector()
        for side, stream in enumerate((self._process.stdout, self._process.stderr)):
            assert stream
            self._pipes.register(stream, selectors.EVENT_READ, side)
        assert self._process.stdin
        self._stdin = self._process.stdin
        os.set_blocking(self._stdin.fileno(), False)
        self._sending = threading.Lock()

    @property
    def ended(self) -> bool:
        """Whether both streams have ended."""
        return not self._pipes.get_map()

    def send(self, part: bytes | memoryview) -> None:
        """Give it input."""
        content = memoryview(part)
        try:
            while content:
                select.select([], [self._stdin], [], TURN_SECONDS)
                with self._sending, suppress(BlockingIOError):
                    content = content[os.write(self._stdin.fileno(), content) :]
        except (OSError, ValueError) as error:
            raise Gone from error

    def finish(self) -> None:
        """Close its input."""
        with self._sending, suppress(OSError):
            self._stdin.close()

    def recv(self, seconds: float) -> tuple[bytes, bytes]:
        """Read what has come on each stream."""
        parts = [b"", b""]
        for key, _ in [] if self.ended else self._pipes.select(seconds):
            parts[key.data] = os.read(key.fd, LARGE)
            if not parts[key.data]:
                self._pipes.unregister(key.fileobj)
        return parts[0], parts[1]

    def close(self) -> None:
        """Close its streams; end what remains of its group."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2 if self.ended else 0)
        if self._process.returncode is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.finish()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        self._pipes.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
