"""Gates: what may have spoiled a repetition, judged by what the host counted before and after it.

`collect` is one POSIX shell command; its raw text is kept with the run and read again at any time.
A gate never drops a run. It says that something was wrong, that nothing was, or that this host
cannot say (`ok` is None): a missing counter is not a clean bill.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.machine.scripts import beside

# Each line carries the file that it comes from. What this host lacks prints nothing. The two times
# are read next to each other; date of BusyBox may know no %N. As few programs as can be: a guest
# that is emulated takes long to start each. `labkit.gates.counter` has the same in Perl.
SCRIPT = beside(__file__, "gate.sh")
COLLECT = ("sh", "-c", f"{{ {SCRIPT} }} 2>/dev/null")

TICKS = 100  # USER_HZ of every Linux port that is in use: times(2), proc(5)
STEAL = 0.01
BUSY = 0.95
FOREIGN = 0.05
RETRANSMITS, FEW_SEGMENTS = 0.001, 10
THROTTLE = 0.01
STEP = 0.1
PAUSE, PAUSE_SHARE = 1.0, 0.02
KERNEL_THREAD = 0x00200000  # PF_KTHREAD in include/linux/sched.h
DAEMONS = frozenset(
    {"sshd", "sshd-session", "qemu-system-x86", "qemu-system-aar", "qemu-kvm", "linux.uml"}
)
"""Programs that labkit keeps busy on a host: sessions, and guests (of QEMU; User-Mode Linux)."""
BUSY_CLIENT, OTHER_WORK = "busy client", "other work"
SHOWN_ONLY = (BUSY_CLIENT, OTHER_WORK)
"""Gates that make no run invalid: they say what its figures are about."""
NAMES = (
    "steal", "throttling", "swap", "retransmits", "NIC errors", "clock step", "paused",
    "foreign load", "load generator", "time", *SHOWN_ONLY,
)  # fmt: skip


@dataclass(frozen=True)
class Gate:
    """One thing that may spoil a repetition; `ok` is None when this host cannot say."""

    name: str
    ok: bool | None
    why: str


def collect(host: Host) -> str:
    """The host's counts, as text, read with one command."""
    return host.check(*COLLECT)


def gates(
    before: str,
    after: str,
    seconds: float,
    *,
    limit: float = float("inf"),
    slack: float = 0.0,
    step: float = 0.0,
    client: bool = False,
    names: Collection[str] = DAEMONS,
) -> tuple[Gate, ...]:
    """All gates of one host for a repetition that took `seconds` by the controller's clock.

    `limit` is how long it may take, and `slack` how far `seconds` may be off. `step` is how far
    our time of day moved against the clock of `seconds`. `client` says that the host asked in a
    closed loop, with CPUs of its own. `names` are processes of the study from before it, such as a
    server.
    """
    of_limit = f" of {limit:g} s" if limit < float("inf") else ""
    try:
        span = _Span(_Reading.of(before), _Reading.of(after), seconds)
        return (
            _steal(span), _throttling(span), _swap(span), _retransmits(span), _nic_errors(span),
            _clock_stepped(span, step), _pause(span, slack),
            _foreign_load(span, {*names, *DAEMONS}), *_saturation(span, client),
            Gate("time", seconds <= limit, f"it took {seconds:.1f} s{of_limit}"),
        )  # fmt: skip
    except (ValueError, IndexError, KeyError) as error:
        raise ResultsError("the counters of a host cannot be read", said=str(error)) from None


@dataclass(frozen=True)
class ProcessTimes:
    """A process by its /proc/PID/stat: fields 2, 4, 9, 14 to 17 and 22 of proc(5)."""

    name: str
    parent: int
    kernel: bool
    ticks: int
    children: int
    started: int

    @classmethod
    def read(cls, line: str) -> ProcessTimes:
        """Read the line; a name may hold spaces and brackets."""
        name, _, tail = line.partition("(")[2].rpartition(")")
        row = [int(word) for word in tail.split()[1:20]]
        kernel = bool(row[5] & KERNEL_THREAD)
        return cls(name, row[0], kernel, row[10] + row[11], row[12] + row[13], row[18])


