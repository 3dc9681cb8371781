"""Time that a guest had work but got no CPU: ESXi's ready time, Linux's run delay.

And busy time of all CPUs that a host may use, no matter who keeps them busy.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from labkit.errors import BadInput, ResultsError
from labkit.host import Guest, Host
from labkit.machine.scripts import beside
from labkit.probe import Probe
from labkit.probes import esxtop
from labkit.probes.esxtop import Watched
from labkit.workload import Sample

PROGRAMS = ("esxtop", "pgrep")

# All that takes long comes first, so that the counters are read at one moment. The counters of a
# thread are in Documentation/scheduler/sched-stats.rst: ns on a CPU, ns waiting for one, turns.
# Each word is a guest and the machine that it is. Before Linux 6.4 the thread that carries a
# guest's packets is the kernel's own, and named after the process that it works for.
LOOK = beside(__file__, "ready_time_look.sh")
LINES = re.ASCII | re.MULTILINE
FORMS = {
    "task": r"task (\S+) (\d+) (\d+) (\d+) (\d+)", "cpu": r"cpu(\d+)((?: \d+){7,10})\s*?",
    "cpus": r"cpus (\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*)", "at": r"at (\d+\.\d+)",
}  # fmt: skip
TASK, CPU, CPUS, AT = (re.compile(f"^{form}$", LINES) for form in FORMS.values())
ODD = re.compile(rf"^(?!(?:{'|'.join(FORMS.values())})$).+", LINES)
IDLE = (3, 4)
"""The columns of /proc/stat in which a CPU did nothing: idle, and waiting for a disk."""
NS = 1e9
Task = tuple[str, str]
Ticks = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Between:
    """Activity of a host between two looks. Threads that ended meanwhile are not in it."""

    seconds: float
    cpus: tuple[int, ...]
    """CPUs that the host may use."""
    counts: Mapping[str, Sequence[float]]
    """Of each guest its time on a CPU, and that in line for one; on Linux how many turns it had."""
    unit: float = NS
    """The times that make a second."""
    busy: float = 0.0
    """The share of time that something ran on the host's CPUs, on Linux."""

    @classmethod
    def of(cls, before: str, after: str) -> Self:
        """From two texts of LOOK, in this order."""
        (first, _, tasks_before, ticks_before), (last, cpus, tasks, ticks) = map(
            _look, (before, after)
        )
        if last <= first:
            raise ResultsError("ready time: the clock of the host went back")
        counts: dict[str, list[int]] = {guest: [0, 0, 0] for guest, _ in sorted(tasks)}
        for task, row in tasks.items():
            # A thread that is new has counted from 0; all that is from between the looks.
            for at, count in enumerate(row):
                counts[task[0]][at] += count - tasks_before.get(task, (0, 0, 0))[at]
        both = [cpu for cpu in cpus if cpu in ticks_before and cpu in ticks]
        total, idle = (sum(ticks[cpu][i] - ticks_before[cpu][i] for cpu in both) for i in (0, 1))
        return cls(last - first, cpus, counts, busy=1 - idle / total if total else 0.0)

    def ran(self, *guests: str) -> float:
        """Seconds of CPU that the threads of these guests got."""
        return self._sum(0, guests) / self.unit

    def waited(self, *guests: str) -> float:
        """Seconds that they stood in line for a CPU, ready to run."""
        return self._sum(1, guests) / self.unit

    def turns(self, *guests: str) -> float | None:
        """Number of times they were put on a CPU; esxtop does not say it for a whole machine."""
        return self._sum(2, guests) if self.unit == NS else None

    def _sum(self, column: int, guests: tuple[str, ...]) -> float:
        rows = [self.counts[guest] for guest in guests or self.counts if guest in self.counts]
        return sum(row[column] for row in rows)


