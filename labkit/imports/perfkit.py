"""PerfKitBenchmarker, its samples as newline-delimited JSON (`perfkitbenchmarker_results.json`)."""

from __future__ import annotations

from labkit.errors import ResultsError
from labkit.imports._reading import insist, json_of, number, sample
from labkit.workload import Sample

OWN = ("End to End Runtime", "lscpu", "cpu_vuln", "proccpu", "meminfo")
"""Metrics that describe its run or the machine, and measure nothing."""


def read(text: str) -> list[Sample]:
    """One metric for each test, metric and unit, with the values in the order written."""
    values: dict[tuple[str, str], list[float]] = {}
    for n, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        told = json_of(line, f"PerfKitBenchmarker, line {n},")
        if not {"metric", "value", "unit"} <= told.keys():
            raise ResultsError(f"line {n} is no sample of PerfKitBenchmarker", said=line[:200])
        if told["metric"] in OWN:
            continue
        test = f"{told['test']}: " if told.get("test") else ""
        key = f"{test}{told['metric']}", str(told["unit"])
        values.setdefault(key, []).append(number(told["value"], f"line {n}: the value"))
    return insist([sample(m, unit, found) for (m, unit), found in values.items()], "PerfKit")