@dataclass(frozen=True)
class _Reading:
    # What one collection printed: file -> its lines.
    lines: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, text: str) -> _Reading:
        lines: dict[str, list[str]] = {}
        for line in text.splitlines():
            file, _, tail = line.partition(":")
            lines.setdefault(file, []).append(tail)
        if "date" not in lines or "end" not in lines:
            raise ResultsError(
                "the counters are incomplete or unreadable", said=text[-200:] or "nothing"
            )
        return cls({file: tuple(tail) for file, tail in lines.items()})

    def numbers(self, file: str) -> dict[str, list[float]]:
        """The lines of a file that are a word and numbers, by the word."""
        words = (line.split() for line in self.lines.get(file, ()))
        return {first: [float(word) for word in rest] for first, *rest in words if rest}

    def counters(self, pattern: str) -> dict[str, int]:
        """The files that hold a single number, by name."""
        regex = re.compile(pattern)
        return {file: int(lines[0]) for file, lines in self.lines.items() if regex.fullmatch(file)}

    @property
    def date(self) -> tuple[float, float]:
        """The time of day, and how exactly it is known."""
        text, _, part = self.lines["date"][0].partition(".")
        return (float(f"{text}.{part}"), 0.0) if part.isdigit() else (float(text), 1.0)

    @property
    def uptime(self) -> float | None:
        """Seconds since the host was started, suspended ones included."""
        line = self.lines.get("/proc/uptime")
        return float(line[0].split()[0]) if line else None

    @cached_property
    def tcp(self) -> dict[str, int]:
        """The TCP counters, by the names of RFC 4022 that the line above them gives."""
        pair = self.lines.get("/proc/net/snmp", ("", ""))[:2]
        names, values = (line.removeprefix("Tcp:").split() for line in pair)
        return {name: int(value) for name, value in zip(names, values, strict=True)}

    @cached_property
    def processes(self) -> dict[str, ProcessTimes]:
        """By process id; what is after a line break in a name is not kept."""
        return {
            file.split("/")[2]: ProcessTimes.read(lines[0]) for file, lines in self.lines.items()
            if re.fullmatch(r"/proc/\d+/stat", file) and ")" in lines[0]
        }  # fmt: skip


@dataclass(frozen=True)
class _Span:
    before: _Reading
    after: _Reading
    seconds: float

    @cached_property
    def cpus(self) -> dict[str, list[float]]:
        """By how much the times of each CPU rose."""
        old, new = (reading.numbers("/proc/stat") for reading in (self.before, self.after))
        return {cpu: [b - a for a, b in zip(old[cpu], new[cpu], strict=True)]
                for cpu in old if cpu in new}  # fmt: skip

    def grown(self, pattern: str) -> dict[str, int]:
        """By how much single counters rose; one that was set back to 0 counts from there."""
        old, new = self.before.counters(pattern), self.after.counters(pattern)
        return {
            file: n - old[file] if n >= old[file] else n for file, n in new.items() if file in old
        }

    @property
    def uptime(self) -> float | None:
        """The time that passed on the host."""
        start, end = self.before.uptime, self.after.uptime
        return None if start is None or end is None else end - start


def _steal(span: _Span) -> Gate:
    # /proc/stat: user nice system idle iowait irq softirq steal; guest time is in user already.
    times = span.cpus.get("cpu", [])[:8]
    if len(times) < 8 or sum(times) <= 0:
        return Gate("steal", None, "this host does not report its steal time")
    share = times[7] / sum(times)
    return Gate("steal", share <= STEAL, f"{percent(share)} of its CPU time was stolen from it")


def _throttling(span: _Span) -> Gate:
    heat = sum(span.grown(r".*/thermal_throttle/.*").values())
    groups = [file for file in span.after.lines if file.endswith("/cpu.stat")]
    # Microseconds in version 2 of cgroups, nanoseconds of all CPUs in version 1.
    took = [_grown_in(span, file, "throttled_usec") / 1e6 for file in groups]
    took += [_grown_in(span, file, "throttled_time") / 1e9 for file in groups]
    share = max(took, default=0.0) / max(span.seconds, 1e-9)
    if heat:
        return Gate("throttling", False, f"its processor throttled itself {heat} times for heat")
    if share > THROTTLE:
        reason = f"its CPU limit held it back for {percent(share)} of the time"
        return Gate("throttling", False, reason)
    if not groups and not span.after.counters(r".*/thermal_throttle/.*"):
        return Gate("throttling", None, "this host counts neither heat nor CPU limits")
    return Gate("throttling", True, "neither heat nor a CPU limit held it back")


def _swap(span: _Span) -> Gate:
    if "/proc/vmstat" not in span.after.lines:
        return Gate("swap", None, "this host does not count what it swaps")
    pages = sum(_grown_in(span, "/proc/vmstat", word) for word in ("pswpin", "pswpout"))
    return Gate("swap", pages == 0, f"{pages:.0f} pages were swapped")


