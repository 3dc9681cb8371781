"""What a container costs a program: compressing, computing, memory, and reading a file."""

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
MEGABYTES = 6.0
"""The text that is compressed."""
FIGURES = {
    "events": ("1/s", r"events per second:\s+([\d.]+)"),
    "memory": ("MiB/s", r"\(([\d.]+) MiB/sec\)"),
    "cached_reads": ("1/s", r"iops\s*: min=.*?avg=\s*([\d.]+)"),
}


@dataclass(frozen=True)
class ContainerHalf(Workload):
    """`xz` on two threads, `sysbench` cpu and memory, and `fio` on a file that is in memory.

    All of it comes before other work of its group (nice -20).
    """

    roles: ClassVar[tuple[str, ...]] = ("server",)
    loop: ClassVar[str] = ""
    programs: ClassVar[tuple[str, ...]] = ("xz", "sysbench", "fio", "runc")
    measures: ClassVar[tuple[str, ...]] = ("compression", *FIGURES)

    where: str = "native"

    @property
    def tools(self) -> Mapping[str, str]:
        """Programs that few hosts have."""
        return {"xz": "xz-utils", "sysbench": "sysbench", "fio": "fio", "runc": "runc"}

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return 10.0

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Run all four, one after another."""
        return hosts["server"].check(
            "nice", "-n", "-20", "sh", "-c", SCRIPT, "half", self.where, seconds=300
        )

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """One figure of each program."""
        times = re.findall(r"^(?:begun|ended) ([\d.]+)$", text, re.MULTILINE)
        found = {name: re.search(line, text) for name, (_, line) in FIGURES.items()}
        if len(times) != 2 or not all(found.values()):
            raise ResultsError("a figure is missing in this text", said=text[-300:])
        seconds = float(times[1]) - float(times[0])
        rate = Sample("compression", "MB/s", np.array([MEGABYTES / seconds]))
        return [rate, *(Sample(name, FIGURES[name][0], np.array([float(line[1])]))
                        for name, line in found.items() if line)]  # fmt: skip
