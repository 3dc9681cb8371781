"""What all transports promise of commands: each runs them through a POSIX shell on the host."""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

from labkit.errors import BadInput, HostError, LabkitError, OutcomeUnknown, TimedOut
from labkit.files import WINDOW
from labkit.host import KEPT, NOTHING, Completed, Line
from labkit.transports.pipes import Pipe
from labkit.transports.shell import (
    END,
    LONGEST_LINE,
    ONCE,
    Channel,
    Gone,
    Kept,
    Late,
    Order,
    Shell,
    checked,
    cut,
    line,
)

LAST_CHANCE_SECONDS = 3.0
CHUNK = 1 << 16


class ThroughShell:
    """A transport that can start a shell script on the host, and does all else by that."""

    name: str

    def _turn(self, words: tuple[str, ...], seconds: float) -> AbstractContextManager[float]:
        """Wait until the host has room for another command; yields how long that took."""
        return nullcontext(0.0)

    def _channel(
        self, script: str, spare: bool, window: int | None = None
    ) -> AbstractContextManager[Channel]:
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
        checked(self.name, words, env)
        text = line(words, env, bool(stdin), once=False)
        with self._turn(words, seconds) as waited:
            if not stdin and len(text) <= LONGEST_LINE:
                with self._loop(seconds - waited) as shell:
                    if shell:
                        order = Running(self, shell, words, seconds, cap, waited)
                        with suppress(NotRun), order as command:
                            command.give(text)
                            return command.done
            with self._once(words, stdin, env, seconds, cap, waited) as command:
                return command.done

    def batch(
        self, commands: Sequence[tuple[str, ...]], *, seconds: float = 60.0, cap: int = KEPT
    ) -> list[Completed]:
        """Run commands in turn; where a shell ends after one, the next shell takes the rest."""
        for words in commands:
            checked(self.name, words, NOTHING)
        completed: list[Completed] = []
        try:
            while rest := commands[len(completed) :]:
                before = len(completed)
                with self._turn(rest[0], seconds):
                    for done in self._pipelined(rest, seconds, cap):
                        completed.append(done)
                if len(completed) == before:
                    completed.append(self.run(rest[0], seconds=seconds, cap=cap))
        except HostError as failed:
            failed.completed = tuple(completed)
            raise
        return completed

    @contextmanager
    def stream(
        self, words: tuple[str, ...], *, stdin: bytes | Path = b"",
        env: Mapping[str, str] = NOTHING, seconds: float = 60.0, cap: int = KEPT,
    ) -> Iterator[Running]:  # fmt: skip
        """Run one command on a shell of its own, and hand out its lines as they come."""
        checked(self.name, words, env)
        with (
            self._turn(words, seconds) as waited,
            self._once(words, stdin, env, seconds, cap, waited) as command,
        ):
            command.split()
            yield command

    @contextmanager
    def raw(self, words: tuple[str, ...], *, window: int = WINDOW) -> Iterator[Pipe]:
        """Run one command whose streams stay open; on leaving, they are closed."""
        checked(self.name, words, NOTHING)
        mark = f"labkit-ended-{secrets.token_hex(8)}"
        # A command may end its whole group, and this shell has to say so.
        script = f'LC_ALL=C; export LC_ALL; trap : TERM; {shlex.join(words)}; echo "{mark} $?" >&2'
        with (
            self._turn(words, float("inf")),
            self._channel(script, False, window) as channel,
            Pipe(self.name, channel, mark) as one,
        ):
            yield one

    # As many as one shell runs: none where the host has no such shell; all, unless one of them
    # leaves something behind, and then none after it has been run.
    def _pipelined(
        self, commands: Sequence[tuple[str, ...]], seconds: float, cap: int
    ) -> Iterator[Completed]:
        with self._loop(seconds) as shell:
            texts = ((words, line(words, NOTHING, False, once=False)) for words in commands)
            following, sent = next(texts, None), 0
            if shell is None:
                return
            given: deque[Running] = deque()
            while given or following:
                while following and sent + len(following[1]) <= LONGEST_LINE:
                    given.append(Running(self, shell, following[0], seconds, cap))
                    given[-1].give(following[1])
                    sent += len(following[1])
                    following = next(texts, None)
                if not given:
                    return
                with suppress(NotRun), given.popleft() as command:
                    command.begin()
                    yield command.done
                    sent -= len(command.text)
                if shell.foreign or not shell.up:
                    return

    @contextmanager
    def _once(
        self, words: tuple[str, ...], stdin: bytes | Path, env: Mapping[str, str],
        seconds: float, cap: int, waited: float = 0.0, spare: bool = False,
    ) -> Iterator[Running]:  # fmt: skip
        with (
            _opened(self.name, stdin) as parts,
            self._channel(ONCE, spare) as channel,
            Running(self, Shell(channel, once=True), words, seconds, cap, waited) as command,
        ):
            command.give(line(words, env, parts is not None, once=True))
            if parts is not None:
                threading.Thread(target=_feed, args=(channel, parts), daemon=True).start()
            yield command

    def _told_to_end(self, group: str) -> bool:
        words = ("sh", "-c", END, "end", group)
        with suppress(LabkitError), self._once(words, b"", NOTHING, 3, 0, spare=True) as command:
            return command.done.code >= 0
        return False


