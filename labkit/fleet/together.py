"""Commands that wait on their hosts until all start together, and servers that are waited for.

Clocks of hosts are read with their offset from ours and a bound, so that times can be compared.

What is started ends with its input, which ends with the connection: nothing outlives us.
"""

import math
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from labkit.errors import HostError, TimedOut, command_line
from labkit.files import Pipe
from labkit.host import Host
from labkit.machine.scripts import beside

PROGRAMS = ("perl",)

MOST_OUTPUT = 64 << 20
GRACE_SECONDS = 4.0
TIMES = 5
"""The readings taken of a clock; the one with the shortest way there and back counts."""
LONGEST_LINE = 200
TIME = re.compile(r"(\d{1,12})(?:\.(\d{1,9}))?")

# A host is told when to start by its own clock, so that neither the way there nor our telling one
# host after another counts. The child is there before its time, for a fork takes a while; when it
# began is told at the end, for telling takes the time of a CPU that another may wait for.
PERL = beside(__file__, "start_together.pl")
# Without Perl, it starts when it is told to.
SHELL = beside(__file__, "start_together.sh")
ARM = """\
if perl -MTime::HiRes -e 1 2>/dev/null; then exec perl -e "$@"; fi
shift
"""


@dataclass(frozen=True)
class ClockReading:
    """A host's clock beside ours; its true offset is within `bound` of `offset`, in seconds."""

    offset: float
    round_trip: float
    resolution: float = 0.0

    @property
    def bound(self) -> float:
        """Half the way there and back, for no one can say how long each way took."""
        return self.round_trip / 2 + self.resolution


def reading(name: str, ask: Callable[[], str]) -> ClockReading:
    """The best of some readings; `ask` has the host print its time, in seconds since 1970."""
    readings = []
    for _ in range(TIMES):
        start, at = time.monotonic(), time.time()
        text = ask()
        seconds_taken = time.monotonic() - start
        moment, resolution = _moment(name, text)
        readings.append(ClockReading(moment - at - seconds_taken / 2, seconds_taken, resolution))
    return min(readings, key=lambda answer: answer.round_trip)


# The middle of the times that what a host prints may stand for, and how far it is from their ends.
# A clock cuts off what is finer than its last digit: so it may be that much later, and is half of
# it on the average. Few hosts print nanoseconds. BusyBox's date knows no fractions, and repeats the
# letters that should become one.
def _moment(name: str, text: str) -> tuple[float, float]:
    match = TIME.match(text)
    if not match:
        raise HostError(f"{name}: its clock says {text!r}")
    half = 10.0 ** -len(match[2] or "") / 2
    return float(match[0]) + half, half


def line_of(pipe: Pipe, name: str) -> str:
    """The next line of a command that answers line by line."""
    content = b""
    while not content.endswith(b"\n"):
        part = pipe.recv(1)
        if not part or len(content) > LONGEST_LINE:
            _, complaint = pipe.ended() if not part else (0, "")
            raise HostError(
                f"{name}: what was to answer a line at a time has ended", said=complaint
            )
        content += part
    return content.decode("ascii", "replace").strip()


@dataclass(frozen=True)
class Started:
    """The result of a command started together with others; `begun` is by the host's clock."""

    host: str
    words: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: str
    begun: float
    clock: ClockReading

    @property
    def ok(self) -> bool:
        """Whether the command ended with code 0."""
        return self.code == 0

    @property
    def begun_here(self) -> float:
        """Its start by our clock, in seconds since 1970, within `bound`."""
        return self.begun - self.clock.offset

    @property
    def bound(self) -> float:
        """Seconds by which `begun_here` may be wrong; some hosts' `date` prints whole seconds."""
        return self.clock.bound + self.clock.resolution


@dataclass
class Armed:
    """A command that waits on its host for the start."""

    host: Host
    words: tuple[str, ...]
    pipe: Pipe = field(repr=False)
    clock: ClockReading
    by_clock: bool

    def release(self, moment: float) -> None:
        """Say when it is to start, by our clock; one that has no clock to wait by starts now."""
        if not self.by_clock:
            time.sleep(max(0.0, moment - self.clock.round_trip / 2 - time.time()))
        self.pipe.send(f"{moment + self.clock.offset:.6f}\n".encode())

    def done(self, deadline: float) -> Started:
        """Return how it went. At the deadline, by our monotonic clock, stop it."""
        late = threading.Event()
        watch = threading.Timer(max(0.0, deadline - time.monotonic()), self._too_late, [late])
        watch.daemon = True
        watch.start()
        try:
            out = self._output()
            code, text = self.pipe.ended()
        except HostError:
            if not late.is_set():
                raise
        finally:
            watch.cancel()
        if late.is_set():
            raise TimedOut(
                f"{self.host.name}: `{command_line(self.words)}` had not ended at its deadline",
                hint="it was stopped; allow more time with seconds=",
            )
        text, _, start_text = text.rstrip("\n").rpartition("\n")
        name = self.host.name
        at, _ = _moment(name, start_text)
        return Started(name, self.words, code, out, text, at, self.clock)

    def _too_late(self, late: threading.Event) -> None:
        late.set()
        self.pipe.finish()

    def _output(self) -> bytes:
        content = bytearray()
        while part := self.pipe.recv():
            content += part
            if len(content) > MOST_OUTPUT:
                raise HostError(
                    f"{self.host.name}: `{command_line(self.words)}` printed more than"
                    f" {MOST_OUTPUT} bytes",
                    hint="have it write to a file on the host",
                )
        return bytes(content)


@contextmanager
def armed(host: Host, words: Sequence[str]) -> Iterator[Armed]:
    """Have a command wait on its host; leaving ends it, whether it has started or not."""
    script = ("sh", "-c", ARM + SHELL, "labkit", PERL, *words)
    with host.raw(*script) as pipe:
        by_clock = line_of(pipe, host.name) == "clock"

        def ask() -> str:
            pipe.send(b"t\n")
            return line_of(pipe, host.name)

        clock = reading(host.name, ask)
        pipe.patience = math.inf
        with _ending(pipe):
            yield Armed(host, tuple(words), pipe, clock, by_clock)


# A server's last words are kept. The probe runs on the host, as often as it can there. To start
# programs takes a guest without hardware support far longer than to look, so that the shell does
# what it can, and does not pause between the first tries.
SERVE = beside(__file__, "serve.sh")


@contextmanager
def served(host: Host, words: Sequence[str], ready: Sequence[str], seconds: int) -> Iterator[None]:
    """A server, in the foreground of its host, from when `ready` succeeds there until we leave."""
    script = ("sh", "-c", SERVE, "labkit", shlex.join(ready), str(seconds), *words)
    with host.raw(*script) as pipe:
        pipe.patience = seconds + 30.0
        if pipe.recv() != b"ready\n":
            code, text = pipe.ended()
            reason = (
                f"was not ready after {seconds} s" if code == 8 else "ended before it was ready"
            )
            raise HostError(
                f"{host.name}: `{command_line(words)}` {reason}",
                said=text,
                hint=f"`{command_line(ready)}` has to succeed while it runs in the foreground",
            )
        pipe.patience = math.inf
        with _ending(pipe):
            yield


# Its input ends, and with it whatever was started; that is waited for.
@contextmanager
def _ending(pipe: Pipe) -> Iterator[None]:
    try:
        yield
    finally:
        pipe.finish()
        pipe.patience = GRACE_SECONDS
        with suppress(HostError):
            pipe.ended()
