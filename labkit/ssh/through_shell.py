"""The promises of all transports about commands; each runs them in a POSIX shell on the host."""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

from labkit.errors import (
    BadInput,
    HostError,
    LabkitError,
    OutcomeUnknown,
    TimedOut,
    command_line,
)
from labkit.files.pipe import Channel, Gone, Pipe
from labkit.host import KEPT, NOTHING, Completed, Line
from labkit.ssh.shell import (
    END,
    LONGEST_LINE,
    ONCE,
    SBIN,
    Kept,
    Late,
    Shell,
    ShellCommand,
    checked,
    line,
)  # fmt: skip

LAST_CHANCE_SECONDS = 3.0
CHUNK = 1 << 16


class NotRun(HostError):
    """No shell of ours came up on the host, so the command was not run."""


class Running:
    """A command that was given to a shell: its lines as they come, and how it ended."""

    def __init__(
        self, name: str, end: Callable[[str], bool], shell: Shell, words: tuple[str, ...],
        seconds: float, cap: int, wait_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        self.words, self.seconds = words, seconds
        self._name, self._end, self._shell = name, end, shell
        self._streams = (Kept(cap), Kept(cap))
        self._lines: deque[Line] = deque()
        self._splits = (_Split("stdout", self._lines), _Split("stderr", self._lines))
        self._order: ShellCommand | None = None
        self._result: Completed | None = None
        self._failed: HostError | None = None
        self._told: bool | None = None
        self._begun, self._at = time.monotonic(), time.time()
        self._deadline = self._begun + seconds - wait_seconds

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._order and not self._order.ended and not self._failed:
            self._stop()

    def give(self, text: str) -> None:
        """Send it; what the shell's end means for it is said when its result is asked for."""
        with suppress(Gone):
            self._order = self._shell.give(text, *self._streams)

    def split(self) -> None:
        """Keep its lines for the one who iterates."""
        for stream, split in zip(self._streams, self._splits, strict=True):
            stream.tell = split.add

    @property
    def done(self) -> Completed:
        """The command's result; waits for its end, and drops the lines that come meanwhile."""
        if self._failed:
            raise self._failed
        if self._result is None:
            for stream in self._streams:
                stream.tell = None
            self._until(lambda shell, order, deadline: shell.wait(order, deadline))
            self._result = self._complete()
        return self._result

    def __iter__(self) -> Iterator[Line]:
        """Each line, of either stream, as soon as it is there."""
        while self._result is None:
            yield from self._queue()
            if self._order and self._order.ended:
                _ = self.done
                for split in self._splits:
                    split.finish()
            else:
                self._until(lambda shell, _, deadline: shell.read(deadline))
        yield from self._queue()

    def _queue(self) -> Iterator[Line]:
        while self._lines:
            yield self._lines.popleft()

    def _until(self, read: Callable[[Shell, ShellCommand, float], None]) -> None:
        try:
            if self._order is None:
                raise Gone
            read(self._shell, self._order, self._deadline)
        except Late:
            self._failed = self._late(self._stop())
        except Gone:
            self._failed = self._lose()
        except BaseException:  # Ctrl-C ends the command too
            self._stop()
            raise
        if self._failed:
            raise self._failed

    # Whether it was asked to end. Its shell is asked with it, and so is not used again.
    def _stop(self) -> bool:
        if self._told is None:
            self._told = False
            shell = self._shell
            with suppress(Late, Gone):
                if not shell.group:
                    shell.wait(shell.ready, time.monotonic() + LAST_CHANCE_SECONDS / 3)
            if shell.group and not shell.channel.lost:
                self._told = shell.channel.ended or self._end(shell.group)
        return self._told

    def _complete(self) -> Completed:
        order = self._order
        assert order is not None
        out, err = order.streams
        seconds = order.ended - self._begun
        begun, ended = (
            datetime.fromtimestamp(moment, UTC) for moment in (self._at, self._at + seconds)
        )
        return Completed(
            self._name, self.words, int(order.words[0]), bytes(out.content), bytes(err.content),
            out.size, err.size, seconds, begun, ended, order.left_behind,
        )  # fmt: skip

    @property
    def _text(self) -> str:
        return command_line(self.words)

    def _late(self, was_stopped: bool) -> TimedOut:
        if not self._shell.up:
            return TimedOut(
                f"{self._name}: `{self._text}` was not started: no shell of labkit answered",
                said=self._last_words,
                hint="check whether a login script there reads input, such as `read` in .bashrc:"
                " that input is labkit's",
            )
        return TimedOut(
            f"{self._name}: `{self._text}` had not ended after {self.seconds:g} s",
            said=self._last_words,
            hint="it was stopped; allow more time with seconds="
            if was_stopped
            else "it could not be stopped, and may still run: look on the host",
        )

    def _lose(self) -> HostError:
        name, seconds = self._name, time.monotonic() - self._begun
        if not self._shell.channel.lost and not self._shell.up:
            self._shell.hear_out()
        if not self._shell.channel.lost and not self._shell.up:
            noise = b"\n".join(bytes(stream.content) for stream in self._shell.ready.streams)
            return NotRun(
                f"{name}: no shell came up for `{self._text}`, so it was not run",
                said=noise.decode("utf-8", "replace"),
                hint="check that the account has a shell, and no ForceCommand or command= in"
                " authorized_keys; `ssh HOST sh -c true` shows it",
            )
        problem = self._shell.channel.ender
        return OutcomeUnknown(
            f"{name}: {problem} during `{self._text}`, {seconds:.1f} s after it was sent",
            said=self._last_words,
            hint="the command may have ended or not; look on the host before you repeat it",
        )

    @property
    def _last_words(self) -> str:
        out, err = (bytes(stream.content[-2000:]) for stream in self._streams)
        return (err or out).decode("utf-8", "replace")


class _Split:
    """Cuts one stream into lines."""

    def __init__(self, stream: str, lines: deque[Line]) -> None:
        self._stream, self._lines = stream, lines
        self._held = b""

    def add(self, part: bytes) -> None:
        *lines, self._held = (self._held + part).split(b"\n")
        for content in lines:
            self._put(content)
        if len(self._held) > CHUNK:
            self._put(self._held)
            self._held = b""

    def finish(self) -> None:
        if self._held:
            self._put(self._held)
            self._held = b""

    def _put(self, content: bytes) -> None:
        for start in range(0, len(content) or 1, CHUNK):
            text = content[start : start + CHUNK].decode("utf-8", "replace")
            self._lines.append(Line(self._stream, text))


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
    def raw(self, words: tuple[str, ...], *, seconds: float = 60.0) -> Iterator[Pipe]:
        """Run one command whose streams stay open; on leaving, they are closed."""
        checked(self.name, words, seconds=seconds)
        mark = f"labkit-ended-{secrets.token_hex(8)}"
        # A command may end its whole group, and this shell has to say so.
        begin, end = f"echo {mark}; echo {mark} >&2", f'echo "{mark} $?" >&2'
        setting = f"LC_ALL=C; export LC_ALL; {SBIN}"
        script = f"{setting}; trap : TERM; {begin}; {shlex.join(words)}; {end}"
        with self._turn(words, seconds), self._channel(script, False) as channel:
            pipe = Pipe(self.name, channel, mark)
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
        starts = range(0, len(stdin), CHUNK)
        yield (stdin[start : start + CHUNK] for start in starts) if stdin else None
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
        yield iter(lambda: file.read(CHUNK), b"")


# A command need not read all that it is given.
def _feed(channel: Channel, parts: Iterator[bytes]) -> None:
    with suppress(Gone, ValueError):  # ValueError: the file was closed, as the command has ended
        for part in parts:
            channel.send(part)
        channel.finish()
