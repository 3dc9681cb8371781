"""pgbench: its report, with what `-P` prints of each interval; or the log of all transactions."""

import re
from dataclasses import replace

from labkit.errors import ResultsError
from labkit.imports._reading import (
    Patterns,
    found_in,
    insist,
    insist_ended,
    number,
    sample,
    unended,
    unread,
    whole_lines,
)
from labkit.workload import Sample

# Before version 14 there were two rates: the other includes the time to connect.
FIGURES: Patterns = {
    r"^tps = ([\d.]+) \((?:without initial connection time|excluding connections establishing)\)$":
        ("throughput", "1/s"),
    r"^tps = ([\d.]+) \((?:including reconnection times|including connections establishing)\)$":
        ("throughput with connecting", "1/s"),
    r"^latency average = ([\d.]+) ms$": ("latency mean", "ms"),
    r"^progress: [\d.]+ s, ([\d.]+) tps, lat [\d.]+ ms .*$": ("throughput of intervals", "1/s"),
    r"^progress: [\d.]+ s, [\d.]+ tps, lat ([\d.]+) ms .*$": ("latency of intervals", "ms"),
}  # fmt: skip
FAILURES = re.compile(r"^number of failed transactions: (\d+) ", re.MULTILINE)
# Client, its transaction, microseconds, script, and the time of day; with --rate how late it began.
LOG_LINE = re.compile(r"\d+ \d+ (\d+|failed|skipped|serialization|deadlock) \d+ \d+ \d+(?: \d+)*")


def left_out(text: str) -> str:
    """A last line of a log that may not be whole."""
    return unended(text) if LOG_LINE.match(text) else ""


def read(text: str) -> list[Sample]:
    """Throughput and latency; of a log, the latency of each transaction."""
    if LOG_LINE.match(text):
        return _read_log(whole_lines(text))
    insist_ended(text, r"^tps = [\d.]+ \(.*\)$", "pgbench")
    samples = insist(list(found_in(text, FIGURES)), "pgbench")
    losses = sum(map(int, FAILURES.findall(text)))
    return [replace(s, lost=losses) if s.metric == "throughput" else s for s in samples]


def _read_log(text: str) -> list[Sample]:
    values, losses = [], 0
    for n, line in enumerate(text.splitlines(), 1):
        match = LOG_LINE.fullmatch(line)
        if not match:
            raise unread("pgbench", n, line)
        if match[1].isdecimal():
            values.append(number(match[1], f"line {n}"))
        else:
            losses += 1
    if not values:
        raise ResultsError("no transaction of this log has ended well")
    return [sample("latency", "us", values, losses)]
