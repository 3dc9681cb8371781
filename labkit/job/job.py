"""One detached job on a host: started once by its key, followed from anywhere, ended whole."""

from __future__ import annotations

import math
import os
import random
import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from labkit.errors import BadInput, HostError, TimedOut, Unknown, Unreachable, sendable
from labkit.files.pipe import Carries
from labkit.job import state
from labkit.job.state import JobAnswer, JobStatus, State
from labkit.machine.own_place import OWN_PLACE

Tell = Callable[[str], None]
T = TypeVar("T")

KEY = re.compile(r"[a-z0-9-]{1,64}")
CAP = 64 << 20
LEAST_CAP = 64 << 10
PART = 1 << 20
FOREVER = 1e9
OTHER_JOB = 3
TURNS = 10
START_SECONDS = 60.0
# One command asks for this long, on the host, until a job is over: no polling.
PATIENT_SECONDS = 20
LIST_SECONDS = 60.0
ANSWER_SECONDS = 15.0
HUNG_SECONDS = 5.0
PATIENCE_SECONDS = 600.0
CANCEL_PATIENCE_SECONDS = 60.0
PAUSES = (0.05, 2.0)
LONGEST_PAUSE = 10.0
GRACE_SECONDS = 5
PARTS = ("words", "slots", "processes", "start", "run", "keep", "look", "verbs")
"""The files of labkit/job/runner, in this order: the last one sets the runner going."""
FOLDER = Path(__file__).with_name("runner")
_FIRST, *_REST = ((FOLDER / f"{part}.sh").read_text("utf-8") for part in PARTS)
TEXT = "".join((_FIRST, OWN_PLACE, *_REST)).strip()
RUNNER = ("sh", "-c", 'eval "$1"', "runner", TEXT)
LOOK = 'if [ -r "$1/runner" ]; then exec sh "$1/runner" "" look "$@"; fi\n'
LOOK += 'echo "labkit-job $2 $1"; echo gone; echo'


def silent(_: str) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Job:
    """A job by its `key`; `folder` on the host holds all that is known of it."""

    host: Carries = field(repr=False, compare=False)
    key: str
    folder: str

    def status(self) -> JobStatus:
        """The known status now; `UNKNOWN`, with the reason, while the host cannot be reached."""
        try:
            return self._look().status
        except Unreachable as error:
            return JobStatus(State.UNKNOWN, error.what)

    def wait(
        self, seconds: float = math.inf, *, tell: Tell = silent, patience: float = PATIENCE_SECONDS
    ) -> JobStatus:
        """Wait until it is over, `seconds` at most; return its status, also if it still runs.

        A host that cannot be reached is asked again, for `patience` seconds in a row.
        """
        until, longest = time.monotonic() + seconds, 0
        while True:
            status = self._look(longest=longest, tell=tell, patience=patience).status
            rest_seconds = until - time.monotonic()
            if status.over or rest_seconds <= 0:
                return status
            longest = math.ceil(min(PATIENT_SECONDS, rest_seconds))

    def output(self, offset: int = 0, stream: str = "out") -> bytes:
        """All that the host has kept from `offset` on, up to now."""
        contents = list[bytes]()
        while (part := self._look(stream, offset, PART)).content:
            contents.append(part.content)
            offset = part.end
        return b"".join(contents)

    def follow(
        self, offset: int = 0, stream: str = "out", *, tell: Tell = silent,
        patience: float = PATIENCE_SECONDS,
    ) -> Iterator[bytes]:  # fmt: skip
        """The output from `offset` on, as it comes, until nothing of the job is left.

        Beyond the cap something is missing between two parts; `tell` is called with its size.
        """
        pause = PAUSES[0]
        while True:
            part = self._look(stream, offset, PART, tell=tell, patience=patience)
            if part.content:
                if part.offset > offset:
                    tell(f"{self}: {part.offset - offset} bytes of output were not kept")
                yield part.content
                offset, pause = part.end, PAUSES[0]
            elif part.status.over and not part.status.alive:
                return
            else:
                time.sleep(pause)
                pause = min(2 * pause, PAUSES[1])

    def cancel(
        self, grace: float = GRACE_SECONDS, patience: float = CANCEL_PATIENCE_SECONDS
    ) -> JobStatus:
        """Ask every process of it to end, kill those that are left after `grace` seconds."""
        words = (*RUNNER, "cancel", self.folder, str(math.ceil(grace)))
        title, seconds = f"cancel job {self.key}", grace + ANSWER_SECONDS
        _insisting(lambda: _run(self.host, title, words, seconds), str(self), silent, patience)
        return self.status()

    def go_on(self, owner: str) -> None:
        """Have the host know another process, which goes on with what the first one began."""
        words = (*RUNNER, "owned", self.folder, owner)
        _run(self.host, f"go on with job {self.key}", words, ANSWER_SECONDS)

    def forget(self) -> None:
        """Remove all that the host keeps of it, and free its key; refused while it runs."""
        words = (*RUNNER, "forget", self.folder)
        hint = "end it first: job.cancel()"
        _run(self.host, f"forget job {self.key}", words, ANSWER_SECONDS, hint)

    def __str__(self) -> str:
        return f"{self.host.name}: job {self.key}"

    def _look(
        self, stream: str = "out", offset: int = 0, limit: int = 0, longest: int = 0,
        tell: Tell = silent, patience: float = 0.0,
    ) -> JobAnswer:  # fmt: skip
        numbers = (stream, str(offset), str(limit), str(longest))

        def ask() -> JobAnswer:
            nonce = secrets.token_hex(16)
            words = ("sh", "-c", LOOK, "look", self.folder, nonce, *numbers)
            for answer in _answers(self.host, words, nonce, longest + ANSWER_SECONDS):
                return answer
            raise HostError(
                f"{self}: its state is missing from the answer",
                hint="check that the job was started on this host",
            )

        return _insisting(ask, str(self), tell, patience)


