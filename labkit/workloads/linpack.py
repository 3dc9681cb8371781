"""LINPACK: how fast a place solves a dense system of linear equations, at two problem sizes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from labkit.errors import ResultsError, absence
from labkit.host import Host
from labkit.probes import cpu_time
from labkit.programs.packages import brings
from labkit.runs.capacity import Capacity, capacity, smallest
from labkit.workload import Sample, Workload, choice, knob
from labkit.workloads import _compiled
from labkit.workloads._sections import parted

PROGRAMS = ("/usr/lib/*/openblas-pthread/libopenblas.so.0",)

SIZES = {"45K": 45_000, "65K": 65_000}
"""The document's two problem sizes."""
FITTING_PERCENT, MEMORY_SHARE = 5, 0.4
"""Of the sizes a twentieth, or less where the larger took more than this of the memory."""
LIBRARIES = {
    "openblas": (*PROGRAMS, brings(*PROGRAMS)),
    "mkl": (
        "/usr/local/lib/mkl/lib/libmkl_rt.so.* /usr/local/lib/mkl/local/lib/libmkl_rt.so.*",
        "pip install --prefix /usr/local/lib/mkl mkl",
    ),
}  # fmt: skip
"""The place of each on a host, and how to get it so that containers and guests find it too.

Debian's own pip adds `local` to a prefix.
"""
FIND = 'for file in $1; do [ ! -e "$file" ] || { echo "$file"; exit; }; done; exit 1'
MOST_RESIDUAL = 16.0
"""HPL's bound: above it, what was computed is no solution, and its rate is none."""
WARM = 500
SMALLER = "a smaller percent needs less memory"
SLOWEST_RATE = 8e9
"""Operations a second of one CPU, to foretell how long a run takes."""
SOLUTION = re.compile(
    r"^n (\d+) seconds (\S+) gflops (\S+) residual (\S+) huge_kib (\d+) of_kib (\d+)$", re.MULTILINE
)
THREADS = re.compile(r"^threads (\d+)\ncpus (\d+)$", re.MULTILINE)
MOVES = re.compile(r"^migrations (-?\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Linpack(Workload):
    """Solves both sizes once each; the residual of each solution has to be that of a solution.

    `percent` is of the document's sizes, 0 takes what fits; `threads` 0 takes all CPUs that every
    place has.
    """

    roles = ("server",)
    loop = ""
    measures = ("performance", "residual", "threads", "huge share", "migrations",
                *cpu_time.MEASURES)  # fmt: skip
    here = _compiled.PROGRAMS
    ours = ("linpack", "watch_cpus")

    percent: int = knob(0, 0, 400)
    threads: int = knob(0, 0, 4096)
    huge_pages: bool = True
    """Whether they are asked for, as the document had transparent large pages."""
    library: str = choice("openblas", LIBRARIES)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that are solved, by the document's."""
        percent = self.percent or FITTING_PERCENT
        return {name: max(WARM, size * percent // 100) for name, size in SIZES.items()}

    @property
    def memory(self) -> int:
        """KiB that the larger needs."""
        return int(8 * max(self.sizes.values()) ** 2) >> 10

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        work = sum(2 / 3 * n**3 for n in self.sizes.values())
        return 1.0 + work / (SLOWEST_RATE * max(1, self.threads))

    def fitted(self, places: Sequence[Capacity]) -> Self:
        """With sizes and threads that all of these places have room for."""
        place = smallest(places)
        largest = (place.memory * 1024 * MEMORY_SHARE / 8) ** 0.5
        percent = min(FITTING_PERCENT, int(100 * largest / max(SIZES.values())))
        threads = self.threads or place.cpus
        return replace(self, percent=self.percent or max(1, percent), threads=threads)

    @property
    def scaled(self) -> str:
        """The sizes made smaller than the document's, in words."""
        sizes = ", ".join(f"{n:,} for {name}" for name, n in self.sizes.items())
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        return f"problem sizes {sizes}; {self.memory >> 10:,} MiB; {threads}"

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """A compiler here, or on the host the library or the memory."""
        host = hosts["server"]
        if reason := _compiled.lacking():
            return reason
        pattern, brings = LIBRARIES[self.library]
        if not host.run("sh", "-c", FIND, "find", pattern).ok:
            return absence(self.library, host.name, brings)
        free = capacity(host).free
        if self.memory > free:
            return (
                f"{host.name} has {free >> 10} MiB of memory free, and size "
                f"{max(self.sizes.values())} takes {self.memory >> 10}: a smaller percent fits"
            )
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Solve both sizes on the host, watched."""
        host = hosts["server"]
        load = self if self.percent and self.threads else self.fitted([capacity(host)])
        pattern, _ = LIBRARIES[self.library]
        library = host.check("sh", "-c", FIND, "find", pattern).strip()
        program = _compiled.compiled("linpack", "-ldl", "-lm")
        words = [
            library, str(load.threads), "yes" if self.huge_pages else "no", str(WARM),
            *map(str, load.sizes.values()),
        ]  # fmt: skip
        sizes = " ".join(f"{name}={n}" for name, n in load.sizes.items())
        return _compiled.watched(host, "linpack", program, words, 120 + 30 * load.seconds, SMALLER,
                                 f"{sizes} library={library}")  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """The rate at each size, that at the larger once more as the study's, and its costs."""
        parts = parted(text, "asked", "linpack", "cpu time")
        sizes = dict(word.partition("=")[::2] for word in parts["asked"].split())
        solutions = {int(n): fields for n, *fields in SOLUTION.findall(parts["linpack"])}
        size_of = {name: int(n) for name, n in sizes.items() if name in SIZES and n.isdecimal()}
        if missing := [name for name, n in size_of.items() if n not in solutions] or not size_of:
            raise ResultsError(f"linpack: size {missing} was not solved", said=parts["linpack"])
        for n, (_, _, residual, *_) in solutions.items():
            if not float(residual) < MOST_RESIDUAL:
                raise ResultsError(
                    f"linpack: at size {n} the result is wrong: residual {residual}",
                    said=f"HPL's bound is {MOST_RESIDUAL:g}",
                )
        rates = {name: float(solutions[n][1]) for name, n in size_of.items()}
        last = list(rates)[-1]
        return [
            Sample.single("performance", "Gflop/s", rates[last]),
            *(Sample.single(f"performance [size={name}]", "Gflop/s", rate)
              for name, rate in rates.items()),
            *_about(parts["linpack"], solutions[size_of[last]]),
            *cpu_time.samples(parts["cpu time"]),
        ]  # fmt: skip


def _about(output: str, largest: Sequence[str]) -> list[Sample]:
    threads, moves = THREADS.search(output), MOVES.search(output)
    if not threads or not moves:
        raise ResultsError("linpack: the run did not finish", said=output[-200:])
    _, _, residual, huge, total = map(float, largest)
    figures = [("residual", residual), ("threads", float(threads[1])), ("huge share", huge / total)]
    if int(moves[1]) >= 0:
        figures.append(("migrations", float(moves[1])))
    return [Sample.single(name, "1", value) for name, value in figures]
