"""memtier_benchmark: what it prints, or its `--json-out-file`.

Of several runs (`-x`) it prints only the best, the worst and the mean, which are no runs.
"""

import re
from collections.abc import Iterator
from typing import Any

from labkit.errors import ResultsError
from labkit.imports._reading import at, insist, insist_ended, json_of, number, sample
from labkit.workload import Sample

TABLE = re.compile(r"^(ALL STATS|BEST RUN RESULTS)\n=+\n(Type .*)\n-+\n((?:.+\n)+)", re.MULTILINE)
KINDS = ("Sets", "Gets", "Waits", "Totals")
RATES = ("Ops/sec", "KB/sec")
HINT = "run it several times, each into a file of its own"
SEVERAL_RUNS = "several runs are in this file as their best, worst and mean"


def read(text: str) -> list[Sample]:
    """Operations a second and latencies of sets, gets and all."""
    samples = _of_json(text) if text.lstrip().startswith("{") else _of_text(text)
    return insist(list(samples), "memtier_benchmark")


def _of_json(text: str) -> Iterator[Sample]:
    document = json_of(text, "memtier_benchmark")
    if "BEST RUN RESULTS" in document:
        raise ResultsError(SEVERAL_RUNS, hint=HINT)
    of_all = at(document, "ALL STATS")
    for kind in KINDS if isinstance(of_all, dict) else ():
        totals = of_all.get(kind)
        if isinstance(totals, dict) and number(totals.get("Count", 0), f"{kind} Count"):
            yield from _kind(kind, totals)


def _kind(kind: str, fields: dict[str, Any]) -> Iterator[Sample]:
    for key in RATES:
        yield sample(*_name(kind, key), number(at(fields, key), f"{kind} {key}"))
    yield sample(f"{kind} latency mean", "ms", number(at(fields, "Average Latency"), kind))
    levels = fields.get("Percentile Latencies", {})
    for key, value in levels.items() if isinstance(levels, dict) else ():
        if match := re.fullmatch(r"p(\d+\.?\d*)", key):
            yield sample(f"{kind} latency p{float(match[1]):g}", "ms", number(value, key))


def _of_text(text: str) -> Iterator[Sample]:
    insist_ended(text, r"^Totals  .*\n", "memtier_benchmark")
    for title, head, rows in TABLE.findall(text):
        if title.startswith("BEST"):
            raise ResultsError(SEVERAL_RUNS, hint=HINT)
        columns = [column.strip() for column in re.split(r" {2,}", head.strip())][1:]
        for kind, *cells in map(str.split, rows.splitlines()):
            if len(cells) != len(columns):
                raise ResultsError(f"{kind} has {len(cells)} figures under {len(columns)} columns")
            for column, cell in zip(columns, cells, strict=True):
                # A kind that was not asked for has no latency.
                if "---" not in cells[-2] and column not in ("Hits/sec", "Misses/sec"):
                    yield sample(*_name(kind, column), number(cell, f"{kind} {column}"))


def _name(kind: str, column: str) -> tuple[str, str]:
    if column == "Ops/sec":
        return f"{kind} throughput", "1/s"
    if column == "KB/sec":
        return f"{kind} bandwidth", "KB/s"
    level = column.removesuffix(" Latency")
    return f"{kind} latency {'mean' if level == 'Avg.' else level.removesuffix('.000')}", "ms"
