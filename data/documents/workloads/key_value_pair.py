"""A key-value store in a container on one host, asked from a container on another."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from labkit import Sample, Workload
from labkit.errors import ResultsError
from labkit.host import Host

SCRIPT = Path(__file__).with_suffix(".sh").read_text("utf-8")
TICKS = 100
"""Of /proc/stat, in a second."""
LINES = (r"^asked (\d+)$", r"^busy (\d+)$", r'^many "GET","([\d.]+)"', r'^one "GET","([\d.]+)"')


@dataclass(frozen=True)
class KeyValuePair(Workload):
    """Five times: `requests` for one key by `clients` at once, and a third of them by one alone.

    All of it comes ahead of other work on the host, by real-time priority.
    """

    roles: ClassVar[tuple[str, ...]] = ("server",)
    loop: ClassVar[str] = "closed"
    programs: ClassVar[tuple[str, ...]] = ("redis-server", "redis-benchmark")
    measures: ClassVar[tuple[str, ...]] = ("throughput", "latency", "cpu_time")

    network: str = "host"
    requests: int = 20_000
    clients: int = 50

    @property
    def tools(self) -> Mapping[str, str]:
        """Programs that few hosts have."""
        return {"redis-server": "redis-server", "redis-benchmark": "redis-tools", "nft": "nftables"}

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return self.requests / 2_000

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Make both hosts and both containers of namespaces, ask, and let all of it go."""
        first = ("chrt", "-r", "1")
        alone = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
        asked = (self.network, str(self.requests), str(self.clients))
        return hosts["server"].check(
            *first, *alone, "sh", "-c", SCRIPT, "pair", *asked, seconds=300
        )

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Requests a second, the mean time of one alone, and CPU time of all for a request."""
        asked, ticks, many, one = (
            np.array(re.findall(line, text, re.MULTILINE), dtype=float) for line in LINES
        )
        if not (len(asked) == len(many) == len(one) == len(ticks) / 2) or not len(asked):
            raise ResultsError("no figures of redis-benchmark are in this text", said=text[-300:])
        cpu = (ticks[1::2] - ticks[::2]) / TICKS
        return [
            Sample("throughput", "1/s", many), Sample("latency", "us", 1e6 / one),
            Sample("cpu time", "us", 1e6 * cpu / asked),
        ]  # fmt: skip
