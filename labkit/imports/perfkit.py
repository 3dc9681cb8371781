"""PerfKitBenchmarker, its samples as newline-delimited JSON (`perfkitbenchmarker_results.json`).

It gives one name to measurements under different conditions, such as iperf over two addresses or
CoreMark with one thread and with all. Only labels separate them. Samples of one name are metrics of
their own if their labels differ in a word, or in a number such as that of threads. Labels that were
measured beside, such as a round trip or a count, separate nothing.

A histogram and a series over time are samples of the value 0, with their numbers in labels. One
without counts of values, such as memtier's, is left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit.errors import ResultsError
from labkit.imports._reading import MOST_VALUES, insist, json_of, number, sample
from labkit.workload import Sample

OWN_METRICS = {
    "End to End Runtime", "lscpu", "cpu_vuln", "proccpu", "proccpu_mapping", "meminfo",
    "gcc_version", "glibc_version", "lsmem_memory_size", "Events",
}  # fmt: skip
"""Metrics that describe its run or the machine, and measure nothing."""
COUNT = re.compile(r"(threads?|clients?|streams?|connections?|depth|jobs|block_?size)(_count)?$")
"""Numbers that were asked for; other numbers in labels were measured, or count repetitions."""
VALUE_LABELS = {"histogram", "Histogram", "values", "timestamps"}
"""Labels that hold what was measured."""
MOMENT = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d")
NUMBER = re.compile(r" *[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)? *|nan|inf", re.IGNORECASE)
LONGEST = 40


@dataclass(frozen=True)
class _Entry:
    metric: str
    unit: str
    values: list[float]
    labels: dict[str, str]


def read(text: str) -> list[Sample]:
    """One metric for each test, metric, unit and condition; the values in the order written."""
    groups: dict[tuple[str, str], list[_Entry]] = {}
    for fields in _samples(text):
        groups.setdefault((fields.metric, fields.unit), []).append(fields)
    samples = [figure for group in groups.values() for figure in _split(group)]
    return insist(samples, "PerfKit")


def _split(group: list[_Entry]) -> Iterator[Sample]:
    names = {name for fields in group for name in fields.labels} - VALUE_LABELS
    telling = sorted(name for name in names if _tells(name, [fields.labels for fields in group]))
    parts: dict[str, list[float]] = {}
    for fields in group:
        words = ", ".join(f"{n} {fields.labels[n]}" for n in telling if fields.labels.get(n))
        metric = f"{fields.metric} ({words})" if words else fields.metric
        parts.setdefault(metric, []).extend(fields.values)
    for metric, values in parts.items():
        yield sample(metric, group[0].unit, values)


def _tells(name: str, labels: list[dict[str, str]]) -> bool:
    values = {label[name] for label in labels if label.get(name)}
    if len(values) < 2 or any(len(v) > LONGEST or MOMENT.search(v) for v in values):
        return False
    return bool(COUNT.search(name)) or not any(map(NUMBER.fullmatch, values))


def _samples(text: str) -> Iterator[_Entry]:
    for n, line in enumerate(text.splitlines(), 1):
        # Some make one list of the lines, to have a JSON document.
        line = line.strip().removeprefix("[").rstrip(",]")
        if not line:
            continue
        fields = json_of(line, f"PerfKitBenchmarker, line {n},")
        if not {"metric", "value", "unit"} <= fields.keys():
            raise ResultsError(f"line {n} is not a sample of PerfKitBenchmarker", said=line[:200])
        if str(fields["metric"]) in OWN_METRICS:
            continue
        labels, place = _labels(fields), f"line {n}: the value"
        value = number(fields["value"], place)
        values = [value] if value or not VALUE_LABELS & labels.keys() else _values(labels, place)
        if not values:
            continue
        names = (fields.get("test"), fields["metric"] or labels.get("Name"), labels.get("Subname"))
        metric = ": ".join(str(part) for part in names if part)
        texts = {name: str(label) for name, label in labels.items()}
        yield _Entry(metric, str(fields["unit"] or ""), values, texts)


# As "|name:value|,|name:value|", with "||" between in tables that were exported, or as an object
# where it was asked not to flatten them. Names of machines hold the first part of the run's own
# name, which is another one in each run.
def _labels(fields: dict[str, Any]) -> dict[str, Any]:
    labels = fields.get("metadata", fields.get("labels"))
    if isinstance(labels, dict):
        pairs = labels
    else:
        text = str(labels or "")
        parts = text.strip("|").split("|,|" if "|,|" in text else "||")
        pairs = dict(part.split(":", 1) for part in parts if ":" in part)
    run = str(fields.get("run_uri") or "").split("-")[0]
    suffix = run and f"-{run}"
    return {
        str(name): value.replace(suffix, "") if run and isinstance(value, str) else value
        for name, value in pairs.items()
    }


def _values(labels: dict[str, Any], place: str) -> list[float]:
    if "values" in labels and "timestamps" in labels:
        series = _inner(labels["values"], place)
        return [number(value, place) for value in series] if isinstance(series, list) else []
    histogram = _inner(labels.get("histogram", labels.get("Histogram")), place)
    if not isinstance(histogram, dict) or any(
        isinstance(n, list | dict) for n in histogram.values()
    ):
        return []
    pairs = [(number(at, place), number(count, place)) for at, count in histogram.items()]
    counts = [count for _, count in pairs]
    if not 0 <= min(counts, default=0) <= sum(counts) <= MOST_VALUES:
        raise ResultsError(f"{place} is a histogram of an impossible number of values")
    return [at for at, count in pairs for _ in range(int(count))]


def _inner(value: Any, place: str) -> Any:
    return json_of(f'{{"it": {value}}}', place)["it"] if isinstance(value, str) else value
