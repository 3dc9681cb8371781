"""The promises of all transports about commands; each runs them in a POSIX shell on the host."""

from __future__ import annotations

import re
import secrets
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import BadInput, LabkitError, OutcomeUnknown, TimedOut
from labkit.files import CHUNK, STALL_SECONDS
from labkit.host import KEPT, NOTHING, Completed
from labkit.ssh.running import NotRun, Running
from labkit.ssh.shell import END, LONGEST_LINE, ONCE, SBIN, Channel, Gone, Shell, checked, line

COMPLAINT = 1 << 16
"""Bytes kept from the end of a pipe's error stream; the rest is read and dropped."""
TURN_SECONDS = 0.5
INPUT_CHUNK = 1 << 16


class ThroughShell:
    """A transport that can start a shell script on the host, and does all else by that."""

    name: str

    def _turn(self, words: tuple[str, ...], seconds: float) -> AbstractContextManager[float]:
        """Wait until the host has room for another command; yields how long that took."""
        return nullcontext(0.0)

    def _channel(self, script: str, spare: bool) -> AbstractContextManager[Channel]:
        """Start `sh -c script`; `spare` for one that has not waited for its turn."""
        raise NotImplementedError

    def _loop(self, seconds: float) -> AbstractContextManager[Shell | None]:
        """A shell that runs many commands, where the host has what that takes."""
        return nullcontext(None)

    def run(
        self, words: tuple[str, ...], *, stdin: bytes | Path = b"",
        env: Mapping[str, str] = NOTHING, seconds: float = 60.0, cap: int = KEPT,
    ) -> Completed:  # fmt: skip
        """Run one command and read both its streams to their end."""
        checked(self.name, words, env, seconds)
        text = line(words, env, bool(stdin))
        with self._turn(words, seconds) as wait_seconds:
            if not stdin and len(text) <= LONGEST_LINE:
                with self._loop(seconds - wait_seconds) as shell:
                    if shell:
                        order = Running(
                            self.name, self.told_to_end, shell, words, seconds, cap, wait_seconds
                        )
                        with suppress(NotRun), order as command:
                            command.give(text)
                            return command.done
            with self._once(words, stdin, env, seconds, cap, wait_seconds) as command:
                return command.done

    @contextmanager
    def stream(
        self, words: tuple[str, ...], *, stdin: bytes | Path = b"",
        env: Mapping[str, str] = NOTHING, seconds: float = 60.0, cap: int = KEPT,
    ) -> Iterator[Running]:  # fmt: skip
        """Run one command on a shell of its own, and hand out its lines as they come."""
        checked(self.name, words, env, seconds)
        with (
            self._turn(words, seconds) as wait_seconds,
            self._once(words, stdin, env, seconds, cap, wait_seconds) as command,
        ):
            command.split()
            yield command

    @contextmanager
    def raw(self, words: tuple[str, ...], *, seconds: float = 60.0) -> Iterator[ShellPipe]:
        """Run one command whose streams stay open; on leaving, they are closed."""
        checked(self.name, words, seconds=seconds)
        mark = f"labkit-ended-{secrets.token_hex(8)}"
        # A command may end its whole group, and this shell has to say so.
        begin, end = f"echo {mark}; echo {mark} >&2", f'echo "{mark} $?" >&2'
        setting = f"LC_ALL=C; export LC_ALL; {SBIN}"
        script = f"{setting}; trap : TERM; {begin}; {shlex.join(words)}; {end}"
        with self._turn(words, seconds), self._channel(script, False) as channel:
            pipe = ShellPipe(self.name, channel, mark)
            threading.Thread(target=pipe.watch, daemon=True).start()
            try:
                yield pipe
            finally:
                pipe.left.set()

    @contextmanager
    def _once(
        self, words: tuple[str, ...], stdin: bytes | Path, env: Mapping[str, str],
        seconds: float, cap: int, wait_seconds: float = 0.0, spare: bool = False,
    ) -> Iterator[Running]:  # fmt: skip
        with _open(self.name, stdin) as parts, self._channel(ONCE, spare) as channel:
            shell = Shell(channel, once=True)
            order = Running(self.name, self.told_to_end, shell, words, seconds, cap, wait_seconds)
            with order as command:
                command.give(line(words, env, parts is not None, once=True))
                if parts is not None:
                    threading.Thread(target=_feed, args=(channel, parts), daemon=True).start()
                yield command

    def told_to_end(self, group: str) -> bool:
        """Whether a process group was sent the signal to end, which takes a session of its own."""
        words = ("sh", "-c", END, "end", group)
        with suppress(LabkitError), self._once(words, b"", NOTHING, 3, 0, spare=True) as command:
            return command.done.code >= 0
        return False


