"""ESXi's own figures on virtual machines and processors: `esxtop -b`, from beginning to end."""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from labkit.errors import HostError, ResultsError, Unknown
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.telemetry import counters

PROGRAMS = ("esxtop",)

INTERVAL = 2
"""Seconds between two moments: esxtop has no shorter one."""
ROWS = 3
"""Moments that are waited for. The first is left out: its rates are of a time nobody chose."""
WORD = "esxtop"
BEGIN = beside(__file__, "esxtop_begin.sh")
# Its last line may be half of one while it runs.
AWAIT = beside(__file__, "esxtop_enough.sh")
END = 'kill "$1" 2>/dev/null; cat "$2/csv"; rm -rf "$2"'
COUNTER = re.compile(r"\\\\[^\\]*\\(.+)\\([^\\]+)")
GROUP = re.compile(r"Group Cpu\(\d+:(.+)\)")
CPU = re.compile(r"Physical Cpu\((\d+)\)")
COUNTERS = ("% Ready", "% Used")


@dataclass
class Watched:
    """`before` is what was printed when the work began, `after` what once it has ended."""

    before: str
    after: str = ""


@contextmanager
def watching(host: Host, machines: str, seconds: float) -> Iterator[Watched]:
    """esxtop runs while the block does, or longer, until it has said enough."""
    window = Watched(machines)
    rows = math.ceil(seconds / INTERVAL) + 10 * ROWS
    begin = ("sh", "-c", BEGIN, "begin", str(INTERVAL), str(rows))
    pid, folder = host.check(*begin).split()
    try:
        yield window
        host.check("sh", "-c", AWAIT, "enough", pid, folder, str(ROWS), seconds=90)
    finally:
        result = host.run("sh", "-c", END, "end", pid, folder, cap=2**28, seconds=120)
    if result.stdout_size > len(result.stdout_bytes):
        raise HostError(f"{host.name}: esxtop printed {result.stdout_size} bytes, too many to keep")
    window.after = machines + _choose(result.stdout, list(_machine_names(machines).values()))


def figures(text: str) -> tuple[float, tuple[int, ...], dict[str, tuple[float, float]]]:
    """Seconds, processors, and of each guest the shares of a processor's time, ran and waited.

    From what `watching` printed: names of guests, then CSV. The first moment is left out, as its
    rates are of a time nobody chose. CPU time is `% Used`: what the machine's worlds ran, and what
    VMkernel did for them, at the processor's nominal clock. Ready time is `% Ready` (%RDY on the
    screen). A group's figure is that of all of its worlds added up.
    """
    lines = text.splitlines(keepends=True)
    head = "".join(line for line in lines if line.startswith(f"{WORD} "))
    csv_text = "".join(line for line in lines if not line.startswith(WORD))
    if not csv_text.startswith('"(PDH-CSV'):
        raise ResultsError("this is not what `esxtop -b` prints", said=csv_text[:200] or "nothing")
    read = counters.of_text(csv_text)
    if read.times.size < 2:
        raise ResultsError(f"esxtop: {read.times.size} moments are too few")
    columns = [_parts(name) for name in read.names]
    means = dict(zip(columns, (read.values[1:].mean(axis=0) / 100).tolist(), strict=True))
    shares = {guest: _shares_of(vm, means) for guest, vm in _machine_names(head).items()}
    cpus = sorted({int(match[1]) for thing, _ in columns if (match := CPU.fullmatch(thing))})
    seconds = float((read.times[-1] - read.times[0]) / np.timedelta64(1, "s"))
    return seconds, tuple(cpus), shares


# Thousands of columns are printed; of some a run has use.
def _choose(text: str, machines: list[str]) -> str:
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or not rows[0]:
        raise ResultsError("esxtop printed nothing")
    head = rows[0]
    places = [n for n, name in enumerate(head) if n == 0 or _is_wanted(*_parts(name), machines)]
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([row[n] for n in places] for row in rows if len(row) == len(head))
    return out.getvalue()


def _is_wanted(thing: str, counter: str, machines: list[str]) -> bool:
    if match := GROUP.fullmatch(thing):
        return match[1] in machines and counter in COUNTERS
    return bool(CPU.fullmatch(thing)) and counter == "% Util Time"


# What the machine ran and waited.
def _shares_of(machine: str, means: Mapping[tuple[str, str], float]) -> tuple[float, float]:
    groups = {(match[1], counter): mean for (thing, counter), mean in means.items()
              if (match := GROUP.fullmatch(thing))}  # fmt: skip
    if machine not in (names := sorted({name for name, _ in groups})):
        raise Unknown("machine in what esxtop printed", machine, names)
    if missing := [counter for counter in COUNTERS if (machine, counter) not in groups]:
        raise ResultsError(f"esxtop: it says no {missing[0]} of {machine}")
    return groups[machine, "% Used"], groups[machine, "% Ready"]


def _parts(name: str) -> tuple[str, str]:
    match = COUNTER.fullmatch(name)
    return (match[1], match[2]) if match else ("", "")


# "esxtop guest lab": which machine plays which guest.
def _machine_names(head: str) -> dict[str, str]:
    words = (line.split(" ", 2) for line in head.splitlines())
    return {guest: machine for _, guest, machine in words}
