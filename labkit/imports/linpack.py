"""LINPACK: HPL (also in HPC Challenge), and Intel's optimized LINPACK for one machine."""

import re

from labkit.errors import ResultsError
from labkit.imports._reading import insist, number, pieces, sample
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
    checks = [(line, CHECK.search(below)) for line, below in pieces(text, [*HPL.finditer(text)])]
    rows = [(line, match[1] if match else "") for line, match in checks]
    rows += [(line, line[6].upper()) for line in INTEL.finditer(text)]
    has_several = len({line[1] for line, _ in rows}) > 1
    samples = []
    for line, verdict in rows:
        if not verdict.startswith("PASS"):
            reason = "failed its check" if verdict else "has no check: was the file cut off?"
            raise ResultsError(f"the solution of size {line[1]} {reason}")
        metric = f"performance [n={line[1]}]" if has_several else "performance"
        samples.append(sample(metric, "Gflop/s", number(line[3], f"Gflops of size {line[1]}")))
    return insist(samples, "LINPACK")
