"""LINPACK: HPL (also in HPC Challenge), and Intel's optimized LINPACK for one machine."""

import re
from collections.abc import Iterator

from labkit.errors import ResultsError
from labkit.imports._figures import pieces
from labkit.imports._reading import insist, number, sample
from labkit.workload import Sample

# T/V N NB P Q Time Gflops; on a line below, whether its residual is small enough.
HPL = re.compile(r"^W\w+ +(\d+) +\d+ +\d+ +\d+ +([\d.]+) +([\d.]+e[+-]\d+)\s*$", re.MULTILINE)
CHECK = re.compile(r"\|\|Ax-b\|\|.*\.{3,}\s*(PASSED|FAILED)")
# Size, LDA, alignment, time, GFlops, residual, the same normed, check.
INTEL = re.compile(
    r"^(\d+) +\d+ +\d+ +([\d.]+) +([\d.]+) +([\d.]+e[+-]\d+) +([\d.]+e[+-]\d+) +(\w+)\s*$",
    re.MULTILINE,
)


def read(text: str) -> list[Sample]:
    """The rate at each problem size; of several trials a value each."""
    samples = [*_of_hpl(text), *_of_intel(text)]
    sizes = {size for size, _ in samples}
    rates = [sample(f"performance [n={size}]" if len(sizes) > 1 else "performance", "Gflop/s", rate)
             for size, rate in samples]  # fmt: skip
    return insist(rates, "LINPACK")


def _of_hpl(text: str) -> Iterator[tuple[str, float]]:
    for line, below in pieces(text, list(HPL.finditer(text))):
        match = CHECK.search(below)
        _insist(line[1], match[1] if match else "")
        yield line[1], number(line[3], f"Gflops of N {line[1]}")


def _of_intel(text: str) -> Iterator[tuple[str, float]]:
    for line in INTEL.finditer(text):
        _insist(line[1], line[6].upper())
        yield line[1], number(line[3], f"GFlops of size {line[1]}")


def _insist(size: str, verdict: str) -> None:
    if not verdict.startswith("PASS"):
        reason = "failed its check" if verdict else "has no check: was the file cut off?"
        raise ResultsError(f"the solution of size {size} {reason}")
