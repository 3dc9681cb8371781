"""A program that writes all over its memory, so that a guest is hard to move."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.workload import Beside, Sample, Series, Workload, knob
from labkit.workloads._own_place import own_folder

PROGRAMS = ("perl",)

PROGRAM = Path(__file__).with_suffix(".pl")
PAGE = 4096
PAGES = re.compile(r"pages (\d+)", re.ASCII)
COUNT = re.compile(r"(\d+\.\d+) (\d+\.\d+) (\d+)", re.ASCII)
"""The line's time by the controller's clock; seconds by the guest's; pages written by then."""
LONGEST = 7_200.0
ALLOCATING_SECONDS, EACH_GIB = 60.0, 2.0
"""Seconds until its memory is there, and more for each GiB."""


@dataclass(frozen=True)
class DirtyMemory(Workload):
    """Writes a byte into random pages of `mebibytes`, `rate` of them a second.

    With a rate of 0 it does as the document's program in 300 GB of a guest of 500 GB: a random byte
    of each page in turn, without a pause. No link keeps up with that.
    """

    roles = ("server",)
    loop = "closed"
    measures = ("writes", "written")
    programs = ("perl",)
    needs = ("perl",)
    ours = ("perl",)
    name = "dirty_memory"
    longest = 0.0
    """None: each of its lines gets the time at which it comes."""

    mebibytes: int = knob(150, 1, 1 << 20)
    rate: int = knob(4000, 0, 10**9)
    duration: float = knob(5.0, 0.5, LONGEST)

    @property
    def seconds(self) -> float:
        """About how long one run takes, the time to fill its memory left out."""
        return self.duration

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """The guest needs so much memory."""
        server = hosts["server"]
        free = server.run("sh", "-c", "grep MemAvailable: /proc/meminfo").stdout.split()
        there, need = int(free[1]) // 1024 if len(free) > 1 else 0, self.mebibytes
        if there and there < need:
            return f"{server.name} has {there} MiB of memory to give, and {need} are asked for"
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Write for `duration` seconds."""
        return self._lines(hosts["server"], None)

    def during(self, hosts: Mapping[str, Host], beside: Beside) -> str:
        """Write until what happens beside it has ended."""
        return self._lines(hosts["server"], beside)

    def _lines(self, host: Host, beside: Beside | None) -> str:
        at = f"{own_folder(host)}/dirty-{host.name}.pl"
        host.put(PROGRAM.read_bytes(), at)
        words = ("perl", at, str(self.mebibytes), str(self.rate))
        output: list[str] = []
        began = 0.0
        limit = LONGEST + ALLOCATING_SECONDS + EACH_GIB * self.mebibytes / 1024
        with host.stream(*words, seconds=limit) as lines:
            for line in lines:
                moment = time.time()
                stamp = "" if line.text.startswith("pages") else f"{moment:.3f} "
                output.append(f"{stamp}{line.text}")
                began = began or moment
                if beside:
                    beside.begun()
                if not (beside.going if beside else moment - began < self.duration):
                    break
        return "".join(f"{line}\n" for line in output)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Pages written a second, in each stretch between two lines."""
        rates = DirtyMemory.over_time(text)["writes"][1]
        return [
            Sample("writes", "pages/s", rates),
            Sample("written", "MiB/s", rates * PAGE / 2**20),
        ]

    @staticmethod
    def over_time(text: str) -> Mapping[str, Series]:
        """Pages written a second over time, as it was seen from outside."""
        head, *lines = text.splitlines() or [""]
        counts = [COUNT.fullmatch(line) for line in lines]
        if not PAGES.fullmatch(head) or len(counts) < 3 or not all(counts):
            raise ResultsError("dirty memory: it did not finish", said=text[-200:])
        counts_seen = [(float(count[1]), int(count[3])) for count in counts if count]
        at, pages = np.array([t for t, _ in counts_seen]), np.array([n for _, n in counts_seen])
        bins = np.arange(at[0], at[-1], 0.25)
        if bins.size < 2:
            raise ResultsError("dirty memory: it ran for less than half a second")
        rates = np.diff(np.interp(bins, at, pages)) / np.diff(bins)
        return {"writes": (bins[1:], rates)}
