"""The machine around a lab in a box: what else it did while a run was measured.

The hosts of a box see their own processes alone, and counters of CPUs count all. So this looks at
the processes of the machine: those of the box, labkit's own, and all others, whose CPU time is
`other`. What a process took, and what its ended children took, is counted together: so a compiler
that lived for a moment is counted by its parent. The kernel's own threads serve everybody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.gates.gate import KERNEL_THREAD, OTHER_WORK, TICKS, Gate, percent
from labkit.results import Results, Run

ROLE = "machine"
BEFORE, AFTER = "machine-before.txt", "machine-after.txt"
MOST_SHARE, MOST_CPUS = 0.1, 0.5
"""The share of the CPUs that other work may take, and the most CPUs."""
# Of a kernel of Jupyter: who started it, as jupyter_client says.
STARTED_BY = "JPY_PARENT_PID"
PRESSURE, LOAD = "/proc/pressure/cpu", "/proc/loadavg"


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
        waited = "" if self.waited is None else f", something waited {percent(self.waited)} of time"
        stolen = f", {percent(self.stolen)} was stolen" if self.stolen else ""
        why = f"{self.took} (load {self.load:.1f}{waited}{stolen})"
        return Gate(OTHER_WORK, not self.much, why)


def look(box: Collection[int]) -> str:
    """Count what the machine's processes took so far; `box` are processes of the lab."""
    stats = dict(_stats())
    ours = _below(stats, {*box, os.getpid()}) | {int(os.environ.get(STARTED_BY, 0) or 0)}
    took = {pid: one for pid, one in stats.items() if not one.kernel}
    inside = sum(one.ticks for pid, one in took.items() if pid in ours)
    lines = {
        "at": f"{time.monotonic():.3f}", "cpus": str(len(os.sched_getaffinity(0))),
        "ours": str(inside), "other": str(sum(one.ticks for one in took.values()) - inside),
    }  # fmt: skip
    files = {file: _first(Path(file)) for file in ("/proc/stat", PRESSURE, LOAD)}
    return "".join(f"{name}:{said}\n" for name, said in {**lines, **files}.items())


def between(before: str, after: str) -> OtherWork | None:
    """Compare two looks; None where they do not say."""
    try:
        first, last = (_lines(text) for text in (before, after))
        seconds = float(last["at"]) - float(first["at"])
        cpus = [[int(n) for n in one["/proc/stat"].split()[1:9]] for one in (first, last)]
        times = [b - a for a, b in zip(*cpus, strict=True)]
        other = (int(last["other"]) - int(first["other"])) / TICKS / seconds
        begun, ended = (_waited(one.get(PRESSURE, "")) for one in (first, last))
        share = None if begun is None or ended is None else (ended - begun) / 1e6 / seconds
        return OtherWork(
            seconds, int(last["cpus"]), max(0.0, other), share,
            times[7] / max(sum(times), 1), float(last[LOAD].split()[0]),
        )  # fmt: skip
    except (KeyError, ValueError, IndexError, ZeroDivisionError):
        return None


def of_run(run: Run) -> OtherWork | None:
    """The other work around a kept run; None where nobody looked."""
    if not {BEFORE, AFTER} <= run.raw.keys():
        return None
    return between(run.text(BEFORE), run.text(AFTER))


def told(results: Results) -> str:
    """The other work around these results, in words; empty where it was little, or nobody looked.

    The figure is the median of the runs.
    """
    found = [one for run in results.finished() if (one := of_run(run))]
    much = sum(one.much for one in found)
    if not much:
        return ""
    usual = sorted(found, key=lambda one: one.other)[len(found) // 2]
    return f"{usual.took} (median); it was more than a tenth in {much} of {len(found)} runs"


@dataclass(frozen=True)
class _Stat:
    parent: int
    ticks: int
    kernel: bool


# Fields 4, 9 and 14 to 17 of proc(5): the last four are its own time and that of ended children.
def _stats() -> Iterable[tuple[int, _Stat]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, ValueError, IndexError):
            words = Path("/proc", name, "stat").read_text("utf-8", "replace").rpartition(")")[2]
            each = words.split()
            kernel = bool(int(each[6]) & KERNEL_THREAD)
            yield int(name), _Stat(int(each[1]), sum(map(int, each[11:15])), kernel)


def _below(stats: Mapping[int, _Stat], some: Collection[int]) -> set[int]:
    found = {*some}
    while more := {pid for pid, one in stats.items() if one.parent in found} - found:
        found |= more
    return found


def _first(file: Path) -> str:
    try:
        return file.read_text().partition("\n")[0]
    except OSError:
        return ""


def _lines(text: str) -> dict[str, str]:
    return {name: said for name, _, said in (line.partition(":") for line in text.splitlines())}


# `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, in microseconds.
def _waited(line: str) -> float | None:
    words: Sequence[str] = line.split("total=")
    return float(words[1]) if len(words) == 2 else None