class NotRun(HostError):
    """No shell of ours came up on the host, so the command was not run."""


class Running:
    """A command that was given to a shell: its lines as they come, and how it ended."""

    def __init__(
        self, host: ThroughShell, shell: Shell, words: tuple[str, ...], seconds: float, cap: int,
        waited: float = 0.0,
    ) -> None:  # fmt: skip
        self.words, self.seconds, self.text = words, seconds, ""
        self._host, self._shell = host, shell
        self._streams = (Kept(cap), Kept(cap))
        self._lines: deque[Line] = deque()
        self._splits = (_Split("stdout", self._lines), _Split("stderr", self._lines))
        self._order: Order | None = None
        self._result: Completed | None = None
        self._failed: HostError | None = None
        self._told: bool | None = None
        self.begin()
        self._waited = waited

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._order and not self._order.ended and not self._failed:
            self._stop()

    def begin(self) -> None:
        """Count its seconds from now on."""
        self._begun, self._at, self._waited = time.monotonic(), time.time(), 0.0

    def give(self, text: str) -> None:
        """Send it; what the shell's end means for it is said when its result is asked for."""
        self.text = text
        with suppress(Gone):
            self._order = self._shell.give(text, *self._streams)

    def split(self) -> None:
        """Keep its lines for whoever iterates."""
        for kept, split in zip(self._streams, self._splits, strict=True):
            kept.tell = split.add

    @property
    def done(self) -> Completed:
        """How it ended; waits for that, and drops the lines that come meanwhile."""
        if self._failed:
            raise self._failed
        if self._result is None:
            for kept in self._streams:
                kept.tell = None
            self._until(lambda shell, order, deadline: shell.wait(order, deadline))
            self._result = self._completed()
        return self._result

    def __iter__(self) -> Iterator[Line]:
        """Each line, of either stream, as soon as it is there."""
        while self._result is None:
            yield from self._queued()
            if self._order and self._order.ended:
                _ = self.done
                for split in self._splits:
                    split.finish()
            else:
                self._until(lambda shell, _, deadline: shell.read(deadline))
        yield from self._queued()

    def _queued(self) -> Iterator[Line]:
        while self._lines:
            yield self._lines.popleft()

    def _until(self, read: Callable[[Shell, Order, float], None]) -> None:
        try:
            if self._order is None:
                raise Gone
            read(self._shell, self._order, self._begun + self.seconds - self._waited)
        except Late:
            self._failed = self._late(self._stop())
        except Gone:
            self._failed = self._gone()
        except BaseException:  # Ctrl-C ends the command too
            self._stop()
            raise
        if self._failed:
            raise self._failed

    # Whether it was told to end. Its shell is told with it, and so is not used again.
    def _stop(self) -> bool:
        if self._told is None:
            self._told = False
            shell = self._shell
            with suppress(Late, Gone):
                if not shell.group:
                    shell.wait(shell.ready, time.monotonic() + LAST_CHANCE_SECONDS / 3)
            if shell.group and not shell.channel.lost:
                self._told = shell.channel.ended or self._host._told_to_end(shell.group)
        return self._told

    def _completed(self) -> Completed:
        order = self._order
        assert order is not None
        code, up, now, *_ = (word.decode("ascii", "replace") for word in order.words)
        out, err = order.streams
        step = (time.time() - self._at) - (time.monotonic() - self._begun)
        return Completed(
            self._host.name, self.words, int(code), bytes(out.content), bytes(err.content),
            out.size, err.size, order.ended - self._begun, _seconds(up, now),
            datetime.fromtimestamp(self._at, UTC),
            datetime.fromtimestamp(self._at + order.ended - self._begun, UTC),
            order.left_behind, round(step, 3),
        )  # fmt: skip

    @property
    def _shown(self) -> str:
        return shlex.join(self.words)

    def _late(self, told: bool) -> TimedOut:
        return TimedOut(
            f"{self._host.name}: `{self._shown}` had not ended after {self.seconds:g} s",
            said=self._last_words,
            hint="it was told to end; allow more time with seconds="
            if told
            else "it could not be told to end, and may run on: look on the host",
        )

    def _gone(self) -> HostError:
        name, gone = self._host.name, time.monotonic() - self._begun
        if not self._shell.channel.lost and not self._shell.up:
            self._shell.hear_out()
        if not self._shell.channel.lost and not self._shell.up:
            noise = b"\n".join(bytes(kept.content) for kept in self._shell.ready.streams)
            return NotRun(
                f"{name}: no shell came up for `{self._shown}`, so it was not run",
                said=noise.decode("utf-8", "replace"),
                hint="does this account get a shell? try `ssh HOST sh -c true`",
            )
        what = cut(self._shell.channel)
        return OutcomeUnknown(
            f"{name}: {what} during `{self._shown}`, {gone:.1f} s after it was sent",
            said=self._last_words,
            hint="whether the command ended is unknown; look on the host before repeating it",
        )

    @property
    def _last_words(self) -> str:
        out, err = (bytes(kept.content[-2000:]) for kept in self._streams)
        return (err or out).decode("utf-8", "replace")


