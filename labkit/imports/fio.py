"""fio, as `fio --output-format=json` writes it; `json+` holds every latency, in its bins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from labkit.errors import ResultsError
from labkit.imports._reading import MOST_VALUES, at, insist, json_of, number, sample
from labkit.workload import Sample

KINDS = ("read", "write", "trim")


def read(text: str) -> list[Sample]:
    """IOPS, bandwidth and completion latency of each job and kind of I/O."""
    jobs = at(json_of(_object(text), "fio"), "jobs")
    if not isinstance(jobs, list):
        raise ResultsError("the output of fio has no list of jobs")
    found = [s for n, job in enumerate(jobs) for s in _job(job, n, several=len(jobs) > 1)]
    return insist(found, "fio")


# Warnings stand before it, and with `normal,json` a text for people after it. `--status-interval`
# prints one after the other, of which the last tells of the whole run.
def _object(text: str) -> str:
    begin = text.rfind("\n{") + 1 or max(text.find("{"), 0)
    end = text.find("\n}", begin)
    return text[begin : end + 2] if end > 0 else text[begin:]


def _job(job: Any, n: int, several: bool) -> Iterator[Sample]:
    if at(job, "error"):
        raise ResultsError(f"job {n} of fio ended with error {job['error']}")
    before = f"{at(job, 'jobname')}: " if several else ""
    for kind in KINDS:
        told = job.get(kind)
        # Before fio 2.1.5 the requests were not counted, only their bytes.
        if isinstance(told, dict) and number(
            told.get("total_ios", told.get("io_bytes", 0)), "total_ios"
        ):
            yield from _kind(told, f"{before}{kind} ")


def _kind(told: Mapping[str, Any], name: str) -> Iterator[Sample]:
    yield sample(f"{name}iops", "1/s", number(at(told, "iops"), "iops"))
    # bw_bytes is newer than bw, which is in KiB/s.
    bytes_a_second = told.get("bw_bytes", number(told.get("bw", 0), "bw") * 1024)
    yield sample(f"{name}bandwidth", "MB/s", number(bytes_a_second, "bw_bytes") / 1e6)
    # Before fio 3 latencies were in microseconds, and not counted; a 0 is a place never used.
    for key, factor in (("clat_ns", 1e-3), ("clat", 1.0)):
        latency = told.get(key)
        if isinstance(latency, dict) and latency.get("N", latency.get("max")):
            yield from _latency(latency, f"{name}completion latency", factor)


def _latency(told: Mapping[str, Any], name: str, factor: float) -> Iterator[Sample]:
    if bins := told.get("bins"):
        pairs = [(number(v, "a bin"), int(number(count, "a bin"))) for v, count in bins.items()]
        if not 0 <= sum(count for _, count in pairs) <= MOST_VALUES or min(c for _, c in pairs) < 0:
            raise ResultsError(f"{name}: the bins hold an impossible number of values")
        values = np.repeat([at * factor for at, _ in pairs], [count for _, count in pairs])
        yield sample(name, "us", values)
        return
    yield sample(f"{name} mean", "us", factor * number(at(told, "mean"), "mean"))
    for q, value in (told.get("percentile") or {}).items():
        if level := number(q, "a percentile"):
            yield sample(f"{name} p{level:g}", "us", factor * number(value, f"p{q}"))