def _retransmits(span: _Span) -> Gate:
    old, new = span.before.tcp, span.after.tcp
    if not {"OutSegs", "RetransSegs"} <= set(old) & set(new):
        return Gate("retransmits", None, "this host does not count TCP segments")
    segments, repeats = (new[name] - old[name] for name in ("OutSegs", "RetransSegs"))
    ok = repeats <= FEW_SEGMENTS or repeats <= RETRANSMITS * segments
    return Gate("retransmits", ok, f"{repeats} of {segments} TCP segments were sent again")


def _nic_errors(span: _Span) -> Gate:
    growth = span.grown(r"/sys/class/net/.*_errors")
    if not growth:
        return Gate("NIC errors", None, "this host counts no errors of its network cards")
    wrong = {file: n for file, n in growth.items() if n}
    names = ", ".join(f"{file.split('/')[4]} {file.split('/')[6]} {n}" for file, n in wrong.items())
    return Gate("NIC errors", not wrong, names or "no network card counted an error")


def _clock_stepped(span: _Span, step: float) -> Gate:
    # The times of a record are ours: they are as wrong as our clock.
    if abs(step) > STEP:
        reason = f"the controller's time of day moved {step:+.2f} s against its monotonic clock"
        return Gate("clock step", False, reason)
    (start, rough), (end, also_rough) = span.before.date, span.after.date
    if span.uptime is None:
        return Gate("clock step", None, "this host does not report its uptime")
    off = end - start - span.uptime
    ok = abs(off) <= STEP + max(rough, also_rough)
    return Gate("clock step", ok, f"its time of day moved {off:+.2f} s against its uptime")


def _pause(span: _Span, slack: float) -> Gate:
    # A virtual machine that is paused, saved or moved finds its clock behind the controller's.
    if span.uptime is None:
        return Gate("paused", None, "this host does not report its uptime")
    if span.uptime < 0:
        return Gate("paused", False, "it was started again")
    off = span.seconds - span.uptime
    ok = abs(off) <= max(PAUSE, PAUSE_SHARE * span.seconds) + slack
    reason = f"its clock ran {span.uptime:.1f} s while ours ran {span.seconds:.1f} s"
    return Gate("paused", ok, reason)


def _foreign_load(span: _Span, own_names: Collection[str]) -> Gate:
    # What lived before the repetition and after it is not the workload.
    old, new = span.before.processes, span.after.processes
    if not old or not new:
        return Gate("foreign load", None, "this host does not list its processes")
    ticks = TICKS * max(span.seconds, 0.1)
    busy = {
        process.name: (process.ticks - old[pid].ticks) / ticks for pid, process in new.items()
        if pid in old and old[pid].started == process.started
        and process.ticks - old[pid].ticks > FOREIGN * ticks
        and not process.kernel and process.name not in own_names
    }  # fmt: skip
    worst = sorted(busy, key=lambda name: -busy[name])
    text = ", ".join(f"{name} took {percent(busy[name])} of a CPU" for name in worst[:3])
    return Gate("foreign load", not busy, text or "no other process was busy")


# A closed loop is never late; but where its client has no CPU time left, figures are about that.
def _saturation(span: _Span, client: bool) -> Iterator[Gate]:
    if not client:
        return
    shares = {cpu: 1 - (t[3] + t[4]) / sum(t[:8]) for cpu, t in span.cpus.items()
              if cpu != "cpu" and sum(t[:8]) > 0}  # fmt: skip
    if not shares:
        yield Gate(BUSY_CLIENT, None, "this host does not report the load of its CPUs")
        return
    worst = max(shares, key=lambda cpu: shares[cpu])
    reason = f"{worst} was busy for {percent(shares[worst])} of the time"
    yield Gate(BUSY_CLIENT, shares[worst] <= BUSY, reason)


def _grown_in(span: _Span, file: str, word: str) -> float:
    old, new = span.before.numbers(file).get(word), span.after.numbers(file).get(word)
    return new[0] - old[0] if old and new else 0.0


def percent(share: float) -> str:
    """The share in words."""
    return f"{100 * share:.1f} %"


def tripped(gates_of_host: Collection[Gate]) -> Iterator[Gate]:
    """The gates that say that something was wrong."""
    return (gate for gate in gates_of_host if gate.ok is False)
