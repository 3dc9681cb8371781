"""Memory bandwidth in the manner of STREAM: four operations over arrays that no cache holds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.probes import cpu_time
from labkit.runs.capacity import Capacity, capacity, smallest
from labkit.workload import Sample, Workload, knob
from labkit.workloads import _compiled
from labkit.workloads._sections import parted

OPERATIONS = ("Copy", "Scale", "Add", "Triad")
DOCUMENT_MILLIONS = 2000
CACHES = 4
"""An array is at least this many times the last-level caches together, by the rule of STREAM."""
LEAST_MILLIONS = 4
NUMBER_BYTES = 8
TRAFFIC = 2 * 16 + 2 * 24
"""Bytes that the four operations move for each element."""
SLOWEST_RATE = 2e9
SMALLER = "fewer millions of elements need less memory"
ERROR = 1e-10
HEAD = re.compile(r"^elements (\d+) trials (\d+) threads (\d+) cpus (\d+)$", re.MULTILINE)
TRIAL = re.compile(r"^(Copy|Scale|Add|Triad) (\d+) (\S+) (\S+)$", re.MULTILINE)
WRONG = re.compile(r"^relative error (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Stream(Workload):
    """The best of some trials of each operation, without the first one.

    `millions` of elements in each of three arrays; 0 takes four times the last-level caches of all
    places. `threads` 0 takes all CPUs that every place has.
    """

    roles = ("server",)
    loop = ""
    measures = ("bandwidth", "threads", *cpu_time.MEASURES)
    here = _compiled.PROGRAMS
    ours = ("stream", "watch_cpus")

    millions: int = knob(0, 0, 1_000_000)
    trials: int = knob(10, 2, 200)
    threads: int = knob(0, 0, 4096)

    @property
    def elements(self) -> int:
        """Of each array."""
        return (self.millions or LEAST_MILLIONS) * 1_000_000

    @property
    def memory(self) -> int:
        """KiB that the three arrays need."""
        return 3 * NUMBER_BYTES * self.elements >> 10

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return 1.0 + self.trials * self.elements * TRAFFIC / (SLOWEST_RATE * max(1, self.threads))

    def fitted(self, places: Sequence[Capacity]) -> Self:
        """With arrays that no cache of these places holds, and threads that all of them have."""
        place = smallest(places)
        at_least = -(-CACHES * place.cache * 1024 // (NUMBER_BYTES * 1_000_000))
        millions = self.millions or max(LEAST_MILLIONS, at_least)
        return replace(self, millions=millions, threads=self.threads or place.cpus)

    @property
    def scaled(self) -> str:
        """The sizes made smaller than the document's, in words."""
        return (
            f"{self.elements // 1_000_000:,} of {DOCUMENT_MILLIONS:,} million elements; "
            f"{self.memory >> 10:,} MiB; {self.threads} thread{'s' * (self.threads != 1)}"
        )

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """A compiler here, or on the host the memory; or arrays that its caches could hold."""
        host = hosts["server"]
        room = capacity(host)
        if NUMBER_BYTES * self.elements < CACHES * room.cache * 1024 and self.millions:
            return (
                f"{self.millions} million elements would measure the caches of {host.name}, which "
                f"have {room.cache >> 10} MiB: an array has to be {CACHES} times that"
            )
        if self.memory > room.free:
            return (
                f"{host.name} has {room.free >> 10} MiB of memory free, and three arrays that "
                f"no cache holds take {self.memory >> 10}: give it more memory"
            )
        return _compiled.lacking()

    def run(self, hosts: Mapping[str, Host]) -> str:
        """All trials on the host, watched."""
        host = hosts["server"]
        room = capacity(host)
        load = self if self.millions and self.threads else self.fitted([room])
        program = _compiled.compiled("stream", "-fopenmp", "-static", "-lm")
        words = [
            f"OMP_NUM_THREADS={load.threads}", "OMP_PROC_BIND=true", "OMP_DYNAMIC=false",
            str(load.elements), str(load.trials),
        ]  # fmt: skip
        return _compiled.watched(host, "stream", program, words, 120 + 30 * load.seconds, SMALLER,
                                 f"cache_kib={room.cache}")  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """The bandwidth of each operation, that of Triad once more as the study's, and costs."""
        parts = parted(text, "asked", "stream", "cpu time")
        order = dict(word.partition("=")[::2] for word in parts["asked"].split())
        output = parts["stream"]
        head, wrong = HEAD.search(output), WRONG.search(output)
        if not head or not wrong:
            raise ResultsError("stream: the run did not finish", said=output[-200:])
        if not float(wrong[1]) < ERROR:
            raise ResultsError(f"stream: the arrays hold wrong numbers, off by {wrong[1]}")
        size, cache = NUMBER_BYTES * int(head[1]), int(order["cache_kib"])
        if size < CACHES * cache * 1024:
            problem = f"stream: arrays of {size >> 20} MiB measure the caches of {cache >> 10} MiB"
            raise ResultsError(f"{problem}, not memory")
        rates = _best(output, int(head[2]))
        return [
            Sample.single("bandwidth", "MB/s", rates["Triad"]),
            *(Sample.single(f"bandwidth [op={name}]", "MB/s", rates[name])
              for name in OPERATIONS),
            Sample.single("threads", "1", float(head[3])),
            *cpu_time.samples(parts["cpu time"]),
        ]  # fmt: skip


# The first trial of each brings caches and page tables into order, and does not count.
def _best(output: str, trials: int) -> dict[str, float]:
    rates: dict[str, list[float]] = {name: [] for name in OPERATIONS}
    for name, trial, seconds, megabytes in TRIAL.findall(output):
        if int(trial):
            rates[name].append(float(megabytes) / float(seconds))
    if lacking := [name for name, values in rates.items() if len(values) != trials - 1]:
        raise ResultsError(f"stream: not all trials of {lacking[0]} are there")
    return {name: max(values) for name, values in rates.items()}
