"""The machine around a lab in a box: what else it did while a run was measured.

The hosts of a box see their own processes alone, and counters of CPUs count all. So this looks at
all processes of the machine but those of the box, and labkit's own. What ended meanwhile is counted
by its parent, such as a compiler that lived for a moment. The kernel's own threads serve everybody.
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.gates.gate import OTHER_WORK, TICKS, Gate, ProcessTimes, percent
from labkit.results import Results, Run

ROLE = "machine"
BEFORE, AFTER = "machine-before.txt", "machine-after.txt"
MOST_SHARE, MOST_CPUS = 0.1, 0.5
"""The share of the CPUs that other work may take, and the most CPUs."""
# Of a kernel of Jupyter: who started it, as jupyter_client says.
STARTED_BY = "JPY_PARENT_PID"
STAT, PRESSURE, LOAD = "/proc/stat", "/proc/pressure/cpu", "/proc/loadavg"
# `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, in microseconds.
WAIT = re.compile(r"total=(\d+)")


@dataclass(frozen=True)
class OtherWork:
    """The CPU time of the machine that something beside the lab took, for some seconds."""

    seconds: float
    cpus: int
    other: float
    """CPUs that it took, on average."""
    waited: float | None
    """The share of the time in which something waited for a CPU; None where nobody counts that."""
    stolen: float
    """The share of the machine's CPU time that a hypervisor below it took."""
    load: float
    """Tasks that ran or waited at the end, on average over a minute."""

    @property
    def much(self) -> bool:
        """Whether it may have changed what was measured."""
        return self.other > min(MOST_SHARE * self.cpus, MOST_CPUS)

    @property
    def took(self) -> str:
        """The CPUs that it took, in words."""
        return f"other work took {self.other:.1f} of {self.cpus} CPUs"

    @property
    def gate(self) -> Gate:
        """The gate that it trips."""
        wait = "" if self.waited is None else f", something waited {percent(self.waited)} of time"
        steal = f", {percent(self.stolen)} was stolen" if self.stolen else ""
        reason = f"{self.took} (load {self.load:.1f}{wait}{steal})"
        return Gate(OTHER_WORK, not self.much, reason)


def look(box: Collection[int]) -> str:
    """Count what the machine's processes took so far; `box` are processes of the lab."""
    stats = dict(_stats())
    own_pids = _below(stats, {*box, os.getpid()}) | {int(os.environ.get(STARTED_BY, 0) or 0)}
    lines = {
        "at": f"{time.monotonic():.3f}", "cpus": str(len(os.sched_getaffinity(0))),
        **{file: _first(Path(file)) for file in (STAT, PRESSURE, LOAD)},
        **{f"{pid} {stat.started}": f"{stat.ticks} {stat.children}"
           for pid, stat in stats.items() if pid not in own_pids and not stat.kernel},
    }  # fmt: skip
    return "".join(f"{name}:{text}\n" for name, text in lines.items())


def between(before: str, after: str) -> OtherWork | None:
    """Compare two looks; None where they do not say."""
    try:
        first, last = (_lines(text) for text in (before, after))
        seconds, cpus = float(last["at"]) - float(first["at"]), int(last["cpus"])
        ticks = [[int(n) for n in lines[STAT].split()[1:9]] for lines in (first, last)]
        times = [b - a for a, b in zip(*ticks, strict=True)]
        waits = [float(n) for lines in (first, last) for n in WAIT.findall(lines.get(PRESSURE, ""))]
        wait = min((waits[1] - waits[0]) / 1e6 / seconds, 1) if len(waits) == 2 else None
        share = min(_took(_processes(first), _processes(last)) / TICKS / seconds, cpus)
        load = float(last[LOAD].split()[0])
        return OtherWork(seconds, cpus, share, wait, times[7] / max(sum(times), 1), load)
    except (KeyError, ValueError, IndexError, ZeroDivisionError):
        return None


# Process and its start -> what it took, and what its ended children took.
Took = Mapping[str, tuple[int, int]]


# Parents hold all that their ended children ever took: what these had taken before goes off.
def _took(before: Took, after: Took) -> int:
    alone = sum(ticks - before.get(name, (0, 0))[0] for name, (ticks, _) in after.items())
    ends = sum(sum(took) for name, took in before.items() if name not in after)
    through = sum(children - before.get(name, (0, 0))[1] for name, (_, children) in after.items())
    return alone + max(0, through - ends)


def _processes(lines: Mapping[str, str]) -> Took:
    pairs = ((name, words.split()) for name, words in lines.items() if " " in name)
    return {name: (int(ticks), int(children)) for name, (ticks, children) in pairs}


def of_run(run: Run) -> OtherWork | None:
    """The other work around a kept run; None where nobody looked."""
    if not {BEFORE, AFTER} <= run.raw.keys():
        return None
    return between(run.text(BEFORE), run.text(AFTER))


def told(results: Results) -> str:
    """The other work around these results, in words; empty where it was little, or nobody looked.

    The figure is the median of the runs.
    """
    works = [work for run in results.finished() if (work := of_run(run))]
    count = sum(work.much for work in works)
    if not count:
        return ""
    usual = sorted(works, key=lambda work: work.other)[len(works) // 2]
    return f"{usual.took} (median); it was more than a tenth in {count} of {len(works)} runs"


# The newest comes first: one that ends meanwhile is then counted by itself, and not lost.
def _stats() -> Iterable[tuple[int, ProcessTimes]]:
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        with suppress(OSError, ValueError, IndexError):
            text = Path("/proc", str(pid), "stat").read_text("utf-8", "replace")
            yield pid, ProcessTimes.read(text)


def _below(stats: Mapping[int, ProcessTimes], pids: Collection[int]) -> set[int]:
    below = {*pids}
    while children := {pid for pid, stat in stats.items() if stat.parent in below} - below:
        below |= children
    return below


def _first(file: Path) -> str:
    try:
        return file.read_text().partition("\n")[0]
    except OSError:
        return ""


def _lines(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition(":") for line in text.splitlines())}
