"""redis-benchmark: `--csv` of any version, `-q`, and what it prints by itself.

The last says how many clients there were. Runs with different numbers of them are metrics of their
own, such as `SET throughput [clients=120]`; with the usual number the name stands alone.
"""

import csv
import re

from labkit.imports._reading import insist, number, sample, unended, unread, whole_lines
from labkit.workload import Sample

# A command of one's own stands there as it was typed.
QUIET = re.compile(
    r"^(?!throughput summary)(\S.*?): ([\d.]+) requests per second(?:, p50=([\d.]+) msec)?", re.M
)
CLIENTS = re.compile(r"^(\d+) parallel clients$")
USUAL_CLIENTS = "50"
"""The number of clients that redis-benchmark takes by itself."""
TITLE = re.compile(r"^====== (.+) ======")
RATE = re.compile(r"throughput summary: ([\d.]+) requests per second|^([\d.]+) requests per second")

left_out = unended


def read(text: str) -> list[Sample]:
    """Requests per second and latencies of each command."""
    text = whole_lines(text)
    # Progress is drawn over itself with carriage returns.
    lines = [line.rsplit("\r", 1)[-1].strip() for line in text.replace("\r\n", "\n").split("\n")]
    if any(line.startswith('"') for line in lines):
        return insist(_csv(lines), "redis-benchmark")
    quiet = [_figure(command, head, value)
             for command, rate, p50 in QUIET.findall("\n".join(lines))
             for head, value in (("rps", rate), ("p50_latency_ms", p50)) if value]  # fmt: skip
    return insist(quiet or _long(lines), "redis-benchmark")


def _csv(lines: list[str]) -> list[Sample]:
    samples, heads = [], ["test", "rps"]
    for n, line in enumerate(lines, 1):
        if not line.startswith('"'):
            continue
        (cells,) = csv.reader([line])
        if cells[0] == "test":
            heads = cells
            continue
        if len(cells) != len(heads):
            raise unread("redis-benchmark", n, line)
        for head, value in zip(heads[1:], cells[1:], strict=True):
            samples.append(_figure(cells[0], head, value))
    return samples


def _figure(command: str, head: str, value: str, at: str = "") -> Sample:
    figure = number(value, f"{command} {head}")
    if head == "rps":
        return sample(f"{command} throughput{at}", "1/s", figure)
    return sample(f"{command} latency {head.removesuffix('_latency_ms')}{at}", "ms", figure)


def _long(lines: list[str]) -> list[Sample]:
    samples, command, at = [], "", ""
    for n, line in enumerate(lines):
        if title := TITLE.match(line):
            command, at = title[1], ""
        elif clients := CLIENTS.match(line):
            at = f" [clients={clients[1]}]" if clients[1] != USUAL_CLIENTS else ""
        elif command and (rate := RATE.search(line)):
            samples.append(_figure(command, "rps", rate[1] or rate[2], at))
        elif command and line.startswith("latency summary (msec)"):
            heads, values = (" ".join(lines[n + k : n + k + 1]).split() for k in (1, 2))
            if not heads or len(heads) != len(values):
                raise unread("redis-benchmark", n + 3, " ".join(values))
            pairs = zip(heads, values, strict=True)
            samples += [_figure(command, f"{head}_latency_ms", value, at) for head, value in pairs]
    return samples
