"""sockperf: the log of every packet (`--full-log`), or the summary that it prints."""

import re

import numpy as np

from labkit.errors import ResultsError
from labkit.imports._reading import insist, number, sample, unended, unread, whole_lines
from labkit.workload import Sample
from labkit.workloads.sockperf import COLOUR

HEAD = re.compile(r"packet, *txTime\(sec\), *rxTime\(sec\)")
SUMMARY = re.compile(r"---> (?:<(MAX|MIN)> observation|percentile (\d+\.?\d*)) *= *(\S+)")
TABLE = re.compile(r"(?=Printing statistics for Server)")
MEAN = re.compile(r"Summary: (?:Round trip|Latency) is (\S+) usec")
RATE = re.compile(r"Message Rate is (\S+) ")
BANDWIDTH = re.compile(r"BandWidth is (\S+) MBps")
DROPS = re.compile(r"# dropped messages = (\d+)")

left_out = unended


def read(text: str) -> list[Sample]:
    """The round trip of every packet; of a summary each percentile, or the rate of a throughput."""
    plain = COLOUR.sub("", whole_lines(text))
    lines = plain.splitlines()
    for n, line in enumerate(lines):
        if HEAD.match(line):
            return [_packets(lines, n)]
    return insist(_summary(plain), "sockperf")


# Sent and received are the client's clock, so that their difference is the whole round trip;
# the latency that newer versions print beside is half of it.
def _packets(lines: list[str], head: int) -> Sample:
    match = DROPS.search("\n".join(lines[:head]))
    trips = np.empty(len(lines) - head - 1)
    count = 0
    for n, line in enumerate(lines[head + 1 :], head + 2):
        cells = line.split(",")
        if not line.strip() or set(line) == {"-"}:
            continue
        try:
            trips[count] = (float(cells[2]) - float(cells[1])) * 1e6
        except (IndexError, ValueError):
            raise unread("sockperf", n, line) from None
        count += 1
    if count and not (np.isfinite(trips[:count]).all() and trips[:count].min() >= 0):
        raise ResultsError("sockperf: a packet was received before it was sent")
    return sample("round trip", "us", trips[:count], int(match[1]) if match else 0)


# Of each server or run there is a table of its own.
def _summary(text: str) -> list[Sample]:
    samples = [figure for table in TABLE.split(text) for figure in _table(table)]
    # Of `sockperf throughput`: 1 MB is 2**20 bytes there.
    for metric, unit, kind, factor in (
        ("message rate", "1/s", RATE, 1.0),
        ("throughput", "Mbit/s", BANDWIDTH, 8 * 2**20 / 1e6),
    ):
        samples += [sample(metric, unit, factor * number(match, metric))
                    for match in kind.findall(text)]  # fmt: skip
    return samples


def _table(text: str) -> list[Sample]:
    trip = "round trip" if "Summary: Round trip is" in text else "latency"
    samples = [
        sample(f"{trip} {end.lower() or f'p{float(q):g}'}", "us", number(value, "an observation"))
        for end, q, value in SUMMARY.findall(text)
    ]
    if mean := MEAN.search(text):
        match = DROPS.search(text)
        mean_of = number(mean[1], "the mean")
        samples.append(sample(f"{trip} mean", "us", mean_of, int(match[1]) if match else 0))
    return samples
