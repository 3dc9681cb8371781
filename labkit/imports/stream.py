"""STREAM, as stream.c of McCalpin and its kin print it: the best rate of each kernel."""

import re

from labkit.errors import ResultsError
from labkit.imports._reading import found_in, insist, insist_ended, pieces
from labkit.workload import Sample

HEAD = re.compile(r"^Function +(?:Best )?Rate \(?([MG]B/s)\)?.*$", re.MULTILINE)
KERNEL = r"^(Copy|Scale|Add|Triad): +([\d.]+)(?: +[\d.]+){3} *$"


def read(text: str) -> list[Sample]:
    """Copy, Scale, Add and Triad; of several runs in a file a value each."""
    if "Failed Validation" in text:
        raise ResultsError("the arrays of STREAM did not validate, so its rates are none")
    insist_ended(text, r"^Solution Validates", "STREAM")
    runs = pieces(text, list(HEAD.finditer(text)))
    return insist([s for head, below in runs
                   for s in found_in(below, {KERNEL: ("{}", head[1])})], "STREAM")  # fmt: skip
