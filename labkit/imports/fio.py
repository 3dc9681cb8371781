"""fio, as `fio --output-format=json` writes it, or its text for people.

`json+` holds every latency, in its bins. The text rounds its figures to about three digits.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from labkit.errors import ResultsError
from labkit.imports._reading import MOST_VALUES, at, insist, json_of, number, pieces, sample
from labkit.workload import Sample

KINDS = ("read", "write", "trim")
LATENCIES = {"clat_ns": 1e-3, "clat": 1.0}
"""Completion latencies, and how many us one is: before fio 3 they were in us."""
DOCUMENT = re.compile(r"^\{(?:.*\}[ \t]*$|[\s\S]*?(?:^\}|\Z))", re.MULTILINE)
"""Warnings stand before it, and with `normal,json` a text for people after it."""
SAME_BEGIN = 1100
"""Reports of one run begin within this many ms: their times are rounded to seconds."""

# Its text for people.
JOB = re.compile(r"^(\S.*?): \(groupid=\d+, jobs=\d+\): err= *(\d+):", re.MULTILINE)
# fio 3: `read: IOPS=18.6k, BW=72.7MiB/s (76.3MB/s)`; fio 2: `read : io=1GB, bw=9 KB/s, iops=84092`.
NEW = re.compile(r"^ +(read|write|trim): IOPS=(?P<iops>[\d.]+)(?P<by>[kMG]?), "
                 r"BW=\S+ \((?P<rate>[\d.]+)(?P<unit>[kMG]?)B/s\)", re.MULTILINE)  # fmt: skip
OLD = re.compile(r"^ +(read|write|trim) *: io=\S+, bw=(?P<rate>[\d.]+)(?P<unit>[KMG]?)B/s, "
                 r"iops=(?P<iops>\d+)(?P<by>)", re.MULTILINE)  # fmt: skip
MEAN = re.compile(r"^ +clat \((nsec|usec|msec)\): .*?avg= *([\d.]+)([kM]?)", re.MULTILINE)
LEVELS = re.compile(r"^ +clat percentiles \((nsec|usec|msec)\):\n((?: +\|.*\n)+)", re.MULTILINE)
LEVEL = re.compile(r"([\d.]+)th=\[ *(\d+)\]")
BY = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
BINARY = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}
MICROSECONDS = {"nsec": 1e-3, "usec": 1.0, "msec": 1e3}


def read(text: str) -> list[Sample]:
    """IOPS, bandwidth and completion latency of each job and kind of I/O, once for each run."""
    if "{" not in text:
        return insist(list(_of_text(text)), "fio")
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


# The text for people, of versions 2 and 3: rates with k and M, latencies with their unit.
def _of_text(text: str) -> Iterator[Sample]:
    jobs = list(JOB.finditer(text))
    has_several = len({job[1] for job in jobs}) > 1
    for job, body in pieces(text, jobs):
        if job[2] != "0":
            raise ResultsError(f"job {job[1]} of fio ended with error {job[2]}")
        if not re.search(r"^ +issued +(rwts)?", body, re.MULTILINE):
            raise ResultsError(f"job {job[1]} of fio has no end", hint="was the file cut off?")
        yield from _text_job(body, f"{job[1]}: " if has_several else "")


def _text_job(text: str, before: str) -> Iterator[Sample]:
    kinds = [*NEW.finditer(text), *OLD.finditer(text)]
    for kind, below in pieces(text, kinds):
        name, by = f"{before}{kind[1]} ", BY if kind.re is NEW else BINARY
        yield sample(f"{name}iops", "1/s", number(kind["iops"], "iops") * by[kind["by"]])
        rate = number(kind["rate"], "bandwidth") * by[kind["unit"]]
        yield sample(f"{name}bandwidth", "MB/s", rate / 1e6)
        yield from _text_latency(below, f"{name}completion latency")


def _text_latency(text: str, name: str) -> Iterator[Sample]:
    if mean := MEAN.search(text):
        by = MICROSECONDS[mean[1]] * BY[mean[3]]
        yield sample(f"{name} mean", "us", by * number(mean[2], "clat"))
    if levels := LEVELS.search(text):
        for q, value in LEVEL.findall(levels[2]):
            microseconds = MICROSECONDS[levels[1]] * number(value, f"{q}th")
            yield sample(f"{name} p{float(q):g}", "us", microseconds)
