"""netperf: request and response one at a time, or a stream as fast as it goes.

Free tools can do its tests: sockperf asks, iperf3 streams. netperf's figures are made of what they
print, so results have the same names. The text of a run says which tool it was.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.programs.packages import brings
from labkit.setting import Words
from labkit.statistics.percentiles import percentile
from labkit.workload import Sample, Workload, choice, knob
from labkit.workloads import _lasting
from labkit.workloads._server import SPARE_SECONDS, serving_on
from labkit.workloads.sockperf import COLOUR, SMALLEST, Sockperf

PROGRAMS = ("iperf3", "netperf", "netserver", "sockperf")
FREE = ("iperf3", "sockperf")

ASKING, STREAMS = ("TCP_RR", "UDP_RR"), ("TCP_STREAM", "TCP_MAERTS", "UDP_STREAM")
LARGEST = {"TCP": 1 << 20, "UDP": 65_507}
LATENCIES = {"MIN_LATENCY": "min", "MEAN_LATENCY": "mean", "P50_LATENCY": "p50",
             "P90_LATENCY": "p90", "P99_LATENCY": "p99", "MAX_LATENCY": "max"}  # fmt: skip
FIGURES = {True: ("TRANSACTION_RATE", *LATENCIES), False: ("THROUGHPUT", "LOCAL_SEND_THROUGHPUT")}
BANNER = re.compile(r"MIGRATED (TCP|UDP) (REQUEST/RESPONSE|STREAM|MAERTS) TEST from .+", re.ASCII)
FIGURE = re.compile(r"([A-Z][A-Z0-9_]*)=(\d{1,15}(?:\.\d{1,9})?)", re.ASCII)
BY_IPERF3 = {"TCP_STREAM": (), "TCP_MAERTS": ("-R",), "UDP_STREAM": ("-u", "-b", "0")}
RAN = re.compile(r"^sockperf: \[Valid Duration\] RunTime=(\d{1,6}\.\d{1,9}) sec;",
                 re.ASCII | re.MULTILINE)  # fmt: skip
SAYS = re.compile(r"^sockperf: ", re.MULTILINE)
LEVELS = {"P50_LATENCY": 50, "P90_LATENCY": 90, "P99_LATENCY": 99}
METRICS = {
    "TRANSACTION_RATE": ("netperf rate", "1/s"),
    "THROUGHPUT": ("netperf throughput", "Mbit/s"),
    "LOCAL_SEND_THROUGHPUT": ("netperf sent", "Mbit/s"),
    **{name: (f"netperf {short}", "us") for name, short in LATENCIES.items()},
}


@dataclass(frozen=True)
class Netperf(Workload):
    """Defaults are the latency-sensitivity paper's: TCP_RR, 256 bytes each way (p. 9).

    netperf keeps no single value. Its percentiles are whole microseconds, cut off, and end at 99 %.
    """

    roles = ("client", "server")
    loop = "closed"
    measures = ("netperf throughput", "netperf sent", "netperf rate", "netperf min", "netperf mean",
                "netperf p50", "netperf p90", "netperf p99", "netperf max")  # fmt: skip
    programs = ("netperf", *FREE)
    ours = ("netserver", "netperf", *FREE)
    only: ClassVar[Mapping[str, str]] = {"netperf": "client", "netserver": "server"}

    test: str = choice("TCP_RR", (*ASKING, *STREAMS))
    size: int = 256
    duration: int = knob(3, 1, 86_400)
    free: bool = False
    """Whether free tools do the test: sockperf asks, iperf3 streams."""

    def __post_init__(self) -> None:
        self.insist_between("size", self.size, 1, LARGEST[self.test[:3]])
        if self.free and self._asks:
            _ = self._sockperf  # refuses what it cannot send

    @property
    def _asks(self) -> bool:
        return self.test in ASKING

    @property
    def _sockperf(self) -> Sockperf:
        return Sockperf(self.test[:3].lower(), max(SMALLEST, self.size), self.duration)

    @property
    def tools(self) -> Mapping[str, str]:
        """Both ends of netperf come in one package, as do those of each free tool."""
        free = ("sockperf",) if self._asks else ("iperf3",)
        words = free if self.free else ("netperf", "netserver")
        return {word: brings(word) for word in words}

    def freed(self) -> Self:
        """The same test by sockperf or iperf3."""
        return replace(self, free=True)

    @property
    def substitutes(self) -> str:
        """The free tool, and how many bytes it sends at least."""
        if not self.free:
            return ""
        size = self._sockperf.size if self._asks else self.size
        bytes_too = f", with {size} bytes for {self.size}" if size != self.size else ""
        return f"{', '.join(self.tools)} in place of netperf{bytes_too}"

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return self._sockperf.seconds if self.free and self._asks else float(self.duration)

    @property
    def _most_seconds(self) -> float:
        return 30 + 3 * self.seconds

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Test from the client to a netserver of our own on the server, which ends with the run."""
        with self.asking(hosts) as words:
            return _lasting.checked(hosts["client"], *words, seconds=self._most_seconds)

    @contextmanager
    def asking(self, hosts: Mapping[str, Host]) -> Iterator[tuple[str, ...]]:
        """The client's command, while a server listens on the server's test address only."""
        if self.free and self._asks:
            with self._sockperf.asking(hosts) as words:
                yield words
            return
        at, ends = hosts["server"].address, (hosts["server"], hosts["client"])
        server = ("iperf3", "-s", "-4", "-B") if self.free else ("netserver", "-D", "-4", "-L")
        lasts = SPARE_SECONDS + self._most_seconds
        with serving_on(*ends, lambda port: (*server, at, "-p", str(port)), lasts) as port:
            place = (at, "-p", str(port))
            yield self._iperf3(*place) if self.free else self._netperf(*place)

    # MAERTS is STREAM backwards: then the server writes.
    def _netperf(self, *place: str) -> Words:
        write = "-M" if self.test == "TCP_MAERTS" else "-m"
        sizes = ("-r", f"{self.size},{self.size}") if self._asks else (write, str(self.size))
        return (
            "netperf", "-4", "-H", *place, "-t", self.test, "-l", str(self.duration),
            "--", *sizes, "-k", ",".join(FIGURES[self._asks]),
        )  # fmt: skip

    def _iperf3(self, *place: str) -> Words:
        return (
            "iperf3", "-4", "-c", *place, *BY_IPERF3[self.test],
            "-l", str(self.size), "-t", str(self.duration), "-i", "0", "--json",
        )  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """One value of each figure of netperf: rate and latencies, or throughput."""
        if text.startswith("{"):
            return _convert(_read_stream(text))
        if SAYS.search(text):
            return _convert(_read_trips(text))
        figures: dict[str, float] = {}
        banner = None
        for at, line in enumerate(text.split("\n"), 1):
            if figure := FIGURE.fullmatch(line):
                if figure[1] not in METRICS or figure[1] in figures:
                    raise ResultsError(f"netperf: cannot read line {at}", said=line)
                figures[figure[1]] = float(figure[2])
            elif banner is None and BANNER.fullmatch(line):
                banner = BANNER.fullmatch(line)
            elif line:
                raise ResultsError(f"netperf: cannot read line {at}", said=line)
        return _samples(banner, figures, text)


