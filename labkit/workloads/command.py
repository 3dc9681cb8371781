"""Any command: how long it takes, or the numbers that a pattern finds in what it prints."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from labkit.errors import BadInput, CommandFailed, ResultsError
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.statistics.pooled import check_range
from labkit.workload import Sample, Workload, knob

PROGRAMS = ("bash",)

SCRIPT = beside(__file__, "command_timed.sh")
TOOK = re.compile(r"^=== labkit: took (\d{1,15}) us$\n?", re.MULTILINE)
HEAD = re.compile(r"\A=== labkit: metric (.*)\n=== labkit: unit (.*)\n=== labkit: pattern (.*)\n")
TIME, SECONDS = "time taken", "s"
MOST_TIMES = 10_000


@dataclass(frozen=True)
class Command(Workload):
    """`words` run `times` times on one host, one after another; each time is a value.

    With a `pattern`, the values are the numbers that it finds in the output: its first group, or
    all of it. `prepare` is a line of shell before each time, which is not measured.
    """

    roles = ("server",)
    loop = ""
    longest = 0.0
    """Nothing is found again after a break: a command may do something else the second time."""

    words: tuple[str, ...] = ("true",)
    times: int = knob(1, 1, MOST_TIMES)
    pattern: str = ""
    metric: str = TIME
    unit: str = SECONDS
    prepare: str = ""
    about: float = 1.0
    """About how many seconds all times take together."""
    longest_seconds: float = 3600.0
    """The limit: a command that takes longer has failed."""

    def __post_init__(self) -> None:
        words = self.words if isinstance(self.words, tuple) else ()
        if not words or not all(isinstance(word, str) for word in words):
            raise BadInput(f"command: words must be a list of words, not {self.words!r}")
        if "\n" in f"{self.metric}{self.unit}{self.pattern}":
            raise BadInput("command: metric, unit and pattern are one line each")
        _compile(self.pattern)

    @property
    def seconds(self) -> float:
        """The time that it took when it was tried."""
        return self.about

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Run it on the server."""
        host, quiet = hosts["server"], "" if self.pattern else "quiet"
        line = ("labkit", str(self.times), self.prepare, quiet, *self.words)
        result = host.run("bash", "-c", SCRIPT, *line, seconds=self.longest_seconds)
        if not result.ok:
            problem = f"{host.name}: `{' '.join(self.words)}` ended with code {result.code}"
            is_missing = result.code == 127 and self.words[0] != "sh"
            hint = f"is `{self.words[0]}` installed on {host.name}?" if is_missing else ""
            raise CommandFailed(problem, said=result.stderr or result.stdout, hint=hint)
        head = {"metric": self.metric, "unit": self.unit, "pattern": self.pattern}
        return (
            "".join(f"=== labkit: {name} {value}\n" for name, value in head.items()) + result.stdout
        )

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """The time of each run; before it what the pattern finds, if there is one."""
        head = HEAD.match(text)
        times = [int(took) / 1e6 for took in TOOK.findall(text)]
        if head is None or not times:
            raise ResultsError("no time of a command is in this text", said=text[-200:])
        took = Sample(TIME, SECONDS, np.array(times))
        metric, unit, pattern = head.groups()
        if not pattern:
            return [took]
        matches = list(_compile(pattern).finditer(TOOK.sub("", text[head.end() :])))
        if not matches:
            tail = text[head.end() :][-400:]
            raise ResultsError(f"the pattern `{pattern}` finds nothing in the output", said=tail)
        numbers = [_number(match[1] if match.re.groups else match[0], pattern) for match in matches]
        check_range(np.array(numbers), f"found by `{pattern}`")
        return [Sample(metric, unit, np.array(numbers)), took]


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.MULTILINE)
    except re.error as error:
        problem = f"the pattern `{pattern}` is no regular expression: {error}"
        raise BadInput(problem, hint=r'such as: "requests/s: ([\d.]+)"') from None


def _number(text: str | None, pattern: str) -> float:
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        problem = f"the pattern `{pattern}` finds {text!r}, which is not a number"
        raise ResultsError(problem, hint=r"its first group is the number: ([\d.]+)")
    return value