@dataclass(frozen=True)
class JobLimits:
    """Limits that the host enforces by itself: whole seconds, rounded up, and bytes per stream."""

    seconds: float
    cap: int = CAP
    """The first half of it and the last are kept, should there be more output."""
    grace: float = GRACE_SECONDS

    def __post_init__(self) -> None:
        if self.cap < LEAST_CAP:
            raise BadInput(f"a cap of {self.cap} bytes is too small", hint=f"at least {LEAST_CAP}")
        for limit in (self.seconds, self.grace):
            if not 0 < limit < FOREVER:
                raise BadInput(f"{limit} cannot be a limit in seconds")

    @property
    def words(self) -> tuple[str, ...]:
        """The limits, as the runner takes them."""
        return str(math.ceil(self.seconds)), str(self.cap), str(math.ceil(self.grace))


def start(
    host: Carries, words: Sequence[str], *, key: str, limits: JobLimits, spool: str = "",
    tell: Tell = silent, patience: float = PATIENCE_SECONDS, owner: str = "",
) -> Job:  # fmt: skip
    """Start a job that no other `start` with this key has started, else attach to that one.

    Repeating is safe, so an answer that was lost is asked for again. `owner` is the process that
    follows it.
    """
    _refuse(words, key, spool)
    command = (*RUNNER, "start", spool, key, *limits.words, shlex.join(words), owner)

    def ask() -> Job:
        result = host.run(*command, seconds=START_SECONDS)
        folder = re.search(rb"^(?:started|attached) (/.*)$", result.stdout_bytes, re.MULTILINE)
        if result.code == OTHER_JOB:
            raise BadInput(
                f"{host.name}: key {key} belongs to another job",
                said=result.stderr,
                hint="a key belongs to one command; choose a new key",
            )
        if result.code or not folder:
            text = result.stderr or f"the host's shell ended with code {result.code}"
            raise HostError(f"{host.name}: job {key} was not started", said=text)
        return Job(host, key, os.fsdecode(folder[1]))

    return _insisting(ask, f"{host.name}: job {key}", tell, patience)


def attach(host: Carries, key: str, spool: str = "") -> Job:
    """The job that was started with this key, no matter who started it."""
    jobs = {job.key: job for job in listed(host, spool)}
    if key not in jobs:
        raise Unknown(f"job of {host.name}", key, jobs)
    return jobs[key]


def listed(host: Carries, spool: str = "") -> dict[Job, JobStatus]:
    """All jobs that this user has on the host, with the known facts about each."""
    nonce = secrets.token_hex(16)
    answers = _answers(host, (*RUNNER, "list", spool, nonce), nonce, LIST_SECONDS)
    return {Job(host, Path(found.folder).name, found.folder): found.status for found in answers}


def _refuse(words: Sequence[str], key: str, spool: str) -> None:
    if not words or not all(map(sendable, words)) or words[0].startswith("-"):
        raise BadInput(f"{list(words)!r} cannot be a command")
    if not KEY.fullmatch(key):
        raise BadInput(f"{key!r} cannot be a key", hint="1 to 64 of a-z, 0-9 and -")
    if spool and not spool.startswith("/"):
        raise BadInput(f"{spool!r} cannot be a spool", hint="a whole path on the host")


# A status or a start can be asked for twice, so a lost answer is no failure until `patience` ends.
def _insisting(ask: Callable[[], T], title: str, tell: Tell, patience: float) -> T:
    until, turn = time.monotonic() + patience, 0
    while True:
        try:
            moment = time.monotonic()
            return ask()
        except (Unreachable, TimedOut) as error:
            turn += 1
            # A connection that was found dead at once is worth a new one, whatever the patience.
            found_dead = turn == 1 and time.monotonic() - moment < HUNG_SECONDS
            if time.monotonic() > until and not found_dead:
                raise Unreachable(
                    f"{title}: its state is unknown, as the host does not answer",
                    said=str(error),
                    hint="jobs already started continue; attach by the key and look again",
                ) from error
            tell(f"{title}: reconnecting ({turn}): {error.what}")
            pause = min(0.1 * 2 ** min(turn, 10), LONGEST_PAUSE)
            time.sleep(pause * random.uniform(0.5, 1.0))


def _answers(host: Carries, words: Sequence[str], nonce: str, seconds: float) -> list[JobAnswer]:
    # A part of a fast job's output can be dropped between the look at it and its reading.
    for _ in range(TURNS):
        result = host.run(*words, seconds=seconds)
        with suppress(ValueError):
            return state.read(result.stdout_bytes, nonce)
    text = result.stderr or result.stdout_bytes.decode("utf-8", "replace")
    raise HostError(f"{host.name}: an answer about jobs cannot be read", said=text)


def _run(host: Carries, title: str, words: Sequence[str], seconds: float, hint: str = "") -> None:
    result = host.run(*words, seconds=seconds)
    if result.code:
        raise HostError(f"{host.name}: cannot {title}", said=result.stderr, hint=hint)
