"""HdrHistogram: its log (`.hlog`), or compressed histograms (V2) by themselves, one a line."""

import numpy as np

from labkit.errors import ResultsError
from labkit.imports._reading import insist, sample, unended, unread, whole_lines
from labkit.statistics.hdr_histogram import MOST_SAMPLES, decoded
from labkit.workload import Sample

BEGINS = "HISTF"
left_out = unended


def read(text: str) -> list[Sample]:
    """All values of each tag, each in the middle of its bucket; a log says no unit."""
    by_tag: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(whole_lines(text).splitlines(), 1):
        if not line.strip() or line.startswith(("#", '"StartTimestamp"')):
            continue
        *fields, code = line.strip().split(",")
        if not code.startswith(BEGINS):
            raise unread("HdrHistogram", number, line)
        tag = next((f.removeprefix("Tag=") for f in fields if f.startswith("Tag=")), "value")
        by_tag.setdefault(tag, []).append((number, code))
    return insist([_merge(tag, lines) for tag, lines in by_tag.items()], "HdrHistogram")


def _merge(tag: str, lines: list[tuple[int, str]]) -> Sample:
    values = []
    for number, code in lines:
        try:
            levels, counts = decoded(code)
        except ResultsError as error:
            raise ResultsError(f"HdrHistogram: line {number}: {error.what}") from None
        values.append(np.repeat(levels, counts.astype(np.int64)))
    array = np.concatenate(values)
    if not 0 < array.size <= MOST_SAMPLES:
        raise ResultsError(f"HdrHistogram: {tag} has {array.size} values")
    return sample(tag, "", array)
