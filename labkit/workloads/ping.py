"""Ping: the kernel of one host asks, the kernel of the other answers."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.workload import Sample, Workload, knob
from labkit.workloads import _lasting

PROGRAMS = ("ping",)

# Everything that ping may say. A line of another form is refused, for a number may hide in it.
REPLY = (
    r"\d+ bytes from [^ \n]+: icmp_seq=(?P<number>\d{1,5}) ttl=\d+"
    r" time=(?P<ms>\d{1,9}(?:\.\d{1,6})?) ms(?: \(DUP!\))?"
)
ANSWER = rf"(?:\[\d+\.\d+\] )?{REPLY}"
END = r"(?P<sent>\d{1,9}) packets transmitted, (?P<received>\d{1,9}) received,.*"
OTHERS = (
    r"PING .+ bytes of data\.|PING .+ data bytes"
    r"|(?:\[\d+\.\d+\] )?From [^ ]+ icmp_seq=\d+ .+"
    r"|Warning: time of day goes back .+"
    r"|--- .+ ping statistics ---"
    r"|rtt min/avg/max/mdev = .+|pipe \d+.*"
)
LINES = re.ASCII | re.MULTILINE
ODD = re.compile(rf"^(?!(?:{ANSWER}|{END}|{OTHERS})$).+", LINES)
ANSWERS, SUMMARY = re.compile(f"^{ANSWER}$", LINES), re.compile(f"^{END}$", LINES)
# When an answer was printed (-D), its number, and how long it had taken.
STAMP = re.compile(rf"^\[(?P<at>\d{{1,12}}\.\d{{1,9}})\] {REPLY}", LINES)
LAST = {STAMP: " bytes from ", SUMMARY: " packets transmitted, "}
"""Lines to find from the end, and words that no other line has."""
SMALLEST = 16  # bytes; what is shorter cannot carry the time it was sent, and gets no `time=`
LARGEST, MOST_COUNT = 65507, 999_999_999
WRAP = 1 << 16  # icmp_seq has 16 bits


@dataclass(frozen=True)
class Ping(Workload):
    """Defaults are the latency-sensitivity paper's: 256 bytes, one request a millisecond (p. 9)."""

    roles = ("client", "server")
    loop = "open"
    measures = ("round trip",)
    programs = ("ping",)
    beside = ("server",)
    needs = ("ping",)

    size: int = knob(256, SMALLEST, LARGEST)
    interval: float = knob(0.001, 1e-9, 60)
    count: int = knob(3000, 1, MOST_COUNT)

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return self.count * self.interval

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Ping the server from the client; every round trip is printed."""
        with self.asking(hosts) as words:
            return _lasting.checked(hosts["client"], *words, seconds=30 + 3 * self.seconds)

    @contextmanager
    def asking(self, hosts: Mapping[str, Host]) -> Iterator[tuple[str, ...]]:
        """The ping; the kernel of the server answers by itself."""
        yield (
            "ping", "-n", "-D",
            "-s", str(self.size), "-i", str(self.interval), "-c", str(self.count),
            hosts["server"].address,
        )  # fmt: skip

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Only root may ask more often than every 2 ms."""
        client, pace = hosts["client"], ("-c", "1", "-i", str(self.interval), "-W", "1")
        result = client.run("ping", "-n", "-D", "-q", *pace, "127.0.0.1")
        said = "" if result.ok else result.stderr.strip()
        if "usage" in said.lower():
            return f"the ping of {client.name} is not that of iputils, and has no -D"
        if "interval" in said or "not permitted" in said:
            often = f"every {1000 * self.interval:g} ms"
            return f"{client.name} is not root, and may not ping {often} ({said})"
        return ""

    def behind(self, text: str) -> float | None:
        """The time stamp of an answer less its round trip is when that was asked for.

        ping makes up for nothing: what it sends late, all behind it is later by as much.
        """
        first = STAMP.search(text)
        last, summary = (_last(pattern, text, at) for pattern, at in LAST.items())
        if not summary or not first or not last or first.start() == last.start():
            return None
        start, end = (float(match["at"]) - float(match["ms"]) / 1000 for match in (first, last))
        # The last number is that of one of the last requests.
        turns = round((int(summary["sent"]) - int(last["number"])) / WRAP)
        steps = int(last["number"]) + turns * WRAP - int(first["number"])
        return max(0.0, 1 - steps * self.interval / (end - start)) if end > start else 0.0

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """One value per answered request, in sending order, in microseconds."""
        summaries = [*SUMMARY.finditer(text)]
        if odd := ODD.search(text) or next(iter(summaries[1:]), None):
            number = text.count("\n", 0, odd.start()) + 1
            problem = f"ping: cannot read line {number} of what it printed"
            raise ResultsError(problem, said=odd[0])
        answers: dict[int, float] = {}
        newest = 0
        for number_on_wire, ms in ANSWERS.findall(text):
            # The number starts again from 0; answers come at most half a turn late.
            number = newest + (int(number_on_wire) - newest + WRAP // 2) % WRAP - WRAP // 2
            newest = max(newest, number)
            # The first answer counts; a second one is not always marked as such.
            answers.setdefault(number, 1000 * float(ms))
        loss = _count_losses(text, next(iter(summaries), None), len(answers))
        values = np.array([answers[number] for number in sorted(answers)])
        return [Sample("round trip", "us", values, loss)]


# From the end: to search a long text from its beginning takes as long as to read it all.
def _last(line: re.Pattern[str], text: str, words: str) -> re.Match[str] | None:
    return line.match(text, text.rfind("\n", 0, text.rfind(words)) + 1)


def _count_losses(text: str, summary: re.Match[str] | None, answers: int) -> int:
    if summary is None:
        last = text.strip().rpartition("\n")[2]
        raise ResultsError("ping: it did not finish", said=last or "it printed nothing")
    requests, replies = int(summary["sent"]), int(summary["received"])
    if answers != replies or replies > requests:
        raise ResultsError(f"ping: it printed {answers} answers", said=summary[0])
    if not replies:
        raise ResultsError("ping: no request was answered", said=summary[0])
    return requests - replies
