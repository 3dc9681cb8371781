"""The states of a job, and how the locks and records on its host show them."""

import signal
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
class Facts:
    """The host's report; the locks were looked at before the records."""

    folder: str
    gone: bool = False
    boot: str = ""
    now: int = 0
    """Hundredths of a second since boot, as `begun` and `ended`."""
    born_boot: str = ""
    begun: int = 0
    held: frozenset[str] = frozenset()
    end: tuple[str, int] | None = None
    """The end of its command: `exit` or `signal`, and the number."""
    guessed: bool = False
    """A shell waited for it, to which the end by signal 9 and the code 137 are one."""
    ended: int = 0
    oom: bool = False
    """The kernel says that it killed it for want of memory."""
    cause: str = ""
    streams: Mapping[str, Printed] = field(default_factory=dict)
    owner: tuple[str, ...] = ()
    since: int = 0


CAUSES = {
    "deadline": "it still ran at its deadline",
    "cancel": "it was cancelled",
}


def judged(facts: Facts) -> JobStatus:
    """The state that the facts prove, and nothing that they do not."""
    if facts.gone:
        reason = f"nothing is kept in {facts.folder}: removed, or gone with a reboot"
        return JobStatus(State.LOST, reason)
    state, reason = _state(facts)
    code, name = _end(facts)
    until = facts.ended if facts.end else facts.now if facts.held else facts.begun
    return JobStatus(
        state, reason, code, name, (until - facts.begun) / 100, bool(facts.held - {"sup"}),
        facts.streams.get("out", Printed()), facts.streams.get("err", Printed()),
        facts.owner, facts.since,
    )  # fmt: skip


def _state(facts: Facts) -> tuple[State, str]:
    cause = CAUSES.get(facts.cause, "")
    works = bool(facts.held & {"work", "out"})
    if facts.end and works:
        return State.RUNNING, "its command has ended; what it left behind has not"
    if facts.end and facts.cause == "deadline":
        return State.TIMED_OUT, cause
    # A shell that sees its own command end so may end with a code.
    if facts.end and facts.cause == "cancel":
        return State.KILLED, cause
    if facts.end and facts.end[0] == "signal":
        guess = f"or it ended with code {128 + facts.end[1]}: a host without perl cannot say"
        oom = "the kernel ended it, for want of memory"
        return State.KILLED, oom if facts.oom else guess if facts.guessed else ""
    if facts.end:
        return State.FINISHED, ""
    if "sup" in facts.held:
        return State.RUNNING, cause
    if works:
        return State.ORPHANED, "its supervisor was killed; its work goes on without it"
    return _without_end(facts, cause)


def _without_end(facts: Facts, cause: str) -> tuple[State, str]:
    if not facts.born_boot:
        return State.LOST, "its start was cut short; nothing of it ran"
    if facts.boot != facts.born_boot:
        return State.LOST, f"the host rebooted {facts.now / 100:.0f} s ago"
    if facts.cause == "deadline":
        return State.TIMED_OUT, f"{cause}; its supervisor was killed before that"
    if facts.cause == "cancel":
        return State.KILLED, f"{cause}; its supervisor was killed before that"
    return State.LOST, "its supervisor was killed, and its work has ended too"


def _end(facts: Facts) -> tuple[int | None, str]:
    if facts.end is None:
        return None, ""
    kind, number = facts.end
    if kind != "signal":
        return number, ""
    names = {Signal.value: Signal.name for Signal in signal.Signals}
    return None, names.get(number, str(number)).removeprefix("SIG")
