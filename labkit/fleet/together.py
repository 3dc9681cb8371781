"""Commands that wait on their hosts until all start together, and servers that are waited for.

What is started ends with its input, which ends with the connection: nothing outlives us.
"""

from __future__ import annotations

import math
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from labkit.errors import HostError, TimedOut
from labkit.files import Pipe
from labkit.fleet import clock
from labkit.fleet.clock import ClockReading
from labkit.host import Host

PROGRAMS = ("perl",)

MOST_OUTPUT = 64 << 20
GRACE_SECONDS = 4.0

# A host is told when to start by its own clock, so that neither the way there nor our telling one
# host after another counts. The child is there before its time, for a fork takes a while; when it
# began is told at the end, for telling takes the time of a CPU that another may wait for.
PERL = r"""
use strict; use Time::HiRes qw(time sleep);
sub order {
 my $said = "";
 while (sysread(STDIN, my $c, 1)) { return $said if $c eq "\n"; $said .= $c }
 exit 0;
}
my $when;
syswrite(STDOUT, "clock\n");
while (($when = order()) eq "t") { syswrite(STDOUT, sprintf("%.6f\n", time)) }
pipe(my $told, my $tell);
my $child = fork();
if (!$child) {
 setpgrp(0, 0); open(STDIN, "<", "/dev/null"); sprintf("%.6f", time);
 my $left = $when - time; sleep($left) if $left > 0;
 syswrite($tell, sprintf("%.6f\n", time));
 exec { $ARGV[0] } @ARGV; syswrite(STDERR, "$ARGV[0]: $!\n"); exit 127;
}
my $watcher = fork();
if (!$watcher) {
 close(STDOUT); close(STDERR); 1 while sysread(STDIN, my $c, 1);
 kill "TERM", -$child; sleep(2); kill "KILL", -$child; exit 0;
}
waitpid($child, 0);
my $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
sysread($told, my $begun, 99); syswrite(STDERR, "\n$begun");
kill "KILL", $watcher; exit $code;
"""
# Without Perl, it starts when it is told to.
SHELL = r"""
echo message; exec 3<&0
while read -r when && [ "$when" = t ]; do date +%s.%N; done; [ "$when" ] || exit 0
begun=$(date +%s.%N)
"$@" </dev/null 3<&- & child=$!
trap '' TERM
{ cat <&3; kill -TERM 0; sleep 2; kill -KILL 0; } >/dev/null 2>&1 & watcher=$!
exec 3<&-; wait "$child"; code=$?; kill -KILL "$watcher"
printf '\n%s\n' "$begun" >&2; exit "$code"
"""
ARMED = """\
if perl -MTime::HiRes -e 1 2>/dev/null; then exec perl -e "$@"; fi
shift
"""


@dataclass(frozen=True)
class Started:
    """How a command went that was started together with others; `begun` by the host's clock."""

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
        """When it began by our clock, in seconds since 1970, within the clock's bound."""
        return self.begun - self.clock.offset


@dataclass
class Armed:
    """A command that waits on its host for the start."""

    host: Host
    words: tuple[str, ...]
    pipe: Pipe = field(repr=False)
    clock: ClockReading
    by_clock: bool

    def release(self, when: float) -> None:
        """Tell it when to start, by our clock; one that has no clock to wait by starts now."""
        if not self.by_clock:
            time.sleep(max(0.0, when - self.clock.round_trip / 2 - time.time()))
        self.pipe.send(f"{when + self.clock.offset:.6f}\n".encode())

    def done(self, deadline: float) -> Started:
        """How it went; at the deadline, by our monotonic clock, it is told to end."""
        late = threading.Event()
        watch = threading.Timer(max(0.0, deadline - time.monotonic()), self._too_late, [late])
        watch.daemon = True
        watch.start()
        try:
            out = self._output()
            code, said = self.pipe.ended()
        except HostError:
            if not late.is_set():
                raise
        finally:
            watch.cancel()
        if late.is_set():
            raise TimedOut(
                f"{self.host.name}: `{shlex.join(self.words)}` had not ended at its deadline",
                hint="it was told to end; allow more time with seconds=",
            )
        said, _, begun = said.rstrip("\n").rpartition("\n")
        name = self.host.name
        return Started(
            name, self.words, code, out, said, clock.seconds(name, begun), self.clock
        )  # fmt: skip

    def _too_late(self, late: threading.Event) -> None:
        late.set()
        self.pipe.finish()

    def _output(self) -> bytes:
        kept = bytearray()
        while part := self.pipe.recv():
            kept += part
            if len(kept) > MOST_OUTPUT:
                raise HostError(
                    f"{self.host.name}: `{shlex.join(self.words)}` printed more than"
                    f" {MOST_OUTPUT} bytes",
                    hint="have it write to a file on the host",
                )
        return bytes(kept)


@contextmanager
def armed(host: Host, words: Sequence[str]) -> Iterator[Armed]:
    """Have a command wait on its host; leaving ends it, whether it has started or not."""
    script = ("sh", "-c", ARMED + SHELL, "labkit", PERL, *words)
    with host.raw(*script) as pipe:
        by_clock = clock.line_of(pipe, host.name) == "clock"

        def ask() -> str:
            pipe.send(b"t\n")
            return clock.line_of(pipe, host.name)

        read = clock.reading(host.name, ask)
        pipe.patience = math.inf
        with _ending(pipe):
            yield Armed(host, tuple(words), pipe, read, by_clock)


# A server's last words are kept. The probe runs on the host, as often as it can there. To start
# programs takes a guest without hardware support far longer than to look, so that the shell does
# what it can, and does not pause between the first tries.
SERVE = r"""
probe=$1 seconds=$2 tries=0; shift 2; exec 3<&0
now() { at=; read -r at _ </proc/uptime; at=${at%.*}; [ "$at" ] || at=$(date +%s); } 2>/dev/null
{ "$@"; echo "it ended with code $?"; } </dev/null 3<&- 2>&1 | tail -c 4000 >&2 & child=$!
trap '' TERM
stop() { kill -TERM 0; sleep 2; kill -KILL 0; }
now; end=$((at + seconds + 1))
until (eval "exec $probe") >/dev/null 2>&1 </dev/null 3<&-; do
 kill -0 "$child" 2>/dev/null || exit 9
 now; [ "$at" -lt "$end" ] || { stop >/dev/null 2>&1 3<&- & wait "$child"; exit 8; }
 tries=$((tries + 1)); [ "$tries" -lt 5 ] || sleep 0.02 2>/dev/null || sleep 1
done
kill -0 "$child" 2>/dev/null || exit 9
echo ready
{ while read -r _ <&3; do :; done; stop; } >/dev/null 2>&1 & watcher=$!
exec 3<&-; wait "$child"; kill -KILL "$watcher"
"""


@contextmanager
def served(host: Host, words: Sequence[str], ready: Sequence[str], seconds: int) -> Iterator[None]:
    """A server, in the foreground of its host, from when `ready` succeeds there until we leave."""
    script = ("sh", "-c", SERVE, "labkit", shlex.join(ready), str(seconds), *words)
    with host.raw(*script) as pipe:
        pipe.patience = seconds + 30.0
        if pipe.recv() != b"ready\n":
            code, said = pipe.ended()
            why = f"was not ready after {seconds} s" if code == 8 else "ended before it was ready"
            raise HostError(
                f"{host.name}: `{shlex.join(words)}` {why}",
                said=said,
                hint=f"`{shlex.join(ready)}` has to succeed while it runs in the foreground",
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
