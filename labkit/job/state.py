"""The states of a job, and how the locks and records on its host show them.

The runner on a host answers with lines of facts, an empty line, and a part of the output. The locks
were looked at before the records.
"""

import signal
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class State(Enum):
    """A job runs, or it has come to one of six ends."""

    RUNNING = "running"
    """Something of it lives, and somebody waits for its code."""
    FINISHED = "finished"
    """Its command ended by itself with `code`, and left nothing behind."""
    KILLED = "killed"
    """A crash, an operator or the kernel ended its command by `signal`, or `cancel` ended it."""
    TIMED_OUT = "timed out"
    """The host ended it, at its deadline."""
    ORPHANED = "orphaned"
    """Its supervisor is dead and the work goes on; there will never be a code."""
    LOST = "lost"
    """Nothing of it lives and there is no code; `why` says what is known."""
    UNKNOWN = "unknown"
    """The host cannot be asked now; nothing is said about the job."""


@dataclass(frozen=True)
class Printed:
    """The size of one stream of output, and of the part that the host has kept."""

    size: int = 0
    kept: int = 0
    full: bool = False
    """The host's disk was full: `size` is a lower bound then."""


@dataclass(frozen=True)
class JobStatus:
    """The known facts about a job at one moment."""

    state: State
    why: str = ""
    code: int | None = None
    signal: str = ""
    """The name of the signal that ended it, such as "KILL"."""
    seconds: float = 0.0
    """By the host's own clock, which nobody sets: until its end, or until now; 0 if not known."""
    alive: bool = False
    """Whether any process of it is there, be it only one that its command left behind."""
    out: Printed = field(default_factory=Printed)
    err: Printed = field(default_factory=Printed)
    owner: tuple[str, ...] = ()
    """The words of the process that began it, or has gone on with it since."""
    since: int = 0
    """The moment when it began, in seconds since 1970 by the host's clock; 0 if not known."""

    @property
    def over(self) -> bool:
        """Whether waiting any longer can bring no code."""
        return self.state not in (State.RUNNING, State.UNKNOWN)

    @property
    def ok(self) -> bool:
        """Whether it finished with code 0."""
        return self.state is State.FINISHED and self.code == 0

    def __str__(self) -> str:
        words = f" with code {self.code}" if self.code is not None else ""
        words += f" by signal {self.signal}" if self.signal else ""
        return f"{self.state.value}{words}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True)
class JobAnswer:
    """The status of the job in a folder of its host, and some bytes of one of its streams."""

    folder: str
    status: JobStatus
    offset: int = 0
    """Of the first of these bytes."""
    content: bytes = b""

    @property
    def end(self) -> int:
        """The offset of what comes next."""
        return self.offset + len(self.content)


Rows = Mapping[str, list[list[str]]]
"""The words of each line behind its first, by that."""


def read(answer: bytes, nonce: str) -> list[JobAnswer]:
    """All answers that carry the nonce; what a login script printed before is passed over.

    Raises ValueError for an answer that was cut short: it can be asked for again.
    """
    # The nonce is made anew for each question, so that no output can hold it.
    _, *frames = answer.split(f"labkit-job {nonce} ".encode())
    if not frames and f"labkit-jobs {nonce}".encode() not in answer:
        raise ValueError("no answer")
    try:
        return [_frame(frame) for frame in frames]
    except LookupError as error:
        raise ValueError("a line is missing") from error


def _frame(frame: bytes) -> JobAnswer:
    head, separator, content = frame.partition(b"\n\n")
    folder, *lines = head.decode("utf-8", "surrogateescape").split("\n")
    if lines == ["gone"]:
        reason = f"nothing is kept in {folder}: removed, or gone with a reboot"
        return JobAnswer(folder, JobStatus(State.LOST, reason))
    if not separator:
        raise ValueError("the answer has no end")
    rows: dict[str, list[list[str]]] = defaultdict(list)
    for line in lines:
        name, *words = line.split()
        rows[name].append(words)
    offset, count = map(int, rows["part"][0])
    if len(content) != count:
        raise ValueError(f"{len(content)} of {count} bytes arrived")
    return JobAnswer(folder, _judge(rows), offset, content)


# The state that the facts prove, and nothing that they do not. Times are hundredths of a second
# since boot. Before a job has begun, and before its command has ended, some lines are empty.
def _judge(rows: Rows) -> JobStatus:
    boot, now = rows["now"][0]
    born_boot, begun, since, _, _ = rows["born"][0] or ("", "0", "0", "", "")
    (owner, *_) = rows["owner"] or ([],)  # none in the answer of an older runner
    end, held, cause = _End.of(rows["main"][0]), {*rows["held"][0]}, "".join(rows["why"][0])
    if end and not held & WORK:
        state, reason = end.state(cause)
    elif end:
        state, reason = State.RUNNING, "its command has ended; what it left behind has not"
    elif "sup" in held:
        state, reason = State.RUNNING, CAUSES.get(cause, "")
    elif held & WORK:
        state, reason = State.ORPHANED, "its supervisor was killed; its work goes on without it"
    elif not born_boot:
        state, reason = State.LOST, "its start was cut short; nothing of it ran"
    elif boot != born_boot:
        state, reason = State.LOST, f"the host rebooted {int(now) / 100:.0f} s ago"
    elif cause in ENDED_BY:
        reason = f"{CAUSES[cause]}; its supervisor was killed before that"
        state = ENDED_BY[cause]
    else:
        state, reason = State.LOST, "its supervisor was killed, and its work has ended too"
    until = end.moment if end else int(now) if held else int(begun)
    return JobStatus(
        state, reason, end.code if end else None, end.signal if end else "",
        (until - int(begun)) / 100, bool(held - {"sup"}), _stream(rows, "out"),
        _stream(rows, "err"), tuple(owner), int(since),
    )  # fmt: skip


WORK = {"work", "out"}
"""The locks of what a job's command has started."""
CAUSES = {"deadline": "it still ran at its deadline", "cancel": "it was cancelled"}
ENDED_BY = {"deadline": State.TIMED_OUT, "cancel": State.KILLED}


@dataclass(frozen=True)
class _End:
    """The end of a command, as who waited for it saw it."""

    code: int | None
    signal: str
    reason: str
    moment: int

    @classmethod
    def of(cls, words: list[str]) -> "_End | None":
        if not words:
            return None
        kind, text, moment, *oom = words
        number = int(text)
        # To a shell the end by signal 9 and the code 137 are one.
        guess = kind == "code" and 128 < number <= 128 + 64
        if kind != "signal" and not guess:
            return cls(number, "", "", int(moment))
        names = {Signal.value: Signal.name for Signal in signal.Signals}
        killer = number - 128 if guess else number
        reason = f"or it ended with code {number}: a host without perl cannot say" if guess else ""
        if oom == ["oom"]:
            reason = "the kernel ended it, for want of memory"
        return cls(None, names.get(killer, str(killer)).removeprefix("SIG"), reason, int(moment))

    # A shell that sees its own command end so, at its deadline, may end with a code.
    def state(self, cause: str) -> tuple[State, str]:
        if cause in ENDED_BY:
            return ENDED_BY[cause], CAUSES[cause]
        return (State.KILLED if self.signal else State.FINISHED), self.reason


def _stream(rows: Rows, name: str) -> Printed:
    full = dict(word.split(":") for word in rows["full"][0])
    files = [(int(at), int(size)) for owner, at, size in rows["file"] if owner == name]
    drops = int(full.get(name) or 0)
    size = max((at + size for at, size in files), default=0) + drops
    return Printed(size, sum(size for _, size in files), name in full)