# One look: a moment of the host's clock, the CPUs that the host may use, what each thread has
# counted, and the ticks of each CPU, in all and idle.
def _look(text: str) -> tuple[float, tuple[int, ...], dict[Task, tuple[int, ...]], Ticks]:
    if odd := ODD.search(text):
        number = text.count("\n", 0, odd.start()) + 1
        raise ResultsError(f"ready time: cannot read line {number}", said=odd[0])
    at, cpus = AT.search(text), CPUS.search(text)
    if not at or not cpus:
        raise ResultsError("ready time: what was read is not whole", said=text[-200:])
    tasks = {(guest, thread): tuple(map(int, row)) for guest, thread, *row in TASK.findall(text)}
    # Time of a guest of KVM is in the first two columns already.
    counts = {int(cpu): [*map(int, row.split())] for cpu, row in CPU.findall(text)}
    ticks = {cpu: (sum(row[:8]), sum(row[n] for n in IDLE)) for cpu, row in counts.items()}
    ends = [part.partition("-")[::2] for part in cpus[1].split(",")]
    numbers = (n for a, b in ends for n in range(int(a), int(b or a) + 1))
    return float(at[1]), tuple(numbers), tasks, ticks


@dataclass(frozen=True)
class ReadyTime(Probe):
    """The run-queue delay of all threads of these guests, on the host that runs them.

    A guest is named by its role, and looked for as the lab's `vm =` says, or by that name: as the
    box, libvirt, QEMU's `-name` or ESXi calls it. Each sample is one figure, in milliseconds for
    each second: a guest of two CPUs that waits all the time has 2000.
    """

    guests: tuple[str, ...] = ("guest",)

    def __post_init__(self) -> None:
        for guest in self.guests:
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", guest, re.ASCII):
                raise BadInput(f"{guest!r} cannot be the name of a guest")

    def look(self, host: Host) -> str:
        """The counters of Linux; needs no root where the guests are one's own.

        ESXi keeps no such counters: there it is the machines' names, for `watching`.
        """
        machines = (host.guests.get(name, Guest(name, "")).vm for name in self.guests)
        words = (f"{name}={vm}" for name, vm in zip(self.guests, machines, strict=True))
        return host.check("sh", "-c", LOOK, "look", *words)

    @contextmanager
    def watching(self, host: Host, seconds: float) -> Iterator[Watched]:
        """Yield what the host says before and after the block, which takes about `seconds`."""
        before = self.look(host)
        if before.startswith(esxtop.WORD):
            with esxtop.watching(host, before, seconds) as window:
                yield window
            return
        window = Watched(before)
        yield window
        window.after = self.look(host)

    @staticmethod
    def parse(before: str, after: str) -> list[Sample]:
        """Per guest: `ready time of NAME`, and `CPU time of NAME`."""
        times = between(before, after)
        return [
            Sample.single(f"{title} of {guest}", "ms/s", 1000 * seconds / times.seconds)
            for guest in times.counts
            for title, seconds in (("ready time", times.waited(guest)),
                                   ("CPU time", times.ran(guest)))
        ]  # fmt: skip


def between(before: str, after: str) -> Between:
    """The activity between two texts of a host, whatever its kind."""
    if not after.startswith(esxtop.WORD):
        return Between.of(before, after)
    seconds, cpus, shares = esxtop.figures(after)
    return Between(seconds, cpus, shares, 1 / seconds)


def looks(hosts: Mapping[str, Host], sides: Iterable[str], moment: str) -> dict[str, str]:
    """The counters of hosts that play these roles, as parts of a run's text."""
    return {f"{side} {moment}": ReadyTime(()).look(hosts[side]) for side in sides}


def spent(before: str, after: str) -> dict[str, float]:
    """The time that CPUs were not idle, the kernel's work for packets and guests included.

    `CPUs busy`: how many were busy on average. `CPU time`: in seconds. A host of a lab in a box is
    charged for its own CPUs alone. ESXi keeps no such counters: then it is empty.
    """
    if not before.strip():
        return {}
    times = Between.of(before, after)
    busy = times.busy * len(times.cpus)
    return {"CPUs busy": busy, "CPU share": times.busy, "CPU time": busy * times.seconds}