def _samples(banner: re.Match[str] | None, figures: dict[str, float], text: str) -> list[Sample]:
    last = text.strip().rpartition("\n")[2]
    if banner is None:
        raise ResultsError("netperf: it did not start", said=last or "it printed nothing")
    missing = set(FIGURES[banner[2] == "REQUEST/RESPONSE"]) - set(figures)
    if missing or not text.endswith("\n"):
        lost = min(missing, default="its last line whole")
        raise ResultsError(f"netperf: it did not print {lost}", said=last)
    if figures.get("TRANSACTION_RATE") == 0:
        raise ResultsError("netperf: no request was answered", said=last)
    ladder = [figures[name] for name in ("MIN_LATENCY", *LEVELS) if name in figures]
    if ladder != sorted(ladder):
        raise ResultsError("netperf: its percentiles are not in ascending order", said=last)
    return _convert(figures)


def _convert(figures: Mapping[str, float]) -> list[Sample]:
    return [Sample.single(*METRICS[name], value) for name, value in figures.items()]


def _read_trips(text: str) -> dict[str, float]:
    (trips,) = Sockperf.parse(text)
    ran = RAN.search(COLOUR.sub("", text.partition("\nrtt(usec)\n")[0]))
    if ran is None or not float(ran[1]):
        raise ResultsError("sockperf: it does not say how long it asked", said=text[:200])
    return {
        "TRANSACTION_RATE": len(trips.values) / float(ran[1]),
        "MIN_LATENCY": float(trips.values.min()),
        "MEAN_LATENCY": float(trips.values.mean()),
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
    if not (0 <= receive_rate < math.inf and 0 <= send_rate < math.inf):
        rates = f"{receive_rate} and {send_rate} Mbit/s"
        raise ResultsError("iperf3: it printed no throughput", said=rates)
    return {"THROUGHPUT": receive_rate, "LOCAL_SEND_THROUGHPUT": send_rate if forward else 0.0}
