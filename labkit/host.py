"""A host: one machine, however it is reached."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Protocol
from urllib.parse import quote

from labkit import files
from labkit import job as detached
from labkit.errors import CommandFailed, HostError, command_line
from labkit.job import Job, JobStatus, Tell, silent
from labkit.machine.process import LabkitProcess
from labkit.programs.packages import installable

NOTHING: Mapping[str, str] = MappingProxyType({})
KEPT = 64 << 20
"""Bytes of each stream of a command that are kept, unless the caller says otherwise."""


@dataclass(frozen=True)
class Completed:
    """The result of one command: how it ended, what it printed, how long it took, and when.

    `seconds` are the controller's, the way to the host included. `left_behind`: something that the
    command started still held its output when it had ended, so that there may be more, which nobody
    reads.
    """

    host: str
    words: tuple[str, ...]
    code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    stdout_size: int
    stderr_size: int
    seconds: float
    begun: datetime
    ended: datetime
    left_behind: bool = False

    @property
    def ok(self) -> bool:
        """Whether the command ended with code 0."""
        return self.code == 0

    @property
    def command(self) -> str:
        """The command as a shell would read it; a long one without its middle."""
        return command_line(self.words)

    @property
    def signal(self) -> str:
        """The signal that ended it, such as "KILL", or "".

        Read from the code as a shell counts it, 128 and the number: a command that itself ends
        with code 137 cannot be distinguished from a killed one.
        """
        names = {number.value: number.name for number in signal.Signals}
        return names.get(self.code - 128, "").removeprefix("SIG")

    @property
    def truncated(self) -> bool:
        """Whether it printed more than was kept; what was kept is the beginning."""
        sizes = len(self.stdout_bytes), len(self.stderr_bytes)
        return sizes != (self.stdout_size, self.stderr_size)

    @cached_property
    def stdout(self) -> str:
        """Its output as text; a byte that is no UTF-8 becomes U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @cached_property
    def stderr(self) -> str:
        """Its error stream as text, in the same way."""
        return self.stderr_bytes.decode("utf-8", "replace")


@dataclass(frozen=True)
class Line:
    """One line of a running command, without its end; one of more than 64 KiB comes in parts."""

    stream: str
    text: str


class Streaming(Protocol):
    """A running command: its lines as they come, then what `run` would have returned."""

    def __iter__(self) -> Iterator[Line]:
        """Each line, of either stream, until the command has ended."""

    @property
    def done(self) -> Completed:
        """Read what remains of it, then return how it ended."""


class Transport(Protocol):
    """A way for commands and files to reach a host."""

    def run(
        self, words: tuple[str, ...], *, stdin: bytes | Path = b"",
        env: Mapping[str, str] = NOTHING, seconds: float = 60.0, cap: int = KEPT,
    ) -> Completed:  # fmt: skip
        """Run one command to its end, or raise when `seconds` have passed."""

    def stream(
        self, words: tuple[str, ...], *, stdin: bytes | Path, env: Mapping[str, str],
        seconds: float, cap: int,
    ) -> AbstractContextManager[Streaming]:  # fmt: skip
        """Run one command and hand out its lines as they come; it ends with the block."""

    def as_root(self, password: Callable[[], str] | None) -> Transport:
        """The same host by the same connection, but as root."""

    def raw(
        self, words: tuple[str, ...], *, seconds: float = 60.0
    ) -> AbstractContextManager[files.Pipe]:
        """Run a command whose streams stay open, or raise when it has no turn in `seconds`."""

    @property
    def reached_at(self) -> str:
        """The address that answered; empty without one, or without a connection."""

    def round_trip(self) -> float:
        """Seconds to the host and back."""

    def rest(self) -> None:
        """Expect no answer until the next command, as of a guest that is about to be paused."""

    def close(self) -> None:
        """Let go of the host; the next command connects again."""


@dataclass(frozen=True)
class Guest:
    """A virtual machine: what its hypervisor calls it, and where it answers once it runs."""

    vm: str
    address: str
    port: int = 0
    """The port that its sshd will listen on; 0 if nobody is to log in."""


