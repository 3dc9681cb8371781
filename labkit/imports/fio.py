"""fio, as `fio --output-format=json` writes it, or its text for people.

`json+` holds every latency, in its bins. The text rounds its figures to about three digits.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from labkit.errors import ResultsError
from labkit.imports import _fio_text
from labkit.imports._reading import MOST_VALUES, at, insist, json_of, number, sample
from labkit.workload import Sample

KINDS = ("read", "write", "trim")
LATENCIES = {"clat_ns": 1e-3, "clat": 1.0}
"""Completion latencies, and how many us one is: before fio 3 they were in us."""
DOCUMENT = re.compile(r"^\{(?:.*\}[ \t]*$|[\s\S]*?(?:^\}|\Z))", re.MULTILINE)
"""Warnings stand before it, and with `normal,json` a text for people after it."""
SAME_BEGIN = 1100
"""Reports of one run begin within this many ms: their times are rounded to seconds."""


def read(text: str) -> list[Sample]:
    """IOPS, bandwidth and completion latency of each job and kind of I/O, once for each run."""
    if "{" not in text:
        return insist(list(_fio_text.read(text)), "fio")
    documents = [json_of(part, "fio") for part in DOCUMENT.findall(text) or [text]]
    # Of what `--status-interval` prints of one run, the last, which is of the whole run.
    runs = [run for run, successor in zip(documents, [*documents[1:], None], strict=True)
            if not (successor and _goes_on(run, successor))]  # fmt: skip
    jobs = [list(_jobs(run)) for run in runs]
    names = {str(at(job, "jobname")) for run in jobs for job in run}
    has_several = len(names) > 1 or max(map(len, jobs)) > 1
    samples = [s for run in jobs for n, job in enumerate(run) for s in _job(job, n, has_several)]
    return insist(samples, "fio")


def _jobs(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    jobs = at(run, "jobs")
    if not isinstance(jobs, list):
        raise ResultsError("the output of fio has no list of jobs")
    return jobs


# A run has begun once, and what it did only grows; a job that has ended stays as it was.
def _goes_on(run: Mapping[str, Any], successor: Mapping[str, Any]) -> bool:
    jobs, later = _jobs(run), _jobs(successor)
    if [at(job, "jobname") for job in jobs] != [at(job, "jobname") for job in later]:
        return False
    if jobs and abs(_begin_ms(run, jobs[0]) - _begin_ms(successor, later[0])) > SAME_BEGIN:
        return False
    parts = [(a.get(kind), b.get(kind)) for a, b in zip(jobs, later, strict=True) for kind in KINDS]
    return all(_grew(a, b) for a, b in parts if isinstance(a, dict) and isinstance(b, dict))


# In milliseconds; `elapsed` is in seconds, rounded up.
def _begin_ms(run: Mapping[str, Any], job: Mapping[str, Any]) -> float:
    end = run.get("timestamp_ms", number(run.get("timestamp", 0), "timestamp") * 1000)
    return number(end, "timestamp_ms") - number(job.get("elapsed", 0), "elapsed") * 1000


def _grew(figures: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    before, after = _requests(figures), _requests(later)
    if before == after:
        return all(figures.get(key) == later.get(key) for key in ("runtime", *LATENCIES))
    return before < after


# Before fio 2.1.5 the requests were not counted, only their bytes.
def _requests(figures: Mapping[str, Any]) -> float:
    return number(figures.get("total_ios", figures.get("io_bytes", 0)), "total_ios")


def _job(job: Any, n: int, has_several: bool) -> Iterator[Sample]:
    if at(job, "error"):
        raise ResultsError(f"job {n} of fio ended with error {job['error']}")
    before = f"{at(job, 'jobname')}: " if has_several else ""
    for kind in KINDS:
        figures = job.get(kind)
        if isinstance(figures, dict) and _requests(figures):
            yield from _kind(figures, f"{before}{kind} ")


def _kind(fields: Mapping[str, Any], name: str) -> Iterator[Sample]:
    yield sample(f"{name}iops", "1/s", number(at(fields, "iops"), "iops"))
    # bw_bytes is newer than bw, which is in KiB/s.
    bytes_a_second = fields.get("bw_bytes", number(fields.get("bw", 0), "bw") * 1024)
    yield sample(f"{name}bandwidth", "MB/s", number(bytes_a_second, "bw_bytes") / 1e6)
    # Before fio 3 they were not counted; a 0 is a place never used.
    for key, factor in LATENCIES.items():
        latency = fields.get(key)
        if isinstance(latency, dict) and latency.get("N", latency.get("max")):
            yield from _latency(latency, f"{name}completion latency", factor)


def _latency(fields: Mapping[str, Any], name: str, factor: float) -> Iterator[Sample]:
    if bins := fields.get("bins"):
        pairs = [(number(v, "a bin"), int(number(count, "a bin"))) for v, count in bins.items()]
        if not 0 <= sum(count for _, count in pairs) <= MOST_VALUES or min(c for _, c in pairs) < 0:
            raise ResultsError(f"{name}: the bins hold an impossible number of values")
        values = np.repeat([at * factor for at, _ in pairs], [count for _, count in pairs])
        yield sample(name, "us", values)
        return
    yield sample(f"{name} mean", "us", factor * number(at(fields, "mean"), "mean"))
    for q, value in (fields.get("percentile") or {}).items():
        if level := number(q, "a percentile"):
            yield sample(f"{name} p{level:g}", "us", factor * number(value, f"p{q}"))
