"""The machine as a box may use it: CPUs by NUMA node and core, and free memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from labkit.machine.cpus import cpus_of

Core = tuple[int, ...]
"""The CPUs that are threads of one core."""


@dataclass(frozen=True)
class Machine:
    """Cores of each NUMA node, those of a node side by side; `free` memory in MiB."""

    nodes: tuple[tuple[Core, ...], ...]
    free: int

    @classmethod
    def read(cls, root: Path = Path("/")) -> Machine:
        """The CPUs that this process may use, as /proc and /sys below `root` say."""
        status = _fields(root / "proc/self/status")
        online = root / "sys/devices/system/cpu/online"
        may = {*cpus_of(status["Cpus_allowed_list"].strip())}
        may &= {*cpus_of(online.read_text().strip())} if online.exists() else may
        nodes = [
            {*cpus_of(text)} & may
            for file in sorted((root / "sys/devices/system/node").glob("node[0-9]*/cpulist"))
            if (text := file.read_text().strip())
        ]
        others = may - set(chain(*nodes))
        cores = (_cores(root, node) for node in (*nodes, others) if node)
        free = _fields(root / "proc/meminfo").get("MemAvailable", "0").split()[0]
        return cls(tuple(sorted(cores)), int(free) >> 10)

    @classmethod
    def of(cls, cpus: int, nodes: int = 1, threads: int = 1, gib: int = 0) -> Machine:
        """A machine with a number of CPUs; as on Linux, second threads of cores come last."""
        count = cpus // threads
        cores = [tuple(range(first, cpus, count)) for first in range(count)]
        share = count // nodes
        parts = (tuple(cores[n * share : (n + 1) * share]) for n in range(nodes))
        return cls(tuple(parts), (gib or 4 * cpus) << 10)

    @property
    def cpus(self) -> tuple[int, ...]:
        """All CPUs in order of node and core: halves of them share neither, where there are two."""
        return tuple(chain(*self.by_node))

    @property
    def by_node(self) -> tuple[tuple[int, ...], ...]:
        """The CPUs of each node."""
        return tuple(tuple(chain(*cores)) for cores in self.nodes)


def _fields(file: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in file.read_text().splitlines())
    return {name: value for name, _, value in lines}


def _cores(root: Path, cpus: set[int]) -> tuple[Core, ...]:
    cores: dict[int, list[int]] = defaultdict(list)
    for cpu in sorted(cpus):
        file = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        threads = cpus_of(file.read_text().strip()) if file.exists() else (cpu,)
        cores[min(threads)].append(cpu)
    return tuple(tuple(core) for core in cores.values())
