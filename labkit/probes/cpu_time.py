"""Activity of each CPU, context switches and interrupts of the kernel: /proc/stat (proc(5))."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.workload import Sample

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
class Moment:
    """One look at the counts of a whole kernel: in a container its host's, in a guest its own."""

    at: float
    ticks: dict[str, npt.NDArray[np.float64]]
    switches: int
    interrupts: int
    running: int = 0
    day: float = 0.0
    """Seconds since 1970, of a watched run."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Read it."""
        at = AT.search(text)
        counts = {name: [*map(float, numbers.split())] for name, numbers in LINE.findall(text)}
        ticks = {name: np.array(count[: len(COLUMNS)]) for name, count in counts.items()
                 if name.startswith("cpu")}  # fmt: skip
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
    figures = {
        ("cpu busy", "share"): 1 - sum(ticks[column] for column in IDLE) / number,
        ("cpu stolen", "share"): ticks[STEAL] / number,
        ("context switches", "1/s"): (last.switches - first.switches) / seconds,
        ("interrupts", "1/s"): (last.interrupts - first.interrupts) / seconds,
    }
    return [Sample.single(*name, value) for name, value in figures.items()]


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
        *between(Moment.of(looks[0]), Moment.of(looks[-1])),
        Sample.single("cpu time", "s", time_used),
        Sample.single("system share", "share", float(used[2]) / time_used if time_used else 0.0),
        Sample.single("times preempted", "1", float(used[4])),
    ]


def over_time(text: str) -> list[dict[str, Any]]:
    """The busy share of each CPU in each stretch between two looks, as rows for a heat map."""
    looks, rows = [Moment.of(moment) for moment in moments(text)], []
    for first, last in pairwise(looks):
        start, end = (round(moment.at - looks[0].at, 3) for moment in (first, last))
        for cpu, ticks in last.ticks.items():
            spent = ticks - first.ticks.get(cpu, ticks)
            if number := float(spent.sum()):
                busy = 1 - sum(spent[column] for column in IDLE) / number
                rows.append({"cpu": cpu, "begun": start, "ended": end,
                             "busy": round(float(busy), 4),
                             "stolen": round(float(spent[STEAL]) / number, 4)})  # fmt: skip
    return rows
