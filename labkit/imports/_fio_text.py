"""fio's text for people, of versions 2 and 3: rates with k and M, latencies with their unit."""

import re
from collections.abc import Iterator

from labkit.errors import ResultsError
from labkit.imports._figures import pieces
from labkit.imports._reading import number, sample
from labkit.workload import Sample

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


def read(text: str) -> Iterator[Sample]:
    """IOPS, bandwidth and completion latency of each job and kind of I/O, by the names of JSON."""
    jobs = list(JOB.finditer(text))
    has_several = len({job[1] for job in jobs}) > 1
    for job, body in pieces(text, jobs):
        if job[2] != "0":
            raise ResultsError(f"job {job[1]} of fio ended with error {job[2]}")
        if not re.search(r"^ +issued +(rwts)?", body, re.MULTILINE):
            raise ResultsError(f"job {job[1]} of fio has no end", hint="was the file cut off?")
        yield from _job(body, f"{job[1]}: " if has_several else "")


def _job(text: str, before: str) -> Iterator[Sample]:
    kinds = [*NEW.finditer(text), *OLD.finditer(text)]
    for kind, below in pieces(text, kinds):
        name, by = f"{before}{kind[1]} ", BY if kind.re is NEW else BINARY
        yield sample(f"{name}iops", "1/s", number(kind["iops"], "iops") * by[kind["by"]])
        rate = number(kind["rate"], "bandwidth") * by[kind["unit"]]
        yield sample(f"{name}bandwidth", "MB/s", rate / 1e6)
        yield from _latency(below, f"{name}completion latency")


def _latency(text: str, name: str) -> Iterator[Sample]:
    if mean := MEAN.search(text):
        by = MICROSECONDS[mean[1]] * BY[mean[3]]
        yield sample(f"{name} mean", "us", by * number(mean[2], "clat"))
    if levels := LEVELS.search(text):
        for q, value in LEVEL.findall(levels[2]):
            microseconds = MICROSECONDS[levels[1]] * number(value, f"{q}th")
            yield sample(f"{name} p{float(q):g}", "us", microseconds)
