"""sysbench 1.0: its report of the tests cpu, memory, threads, mutex, fileio and oltp."""

from labkit.imports._reading import Patterns, found_in, insist, insist_ended
from labkit.workload import Sample

FIGURES: Patterns = {
    r"^\s+(transactions|queries): +\d+ +\(([\d.]+) per sec\.\)$": ("{}", "1/s"),
    r"^\s+events per second: +([\d.]+)$": ("events", "1/s"),
    r"^\s+events/s \(eps\): +([\d.]+)$": ("events", "1/s"),
    r"^Total operations: \d+ \( *([\d.]+) per second\)$": ("operations", "1/s"),
    r"^[\d.]+ MiB transferred \(([\d.]+) MiB/sec\)$": ("bandwidth", "MiB/s"),
    r"^\s+(reads|writes|fsyncs)/s: +([\d.]+)$": ("{}", "1/s"),
    r"^\s+(read|written), MiB/s: +([\d.]+)$": ("bandwidth {}", "MiB/s"),
    r"^\s+(min|avg|max): +([\d.]+)$": ("latency {}", "ms"),
    r"^\s+(\d+)th percentile: +([\d.]+)$": ("latency p{}", "ms"),
    r"^\s+total time: +([\d.]+)s$": ("total time", "s"),
}


def read(text: str) -> list[Sample]:
    """Rates and latencies of each report; several reports are several values."""
    insist_ended(text, r"^\s+execution time \(avg/stddev\): +[\d.]+/[\d.]+$", "sysbench")
    return insist(list(found_in(text, FIGURES)), "sysbench")
