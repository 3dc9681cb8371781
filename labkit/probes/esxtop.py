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
    columns = {name: n for n, name in enumerate(read.names)}
    means = read.values[1:].mean(axis=0) / 100
    shares = {}
    for guest, vm in _machine_names(head).items():
        ready, used = (float(means[n]) for n in _columns_of(vm, columns).values())
        shares[guest] = used, ready
    cpus = sorted({int(m[1]) for name in read.names if (m := CPU.fullmatch(_parts(name)[0]))})
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


def _columns_of(machine: str, columns: Mapping[str, int]) -> dict[str, int]:
    groups = {name: GROUP.fullmatch(_parts(name)[0]) for name in columns}
    by_counter = {_parts(name)[1]: columns[name] for name, m in groups.items()
                  if m and m[1] == machine}  # fmt: skip
    if missing := [counter for counter in COUNTERS if counter not in by_counter]:
        names = sorted({m[1] for m in groups.values() if m})
        if machine in names:
            raise ResultsError(f"esxtop: it says no {missing[0]} of {machine}")
        raise Unknown("machine in what esxtop printed", machine, names)
    return {counter: by_counter[counter] for counter in COUNTERS}


def _parts(name: str) -> tuple[str, str]:
    match = COUNTER.fullmatch(name)
    return (match[1], match[2]) if match else ("", "")


# "esxtop guest lab": which machine plays which guest.
def _machine_names(head: str) -> dict[str, str]:
    words = (line.split(" ", 2) for line in head.splitlines())
    return {guest: machine for _, guest, machine in words}