class _Split:
    """Cuts one stream into lines."""

    def __init__(self, stream: str, lines: deque[Line]) -> None:
        self._stream, self._lines = stream, lines
        self._held = b""

    def add(self, part: bytes) -> None:
        *whole, self._held = (self._held + part).split(b"\n")
        for one in whole:
            self._put(one)
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


def _seconds(up: str, now: str) -> float:
    try:
        return round(float(now) - float(up), 2)
    except ValueError:
        return float("nan")


@contextmanager
def _opened(name: str, stdin: bytes | Path) -> Iterator[Iterator[bytes] | None]:
    if isinstance(stdin, bytes):
        # In parts, for paramiko copies all that is left each time it has sent some.
        parts = (stdin[start : start + CHUNK] for start in range(0, len(stdin), CHUNK))
        yield parts if stdin else None
        return
    try:
        file = stdin.open("rb")
    except OSError as refused:
        raise BadInput(f"{name}: cannot read {stdin}", said=str(refused)) from refused
    with file:
        yield iter(lambda: file.read(CHUNK), b"")


# A command need not read all that it is given.
def _feed(channel: Channel, parts: Iterator[bytes]) -> None:
    with suppress(Gone, ValueError):  # ValueError: the file was closed, as the command has ended
        for part in parts:
            channel.send(part)
        channel.finish()
