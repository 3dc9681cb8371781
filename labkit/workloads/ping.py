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
ANSWER = re.compile(rf"(?:\[\d+\.\d+\] )?{REPLY}", re.ASCII)
# Nearly all of a long run is such lines: they are read at once.
ANSWERS = re.compile(
    r"(?:(?:\[\d+\.\d+\] )?\d+ bytes from [^ \n]+: icmp_seq=\d{1,5} ttl=\d+"
    r" time=\d{1,9}(?:\.\d{1,6})? ms\n)*+",
    re.ASCII,
)
FIGURES = re.compile(r" icmp_seq=(\d+) ttl=\d+ time=([\d.]+) ms\n", re.ASCII)
# When an answer was printed (-D), its number, and how long it had taken.
STAMP = re.compile(rf"^\[(?P<at>\d{{1,12}}\.\d{{1,9}})\] {REPLY}", re.ASCII | re.MULTILINE)
SUMMARY = re.compile(
    r"(?P<sent>\d{1,9}) packets transmitted, (?P<received>\d{1,9}) received,.*", re.ASCII
)
LAST = {STAMP: " bytes from ", SUMMARY: " packets transmitted, "}
"""Lines to find from the end, and words that no other line has."""
OTHERS = re.compile(
    r"|PING .+ bytes of data\.|PING .+ data bytes"
    r"|(?:\[\d+\.\d+\] )?From [^ ]+ icmp_seq=\d+ .+"
    r"|Warning: time of day goes back .+"
    r"|--- .+ ping statistics ---"
    r"|rtt min/avg/max/mdev = .+|pipe \d+.*",
    re.ASCII,
)
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
        first, _, tail = text.partition("\n")
        answers, length = _in_order(tail) if first.startswith("PING ") else ({}, 0)
        summary, newest, offset = None, max(answers, default=0), len(answers)
        for at, line in enumerate([first, *tail[length:].split("\n")], 1):
            if answer := ANSWER.fullmatch(line):
                number = _unwrap(int(answer["number"]), newest)
                newest = max(newest, number)
                # The first answer counts; a second one is not always marked as such.
                answers.setdefault(number, 1000 * float(answer["ms"]))
            elif not summary and SUMMARY.fullmatch(line):
                summary = SUMMARY.fullmatch(line)
            elif not OTHERS.fullmatch(line):
                number = at + offset * (at > 1)
                raise ResultsError(f"ping: cannot read line {number} of what it printed", said=line)
        loss = _count_losses(text, summary, len(answers))
        values = np.array([answers[number] for number in sorted(answers)])
        return [Sample("round trip", "us", values, loss)]


# From the end: to search a long text from its beginning takes as long as to read it all.
def _last(line: re.Pattern[str], text: str, words: str) -> re.Match[str] | None:
    return line.match(text, text.rfind("\n", 0, text.rfind(words)) + 1)


# What was answered before anything else was said, and how much of the text that is; nothing where
# the answers did not come in their order.
def _in_order(text: str) -> tuple[dict[int, float], int]:
    match = ANSWERS.match(text)
    figures = FIGURES.findall(match[0]) if match else []
    numbers = [int(number) for number, _ in figures]
    steps = np.diff(np.array([0, *numbers]))
    if not match or (steps <= 0).any() or (steps >= WRAP // 2).any():
        return {}, 0
    answers = {n: 1000 * float(ms) for n, (_, ms) in zip(numbers, figures, strict=True)}
    return answers, match.end()


# The number on the wire starts again from 0; answers come at most half a turn late.
def _unwrap(number: int, newest: int) -> int:
    half = WRAP // 2
    return newest + (number - newest + half) % WRAP - half


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
