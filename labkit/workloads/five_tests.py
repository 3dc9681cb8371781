"""The five tests of the container post, one after the other, each reduced to one rate."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from labkit.errors import Unknown
from labkit.host import Host
from labkit.runs.capacity import Capacity
from labkit.workload import Sample, Workload, knob
from labkit.workloads._sections import joined, parted
from labkit.workloads.fio import Fio
from labkit.workloads.linpack import Linpack
from labkit.workloads.netperf import Netperf
from labkit.workloads.redis import Redis
from labkit.workloads.stream import Stream

RATES: Mapping[str, tuple[type[Workload], str]] = {
    "linpack": (Linpack, "performance"),
    "stream": (Stream, "bandwidth"),
    "fio": (Fio, "max iops"),
    "netperf": (Netperf, "netperf rate"),
    "redis": (Redis, "throughput"),
}
"""Each test, and the figure of its tool that stands for it: of all of them, more is better."""
METRIC = "performance"


@dataclass(frozen=True)
class FiveTests(Workload):
    """LINPACK, a STREAM-style test, fio, netperf TCP_RR and Redis, with short runs of each.

    Sizes left at 0 fit the machine, as in the study of each test.
    """

    roles = ("client", "server", "host")
    beside = ("host",)
    loop = "closed"
    measures = ("performance",)
    programs = tuple(
        dict.fromkeys(program for load, _ in RATES.values() for program in load.programs)
    )
    ours = tuple(dict.fromkeys(process for load, _ in RATES.values() for process in load.ours))

    percent: int = 0
    """Of the document's problem sizes of LINPACK."""
    millions: int = 0
    """Elements in each array of STREAM."""
    mebibytes: int = 0
    """The size of fio's file."""
    trials: int = 5
    """Of each operation of STREAM."""
    duration: int = knob(1, 1, 3600)
    """Seconds of each load of fio, of netperf and of Redis."""
    threads: int = 0
    """Of LINPACK and STREAM."""
    free: bool = False
    """Whether sockperf asks in place of netperf."""

    def __post_init__(self) -> None:
        _ = self.loads  # each refuses what it cannot have

    @property
    def loads(self) -> dict[str, Workload]:
        """The five, with the sizes asked for."""
        return {
            "linpack": Linpack(self.percent, self.threads),
            "stream": Stream(self.millions, self.trials, self.threads),
            "fio": Fio(self.mebibytes, self.duration),
            "netperf": Netperf(size=1, duration=self.duration, free=self.free),
            "redis": Redis(duration=self.duration),
        }

    @property
    def tools(self) -> Mapping[str, str]:
        """The tools of each test."""
        return {name: remedy for load in self.loads.values() for name, remedy in load.tools.items()}

    def freed(self) -> Self:
        """The same five by free tools."""
        return replace(self, free=True)

    @property
    def substitutes(self) -> str:
        """The tools in place of the document's, test by test."""
        return "; ".join(filter(None, (load.substitutes for load in self.loads.values())))

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return sum(load.seconds for load in self.loads.values())

    @property
    def longest(self) -> float:
        """Seconds of the longest test."""
        return max(load.seconds for load in self.loads.values())

    def fitted(self, places: Sequence[Capacity]) -> Self:
        """With sizes and threads that all of these places have room for."""
        loads = {name: load.fitted(places) for name, load in self.loads.items()}
        sizes: dict[str, Any] = {
            name: getattr(loads[test], name)
            for test, name in (("linpack", "percent"), ("stream", "millions"),
                               ("fio", "mebibytes"), ("linpack", "threads"))
        }  # fmt: skip
        return replace(self, **sizes)

    @property
    def scaled(self) -> str:
        """The sizes made smaller than the document's, test by test."""
        texts = {name: load.scaled for name, load in self.loads.items()}
        return "; ".join(f"{name}: {words}" for name, words in texts.items() if words)

    @property
    def memory(self) -> int:
        """KiB that the test with the most needs, as they run one after the other."""
        return max(load.memory for load in self.loads.values())

    @property
    def disk(self) -> int:
        """KiB of fio's file."""
        return max(load.disk for load in self.loads.values())

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Reason why one of the tests cannot run on these hosts."""
        reasons = {name: load.lacking(_of(load, hosts)) for name, load in self.loads.items()}
        return next((f"{name}: {reason}" for name, reason in reasons.items() if reason), "")

    def run(self, hosts: Mapping[str, Host]) -> str:
        """All five, in the document's order."""
        texts = {name: load.run(_of(load, hosts)) for name, load in self.loads.items()}
        # Indented, so that the sections of a test's own output are none of the whole.
        return joined({name: "".join(f" {line}\n" for line in text.split("\n"))
                       for name, text in texts.items()})  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """The rate of each test, and their geometric mean, in which all five weigh alike."""
        parts = parted(text, *RATES)
        rates = []
        for test, (load, metric) in RATES.items():
            found = {sample.metric: sample for sample in load.parse(_join_lines(parts[test]))}
            rates.append(replace(found[metric], metric=f"{METRIC} [test={test}]"))
        values = np.array([rate.values[0] for rate in rates])
        together = Sample(METRIC, "1", np.exp(np.log(values).mean(keepdims=True)))
        return [together, *rates]


def text_of(test: str, text: str) -> str:
    """The part of a run's text that one of the tests printed."""
    if test not in RATES:
        raise Unknown("test", test, RATES)
    return _join_lines(parted(text, *RATES)[test])


def _of(load: Workload, hosts: Mapping[str, Host]) -> dict[str, Host]:
    return {role: hosts[role] for role in load.roles}


# As the tool printed it: what `parted` takes from the ends of a section is put back.
def _join_lines(part: str) -> str:
    return re.sub(r"^ ", "", part, flags=re.MULTILINE) + "\n"
