"""netperf: its tables of requests, streams and datagrams, and the omni output by `-k` and `-o`."""

import csv
import re

from labkit.errors import ResultsError
from labkit.imports._reading import insist, number, sample, unended, whole_lines
from labkit.workload import Sample
from labkit.workloads.netperf import LATENCIES as OF_K

# The selectors of `-k`, as our own runs ask for them, and the headings of `-o` for the same.
HEADINGS = {"min": "Minimum", "mean": "Mean", "p50": "50th Percentile", "p90": "90th Percentile",
            "p99": "99th Percentile", "max": "Maximum"}  # fmt: skip
LATENCIES = {
    name: f"latency {short}"
    for selector, short in OF_K.items()
    for name in (selector, f"{HEADINGS[short]} Latency Microseconds")
}
UNITS = {"Trans/s": "1/s", "10^6bits/s": "Mbit/s"}
KIND = re.compile(
    r"(REQUEST/RESPONSE|UDP (?:STREAM|UNIDIRECTIONAL SEND)|STREAM|SENDFILE|MAERTS) TEST", re.I
)
UNIT = re.compile(r"^.* secs\b.* (\S+/s)(?:ec)?\b", re.MULTILINE)
"""In the last line of the heading; `-f M` makes it MBytes/sec."""
HEADING = re.compile(r"^(?=.*,)(.*,)?(Throughput|[\w ]+ Latency Microseconds)(,|$)")
BEGIN = re.compile(r"^(?=.* TEST (?:from|to) )", re.MULTILINE)
OWN_FILE = "import each kind from a file of its own"
ROW = re.compile(r"^ *[\d.]+( +-?[\d.]+)+ *$", re.MULTILINE)

left_out = unended


def read(text: str) -> list[Sample]:
    """The rate or the throughput, and the latencies if they were asked for, of one run or more."""
    before, *tests = BEGIN.split(whole_lines(text))
    kinds = {test[: test.index(" TEST ")] for test in tests}
    if len(kinds) > 1:
        problem, hint = f"netperf: {len(kinds)} kinds of tests in the text", OWN_FILE
        raise ResultsError(problem, said=", ".join(sorted(kinds)), hint=hint)
    samples = [figure for test in tests or [before] for figure in _test(test)]
    return insist(samples, "netperf")


def _test(text: str) -> list[Sample]:
    lines = [line.strip() for line in text.splitlines() if not line.startswith("Interim result")]
    if runs := _runs(lines):
        return [s for run in runs for s in _omni(run, run.get("THROUGHPUT_UNITS", ""))]
    if heads := [n for n, line in enumerate(lines) if HEADING.search(line)]:
        rows = list(csv.reader(lines[heads[0] : heads[0] + 2]))
        if len(rows) < 2 or len(rows[0]) != len(rows[1]):
            raise ResultsError("netperf: the row below the headings is not whole")
        cells = dict(zip(*rows, strict=True))
        return _omni(cells, cells.get("Throughput Units", ""))
    return _table(text)


# With -P 0 only a name that comes again shows that another run began.
def _runs(lines: list[str]) -> list[dict[str, str]]:
    runs: list[dict[str, str]] = []
    for line in lines:
        if re.match(r"[A-Z0-9_]+=", line):
            name, _, value = line.partition("=")
            if not runs or name in runs[-1]:
                runs.append({})
            runs[-1][name] = value
    return runs


def _omni(values: dict[str, str], unit: str) -> list[Sample]:
    metrics = {name: ("throughput", UNITS.get(unit, unit)) for name in ("THROUGHPUT", "Throughput")}
    metrics |= {name: (metric, "us") for name, metric in LATENCIES.items()}
    return [sample(metric, unit_of, number(values[name], name))
            for name, (metric, unit_of) in metrics.items() if name in values]  # fmt: skip


# Buffers, sizes, seconds, the result; with -c or -C what both sides' processors did follows.
def _table(text: str) -> list[Sample]:
    kind, unit = KIND.search(text), UNIT.search(text)
    rows = [row[0].split() for row in ROW.finditer(text)]
    name = kind[1].upper() if kind else ""
    unit_of = "Trans/s" if name == "REQUEST/RESPONSE" else unit[1] if unit else ""
    if name.startswith("UDP"):
        return _datagrams(rows, UNITS.get(unit_of, unit_of))
    place = 5 if name == "REQUEST/RESPONSE" else 4
    result = next((row[place] for row in rows if len(row) in (place + 1, place + 5)), None)
    if not unit_of or result is None:
        raise _no_table()
    return [sample("throughput", UNITS.get(unit_of, unit_of), number(result, "the result"))]


# What was sent, and below it what came in: only the former has a column for the size of messages.
def _datagrams(rows: list[list[str]], unit: str) -> list[Sample]:
    if not unit or len(rows) != 2 or len(rows[0]) < 6 or len(rows[1]) < 4:
        raise _no_table()
    (_, _, _, messages, _, rate), (_, _, came, throughput) = rows[0][:6], rows[1][:4]
    losses = number(messages, "messages sent") - number(came, "messages received")
    came_in, sent = number(throughput, "the result"), number(rate, "the rate sent")
    return [sample("throughput", unit, came_in), sample("throughput sent", unit, sent),
            sample("lost messages", "", losses)]  # fmt: skip


def _no_table() -> ResultsError:
    omni = "omni tests as -k (one name=value a line) or -o (CSV)"
    hint = f"it is read with its first line (no -P 0); {omni}"
    return ResultsError("netperf: no table of a test in the text", hint=hint)