@dataclass(frozen=True)
class Host:
    """One machine: `transport` carries the commands, `address` is where test traffic goes."""

    name: str
    address: str
    transport: Transport = field(repr=False, compare=False)
    interface: str = ""
    disks: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Disks that hold nothing and that an array may be made of, such as /dev/sdb."""
    resource: str = field(default="", repr=False, compare=False)
    """Name of it in its owner's own Pacemaker, where that starts it on another host."""
    guests: Mapping[str, Guest] = field(default_factory=dict, repr=False, compare=False)
    """The virtual machines on it that studies are about, by their roles."""
    lab: str = field(default="", repr=False, compare=False)
    """The file that describes the lab that it is of, if any does."""
    measuring: str = field(default="", repr=False, compare=False)
    """The key of the run that is being made; commands of it that last are jobs."""
    run_name: str = field(default="", repr=False, compare=False)
    """The results that this run is for, as its jobs are called where they are found."""

    def verb(self, verb: str, *names: str) -> str:
        """The command to type for a verb of labkit about it, and about other hosts of its lab.

        Such as `labkit restore server --lab lab.toml`.
        """
        of = ["--lab", self.lab] if self.lab else []
        return shlex.join(["labkit", verb, self.name, *names, *of])

    def run(
        self, *words: str, stdin: bytes | Path = b"", env: Mapping[str, str] = NOTHING,
        seconds: float = 60.0, cap: int = KEPT,
    ) -> Completed:  # fmt: skip
        """Run a command and report how it ended, whatever its code; keep `cap` bytes a stream."""
        return self.transport.run(words, stdin=stdin, env=env, seconds=seconds, cap=cap)

    def check(
        self, *words: str, stdin: bytes | Path = b"", env: Mapping[str, str] = NOTHING,
        seconds: float = 60.0, cap: int = KEPT,
    ) -> str:  # fmt: skip
        """Run a command that must end with code 0; return all that it printed."""
        outcome = self.transport.run(words, stdin=stdin, env=env, seconds=seconds, cap=cap)
        if not outcome.ok:
            raise CommandFailed(
                f"{self.name}: `{outcome.command}` ended with code {outcome.code}",
                said=outcome.stderr or outcome.stdout,
                hint=_hint(outcome),
            )
        if outcome.stdout_size > len(outcome.stdout_bytes):
            size = f"printed {outcome.stdout_size} bytes; {cap} were kept"
            raise HostError(
                f"{self.name}: `{outcome.command}` {size}",
                hint="allow more with cap=, or take its lines one by one with stream()",
            )
        return outcome.stdout

    def stream(
        self, *words: str, stdin: bytes | Path = b"", env: Mapping[str, str] = NOTHING,
        seconds: float = 60.0, cap: int = KEPT,
    ) -> AbstractContextManager[Streaming]:  # fmt: skip
        """Run a command and see its lines while it runs: `with host.stream(...) as lines:`.

        Leaving the block before its end ends the command.
        """
        return self.transport.stream(words, stdin=stdin, env=env, seconds=seconds, cap=cap)

    def as_root(self, password: Callable[[], str] | None = None) -> Host:
        """The same host, with everything done as root through sudo, if the login is not root.

        If sudo wants a password, `password` is called once. Without it, the keyring is asked
        (service "labkit", name "user@host"), then the user at the terminal.
        """
        return replace(self, transport=self.transport.as_root(password))

    def put(self, content: bytes | Path, path: str, mode: int | None = None) -> None:
        """Write `content` (bytes, or a local file) to `path` on the host, whole or not at all."""
        files.put(self, content, path, mode)

    def get(self, path: str, *, most: int = files.MOST_IN_MEMORY, follow: bool = False) -> bytes:
        """The bytes of the file at `path` on the host; a link is read through with `follow`."""
        return files.get(self, path, most=most, follow=follow)

    def raw(self, *words: str, seconds: float = 60.0) -> AbstractContextManager[files.Pipe]:
        """A command whose streams stay open: for what is not text, or not yet at its end.

        It waits that many `seconds` for its turn, and then runs as long as somebody wants it.
        """
        return self.transport.raw(tuple(words), seconds=seconds)

    def round_trip(self) -> float:
        """Seconds to the host and back."""
        return self.transport.round_trip()

    def start(
        self, *words: str, key: str, seconds: float, cap: int = detached.CAP, spool: str = "",
        tell: Tell = silent,
    ) -> Job:  # fmt: skip
        """Start a detached job, or attach to the one that this key stands for."""
        limits = detached.JobLimits(seconds, cap)
        return detached.start(
            self, words, key=key, limits=limits, spool=spool, tell=tell, owner=self.owner
        )

    @property
    def owner(self) -> str:
        """The current process, and the run that it measures, as words of a job's owner."""
        return f"{LabkitProcess.me().words} {quote(self.run_name, safe='')}".rstrip()

    def job(self, key: str, spool: str = "") -> Job:
        """The job that was started here with this key, by whichever process."""
        return detached.attach(self, key, spool)

    def jobs(self, spool: str = "") -> dict[Job, JobStatus]:
        """All jobs of this user on the host, and the known facts about each."""
        return detached.listed(self, spool)

    def rest(self) -> None:
        """Say that it may answer nothing until the next command, and keep the connection.

        One that is paused takes up its connections again; elsewhere the next command connects.
        """
        self.transport.rest()

    def close(self) -> None:
        """Close the connection; the next command opens it again."""
        self.transport.close()


def _hint(outcome: Completed) -> str:
    if outcome.code == 127 and " " in outcome.words[0]:
        return f"a command is a list of words: host.check(*{shlex.split(outcome.words[0])!r})"
    if outcome.code == 127:
        question = f"is `{outcome.words[0]}` installed on {outcome.host}, and on the PATH there?"
        remedy = " `labkit prepare STUDY --lab FILE` installs it over SSH"
        return question + (remedy if installable(outcome.words[0]) else "")
    if outcome.code == 126:
        return f"`{outcome.words[0]}` exists on {outcome.host} but may not be run"
    return ""
