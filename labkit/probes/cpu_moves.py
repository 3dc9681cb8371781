"""CPUs that processes or guests ran on, how often they moved, and the time that they really got."""

import re

from labkit.errors import ResultsError
from labkit.host import Guest, Host
from labkit.machine.scripts import beside
from labkit.workload import Sample

PROGRAMS = ("pgrep",)

# The scheduler's own count is in /proc/PID/task/TID/sched, see sched(7) and kernel/sched/debug.c.
# The time of a thread in /proc/PID/schedstat is what a CPU of this kernel gave it, so that of a
# guest's threads the time that others took from the guest is no part.
WATCH = beside(__file__, "cpu_moves_watch.sh")
SECONDS = re.compile(r"^seconds (\d+\.\d+)$", re.ASCII | re.MULTILINE)
TASK = re.compile(r"^task (\d+) ns (\d+) moves (\d*) (\d*) on ?([\d ]*)$", re.ASCII | re.MULTILINE)


def watched(host: Host, seconds: float, process: str, guests: tuple[str, ...] = ()) -> str:
    """Text of all processes of a name, or of these guests of the host, after these seconds.

    It takes as long on a host without such counters, and is empty then.
    """
    machines = [host.guests.get(name, Guest(name, "")).vm for name in guests]
    words = ("guests", *machines) if guests else ("process", process)
    return host.check("sh", "-c", WATCH, "watch", f"{seconds}", *words, seconds=60 + 3 * seconds)


def samples(text: str) -> list[Sample]:
    """`cpus given`: CPUs that they kept busy. `cpus used`: those they ran on. `moves`: a second."""
    span, tasks = SECONDS.search(text), TASK.findall(text)
    if not text.strip():
        return []
    if not span or not float(span[1]) or len(text.splitlines()) != 1 + len(tasks):
        raise ResultsError("the CPUs of the servers cannot be read", said=text[-200:])
    seconds = float(span[1])
    busy = sum(int(ns) for _, ns, *_ in tasks) / 1e9 / seconds
    used = {cpu for *_, on in tasks for cpu in on.split()}
    places = [(first, last) for _, _, first, last, _ in tasks if first and last]
    figures = {("cpus given", "1"): busy, ("cpus used", "1"): float(len(used))}
    if len(places) == len(tasks) and tasks:
        figures["moves", "1/s"] = sum(int(last) - int(first) for first, last in places) / seconds
    return [Sample.single(*name, value) for name, value in figures.items()]
