"""netperf's tests by tools that are free: sockperf asks, iperf3 streams.

netperf's figures are made of what they print, so results have the same names. The text of a run
says which tool it was.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.statistics.percentiles import percentile
from labkit.workloads._server import serving_on
from labkit.workloads.sockperf import COLOUR, SMALLEST, Sockperf

PROGRAMS = ("iperf3", "sockperf")

RAN = re.compile(r"^sockperf: \[Valid Duration\] RunTime=(\d{1,6}\.\d{1,9}) sec;",
                 re.ASCII | re.MULTILINE)  # fmt: skip
SAYS = re.compile(r"^sockperf: ", re.MULTILINE)
LEVELS = {"P50_LATENCY": 50, "P90_LATENCY": 90, "P99_LATENCY": 99}


def sockperf(test: str, size: int, duration: int) -> Sockperf:
    """The ping-pong that stands for TCP_RR or UDP_RR; its requests have 14 bytes at least."""
    return Sockperf(test[:3].lower(), max(SMALLEST, size), duration)


@contextmanager
def streaming(
    hosts: Mapping[str, Host], test: str, size: int, duration: int, lasts: float
) -> Iterator[tuple[str, ...]]:
    """The client's iperf3, while one of our own listens on the server's test address only."""
    at = hosts["server"].address
    options = {"TCP_STREAM": (), "TCP_MAERTS": ("-R",), "UDP_STREAM": ("-u", "-b", "0")}[test]

    def server(port: int) -> tuple[str, ...]:
        return ("iperf3", "-s", "-4", "-B", at, "-p", str(port))

    with serving_on(hosts["server"], hosts["client"], server, lasts) as port:
        yield (
            "iperf3", "-4", "-c", at, "-p", str(port), *options,
            "-l", str(size), "-t", str(duration), "-i", "0", "--json",
        )  # fmt: skip


def figures(text: str) -> dict[str, float] | None:
    """The figures of netperf by its own names, if one of these tools printed the text."""
    if text.startswith("{"):
        return _read_stream(text)
    return _read_trips(text) if SAYS.search(text) else None


def _read_trips(text: str) -> dict[str, float]:
    (trips,) = Sockperf.parse(text)
    ran = RAN.search(COLOUR.sub("", text.partition("\nrtt(usec)\n")[0]))
    if ran is None or not float(ran[1]):
        raise ResultsError("sockperf: it does not say how long it asked", said=text[:200])
    return {
        "TRANSACTION_RATE": len(trips.values) / float(ran[1]),
        "MIN_LATENCY": float(trips.values.min()),
        "MEAN_LATENCY": float(np.mean(trips.values)),
        **{name: percentile(trips.values, q) for name, q in LEVELS.items()},
        "MAX_LATENCY": float(trips.values.max()),
    }


# What came, as a sender is done before its last bytes are there. A server that streams to us sends.
def _read_stream(text: str) -> dict[str, float]:
    try:
        output = json.loads(text)
        end, forward = output["end"], not output["start"]["test_start"]["reverse"]
        receive_rate, send_rate = (
            float(end[side]["bits_per_second"]) / 1e6 for side in ("sum_received", "sum_sent")
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ResultsError("iperf3: its answer is not whole", said=str(error)) from None
    if (
        not (math.isfinite(receive_rate) and math.isfinite(send_rate))
        or min(receive_rate, send_rate) < 0
    ):
        raise ResultsError(
            "iperf3: it printed no throughput", said=f"{receive_rate} and {send_rate} Mbit/s"
        )
    return {"THROUGHPUT": receive_rate, "LOCAL_SEND_THROUGHPUT": send_rate if forward else 0.0}