@contextmanager
def _open(name: str, stdin: bytes | Path) -> Iterator[Iterator[bytes] | None]:
    if isinstance(stdin, bytes):
        # In parts, for paramiko copies all that is left each time it has sent some.
        starts = range(0, len(stdin), INPUT_CHUNK)
        yield (stdin[start : start + INPUT_CHUNK] for start in starts) if stdin else None
        return
    # A pipe that nobody writes to would be waited for without end.
    if not isinstance(stdin, Path) or (stdin.exists() and not stdin.is_file()):
        raise BadInput(
            f"{name}: {stdin!r} cannot be input", hint="it is bytes, or the Path of a regular file"
        )
    try:
        file = stdin.open("rb")
    except OSError as error:
        raise BadInput(f"{name}: cannot read {stdin}", said=str(error)) from error
    with file:
        yield iter(lambda: file.read(INPUT_CHUNK), b"")


# A command need not read all that it is given.
def _feed(channel: Channel, parts: Iterator[bytes]) -> None:
    with suppress(Gone, ValueError):  # ValueError: the file was closed, as the command has ended
        for part in parts:
            channel.send(part)
        channel.finish()


@dataclass
class ShellPipe:
    """A running command whose streams stay open: for files, and for what waits or serves.

    It reads what we send and prints what we receive. `mark` is a line on each stream before
    anything of its own, and begins its last words.
    """

    name: str
    channel: Channel = field(repr=False)
    mark: str = field(repr=False)
    patience: float = STALL_SECONDS
    """Seconds without any movement after which it is given up."""

    def __post_init__(self) -> None:
        self._errors, self._rest = bytearray(), memoryview(b"")
        self._before: list[bytearray | None] = [bytearray(), bytearray()]
        self._moved, self._sending, self._stalled = time.monotonic(), False, False
        self.left = threading.Event()

    def send(self, content: bytes | memoryview) -> bool:
        """Give it all of `content`; False when it reads no more."""
        self._moved, self._sending = time.monotonic(), True
        try:
            self.channel.send(content)
        except Gone:
            self._patiently()
            return False
        finally:
            self._sending = False
        return True

    def finish(self) -> None:
        """End its input."""
        with suppress(Gone):  # what there is to say of that is said by `ended`
            self.channel.finish()

    def recv(self, limit: int = CHUNK) -> bytes:
        """Some bytes of its output, none when that has ended."""
        self._moved = time.monotonic()
        while not self._rest and not self.channel.ended:
            part, content = self.channel.recv(TURN_SECONDS)
            if part or content:
                self._moved = time.monotonic()
            self._rest = memoryview(self._strip_mark(0, part))
            self._errors += self._strip_mark(1, content)
            del self._errors[:-COMPLAINT]
            self._stalled = self._moved + self.patience < time.monotonic()
            self._patiently()
        content, self._rest = bytes(self._rest[:limit]), self._rest[limit:]
        return content

    def ended(self) -> tuple[int, str]:
        """Its code and what it complained of; drops what there still is of its output."""
        while self.recv():
            pass
        match = re.search(rf"{self.mark} (\d+)\n$".encode(), self._errors)
        # What it complained of may come before the last of its output.
        if not match or self.channel.cut_off:
            raise OutcomeUnknown(f"{self.name}: {self.channel.ender} while copying")
        return int(match[1]), self._errors[: match.start()].decode("utf-8", "replace")

    def watch(self) -> None:
        """Let go of what holds up a sender for ever; a receiver looks at the time itself."""
        while not self.left.wait(TURN_SECONDS):
            if self._sending and self._moved + self.patience < time.monotonic():
                self._stalled = True
                self.channel.close()

    # What a login says first is nobody's; but a host that goes on so has its words taken for it.
    def _strip_mark(self, side: int, part: bytes) -> bytes:
        content_held = self._before[side]
        if content_held is None or not part:
            return part
        content_held += part
        _, separator, content = content_held.partition(f"{self.mark}\n".encode())
        if not separator and len(content_held) <= COMPLAINT:
            return b""
        self._before[side] = None
        return bytes(content if separator else content_held)

    def _patiently(self) -> None:
        if self._stalled:
            raise TimedOut(
                f"{self.name}: nothing moved for {self.patience:g} s",
                hint="check whether its disk is busy or its network blocked",
            )
