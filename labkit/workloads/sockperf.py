"""sockperf: ping-pong between two programs, every round trip of it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.programs.packages import brings
from labkit.workload import Sample, Workload, choice, knob
from labkit.workloads import _lasting
from labkit.workloads._server import SPARE_SECONDS, serving_on

PROGRAMS = ("onload", "sockperf")

SPINS = ("none", "client", "both")
PROTOCOLS = ("tcp", "udp")
SMALLEST, LARGEST = 14, 65_507
# Every packet's time on the wire is in the log; here only how long it took is kept, in its order,
# with what sockperf says of the run. What it prints instead when it fails goes the same way.
LOGGED = beside(__file__, "sockperf_logged.sh")
COLOUR = re.compile(r"\x1b?\[[\d;]*m")
LINES = re.ASCII | re.MULTILINE
TRIP, NO_TRIP = re.compile(r"^\d{1,9}\.\d{3}$", LINES), r"^(?!(?:\d{1,9}\.\d{3}|-*)$).+"
HEAD = "rtt(usec)"
RUN = re.compile(r"^sockperf: \[Valid Duration\] RunTime=\S+ sec; SentMessages=(\d{1,12});"
                 r" ReceivedMessages=(\d{1,12})$", LINES)  # fmt: skip
# `oo:` begins what OpenOnload says of itself: which release of it the program runs through.
NOT_ITS = (
    r"^(?!(?:-+|sockperf: .*|oo:.*"
    r"|test was performed using the following parameters: .*)$).+"
)


@dataclass(frozen=True)
class Sockperf(Workload):
    """256 bytes each way as the latency-sensitivity paper's netperf; one request at a time.

    Its first 400 ms and its last 50 are left out, as sockperf does.
    """

    roles = ("client", "server")
    loop = "closed"
    measures = ("round trip",)
    programs = ("sockperf",)
    ours = ("sockperf",)

    protocol: str = choice("tcp", PROTOCOLS)
    size: int = knob(256, SMALLEST, LARGEST)
    duration: int = knob(3, 1, 86_400)
    busy_poll: int = knob(0, 0, 1_000_000)
    """Microseconds that both kernels look at the NIC themselves before they sleep; 0: none."""
    spin: str = choice("none", SPINS)
    """The side that asks again and again instead of sleeping in the kernel."""
    onload: bool = False
    """Whether both run through OpenOnload, past the kernel."""

    @property
    def tools(self) -> Mapping[str, str]:
        """sockperf, and what it is to run through."""
        words = ("sockperf", *(("onload",) if self.onload else ()))
        return {word: brings(word) for word in words}

    @property
    def seconds(self) -> float:
        """About how long one run takes: it sleeps for 2 s first, and reads its log again."""
        return self.duration + 2.5

    @property
    def _most_seconds(self) -> float:
        return 30 + 3 * self.seconds

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Ask from the client a sockperf of our own on the server, which ends with the run."""
        with self.asking(hosts) as words:
            return _lasting.checked(hosts["client"], *words, seconds=self._most_seconds)

    @contextmanager
    def asking(self, hosts: Mapping[str, Host]) -> Iterator[tuple[str, ...]]:
        """The client's command, while the server listens on its test address only."""
        at = ("-i", hosts["server"].address)
        tool = (*(("onload", "--profile=latency") if self.onload else ()), "sockperf")
        options = (*(("--tcp",) if self.protocol == "tcp" else ()),
                   *(("--lls", str(self.busy_poll)) if self.busy_poll else ()))  # fmt: skip
        spins = ("--nonblocked",)

        def server(port: int) -> tuple[str, ...]:
            spin_options = spins if self.spin == "both" else ()
            return (*tool, "server", *at, "-p", str(port), *options, *spin_options)

        lasts = SPARE_SECONDS + self._most_seconds
        ends = hosts["server"], hosts["client"]
        with serving_on(*ends, server, lasts, self.protocol) as port:
            yield (
                "sh", "-c", LOGGED, "sh",
                *tool, "ping-pong", *at, "-p", str(port), *options, "--full-rtt",
                *(() if self.spin == "none" else spins),
                "-m", str(self.size), "-t", str(self.duration),
            )  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """One value per answered request, in the order they were sent, in microseconds."""
        summary, _, log = text.partition(f"\n{HEAD}\n")
        above = COLOUR.sub("", summary)
        for part, odd, before in ((above, NOT_ITS, 1), (log, NO_TRIP, above.count("\n") + 3)):
            if line := re.search(odd, part, LINES):
                number = before + part.count("\n", 0, line.start())
                raise ResultsError(f"sockperf: cannot read line {number}", said=line[0])
        runs, values = RUN.findall(above), np.array(TRIP.findall(log), float)
        if not runs:
            last = text.strip().rpartition("\n")[2] or "it printed nothing"
            raise ResultsError("sockperf: it did not finish", said=last)
        requests, answers = map(int, runs[-1])
        if not answers:
            raise ResultsError("sockperf: no request was answered")
        if len(values) != answers or answers > requests:
            raise ResultsError(f"sockperf: it logged {len(values)} answers of {answers}")
        return [Sample("round trip", "us", values, requests - answers)]
