"""Activity of each CPU, context switches and interrupts of the kernel: /proc/stat (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.probe import Probe
from labkit.workload import Sample

LOOK = r"""
read -r up _ < /proc/uptime && echo "at $up"
sed -n 's/^\(intr [0-9]*\).*/\1/p; /^cpu[0-9]/p; /^ctxt/p' /proc/stat"""
LINE = re.compile(r"(cpu\d+|ctxt|intr|procs_running) ([\d ]+)")
AT = re.compile(r"^at (\d+\.\d+)$", re.MULTILINE)
DAY = re.compile(r"^day (\d+\.\d+)$", re.MULTILINE)
USED = re.compile(r"^user (\d+\.\d+) system (\d+\.\d+) waited (\d+) preempted (\d+)$", re.MULTILINE)
COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MEASURES = (
    "cpu busy", "cpu stolen", "context switches", "interrupts", "cpu time", "system share",
    "times preempted",
)  # fmt: skip
"""The metrics of a watched run."""
IDLE, STEAL = (COLUMNS.index("idle"), COLUMNS.index("iowait")), COLUMNS.index("steal")


@dataclass(frozen=True)
class CpuCounts(Probe):
    """Counts of the whole kernel: in a container those of its host, in a guest its own."""

    def look(self, host: Host) -> str:
        """The lines of /proc/stat for each CPU, switches and interrupts, under the time."""
        return host.check("sh", "-c", LOOK)

    @staticmethod
    def parse(before: str, after: str) -> list[Sample]:
        """Shares of the CPU time of all CPUs, and events a second."""
        return between(Moment.of(before), Moment.of(after))


@dataclass(frozen=True)
class Moment:
    """One look at the counts of a kernel."""

    at: float
    ticks: dict[str, npt.NDArray[np.float64]]
    switches: int
    interrupts: int
    running: int = 0
    day: float = 0.0
    """Seconds since 1970, of a watched run."""

    @classmethod
    def of(cls, text: str) -> Moment:
        """Read it."""
        at = AT.search(text)
        counts = {
            name: [float(word) for word in numbers.split()] for name, numbers in LINE.findall(text)
        }
        ticks = {
            name: np.array(count[: len(COLUMNS)])
            for name, count in counts.items()
            if name.startswith("cpu")
        }
        if not at or not ticks or any(len(tick) < len(COLUMNS) for tick in ticks.values()):
            raise ResultsError("the CPU time cannot be read", said=text[:200])
        switches, interrupts, running = (
            int(counts.get(name, [0])[0]) for name in ("ctxt", "intr", "procs_running")
        )
        day = float(match_of_day[1]) if (match_of_day := DAY.search(text)) else 0.0
        return cls(float(at[1]), ticks, switches, interrupts, running, day)


def between(first: Moment, last: Moment) -> list[Sample]:
    """Shares of CPU time and rates of events between two looks."""
    seconds = last.at - first.at
    if seconds <= 0:
        raise ResultsError("both CPU time readings have the same timestamp")
    if missing := first.ticks.keys() - last.ticks.keys():
        raise ResultsError(f"the second CPU time reading lacks {', '.join(sorted(missing))}")
    ticks = sum((last.ticks[cpu] - first.ticks[cpu] for cpu in first.ticks), np.zeros(len(COLUMNS)))
    number = max(float(ticks.sum()), 1.0)
    shares = {
        "cpu busy": 1 - sum(ticks[column] for column in IDLE) / number,
        "cpu stolen": ticks[STEAL] / number,
    }
    rates = {
        "context switches": (last.switches - first.switches) / seconds,
        "interrupts": (last.interrupts - first.interrupts) / seconds,
    }
    return [
        *(Sample.single(name, "share", value) for name, value in shares.items()),
        *(Sample.single(name, "1/s", value) for name, value in rates.items()),
    ]


def moments(text: str) -> list[str]:
    """The looks that a watched run was interrupted by, each under its time."""
    starts = [match.start() for match in AT.finditer(text)]
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


def samples(text: str) -> list[Sample]:
    """Of a watched run: what its kernel counted, and the CPU time of the work itself."""
    looks, used = moments(text), USED.search(text)
    if len(looks) < 2 or not used:
        raise ResultsError("the run did not finish: no CPU time", said=text[-200:])
    time_used = float(used[1]) + float(used[2])
    return [
        *CpuCounts.parse(looks[0], looks[-1]),
        Sample.single("cpu time", "s", time_used),
        Sample.single("system share", "share", float(used[2]) / time_used if time_used else 0.0),
        Sample.single("times preempted", "1", float(used[4])),
    ]


def over_time(text: str) -> list[dict[str, Any]]:
    """The busy share of each CPU in each stretch between two looks, as rows for a heat map."""
    return list(_rows([Moment.of(moment) for moment in moments(text)]))


def _rows(looks: Sequence[Moment]) -> Iterator[dict[str, Any]]:
    for first, last in pairwise(looks):
        for cpu, ticks in last.ticks.items():
            ticks_between = ticks - first.ticks.get(cpu, ticks)
            if number := float(ticks_between.sum()):
                busy = 1 - sum(ticks_between[column] for column in IDLE) / number
                start, end = (round(moment.at - looks[0].at, 3) for moment in (first, last))
                yield {"cpu": cpu, "begun": start, "ended": end, "busy": round(float(busy), 4),
                       "stolen": round(float(ticks_between[STEAL]) / number, 4)}  # fmt: skip
