"""wrk and wrk2: the rates, and the latencies as far as `--latency` prints them."""

import re
from collections.abc import Iterator
from dataclasses import replace

from labkit.imports._reading import (
    Patterns,
    found_in,
    insist,
    insist_ended,
    milliseconds,
    number,
    sample,
)
from labkit.workload import Sample

FIGURES: Patterns = {r"^Requests/sec: +([\d.]+)$": ("throughput", "1/s")}
BYTES = {"B": 1e-6, "KB": 1024e-6, "MB": 1024**2 * 1e-6, "GB": 1024**3 * 1e-6}
TRANSFER = re.compile(r"^Transfer/sec: +([\d.]+)(B|KB|MB|GB)$", re.MULTILINE)
MEAN = re.compile(r"^ +Latency +(\S+) +\S+ +(\S+) +\S+%$", re.MULTILINE)
LEVEL = re.compile(r"^ +(\d+(?:\.\d+)?)% +([\d.]+(?:us|ms|s|m|h))$", re.MULTILINE)
ERRORS = re.compile(r"^ +Non-2xx or 3xx responses: (\d+)$|^ +Socket errors: (.+)$", re.MULTILINE)


def read(text: str) -> list[Sample]:
    """Requests and megabytes a second, latencies; answers that were errors are lost."""
    insist_ended(text, r"^Transfer/sec: +[\d.]+(B|KB|MB|GB)$", "wrk")
    losses = sum(int(word) for answers, sockets in ERRORS.findall(text)
                 for word in re.findall(r"\d+", f"{answers} {sockets}"))  # fmt: skip
    rates = [
        replace(figure, lost=losses) for figure in insist(list(found_in(text, FIGURES)), "wrk")
    ]
    return insist([*rates, *_beside(text)], "wrk")


def _beside(text: str) -> Iterator[Sample]:
    for amount, unit in TRANSFER.findall(text):
        yield sample("bandwidth", "MB/s", number(amount, "Transfer/sec") * BYTES[unit])
    for mean, largest in MEAN.findall(text):
        yield sample("latency mean", "ms", milliseconds(mean, "Latency"))
        yield sample("latency max", "ms", milliseconds(largest, "Latency"))
    for level, value in LEVEL.findall(text):
        yield sample(f"latency p{float(level):g}", "ms", milliseconds(value, f"{level}%"))
