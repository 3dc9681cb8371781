"""The promises of all transports about commands; each runs them in a POSIX shell on the host."""

import secrets
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from labkit.errors import BadInput, LabkitError
from labkit.host import KEPT, NOTHING, Completed
from labkit.ssh.pipes import ShellPipe
from labkit.ssh.running import CHUNK, NotRun, Running
from labkit.ssh.shell import (
    END,
    LONGEST_LINE,
    ONCE,
    SBIN,
    Channel,
    Gone,
    Shell,
    checked,
    line,
)


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
        text = line(words, env, bool(stdin), once=False)
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
        with (
            self._turn(words, seconds),
            self._channel(script, False) as channel,
            ShellPipe(self.name, channel, mark) as shell_pipe,
        ):
            yield shell_pipe

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
        parts = (stdin[start : start + CHUNK] for start in range(0, len(stdin), CHUNK))
        yield parts if stdin else None
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
