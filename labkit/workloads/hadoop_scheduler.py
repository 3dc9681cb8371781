"""Hadoop's own scheduler, under a large cluster that is simulated: no task of it runs."""

import json
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import BadInput, ResultsError
from labkit.host import Host
from labkit.machine.own_place import LASTING
from labkit.machine.scripts import beside
from labkit.workload import Sample, Workload
from labkit.workloads import _hadoop
from labkit.workloads._own_place import own_folder
from labkit.workloads._sections import joined, parted
from labkit.workloads.terasort import TeraSort

PROGRAMS = ("java", "tar")

SCRIPT = beside(__file__, "_hadoop_simulate.sh")
MIB = 1024
"""Memory of a task, which counts only as a part of its node's."""
HEAD = "JobID,real_start_time,real_end_time,simulate_start_time,simulate_end_time"
TIMES = re.compile(r"^application_\w+,[0-9]+,[0-9]+,([0-9]{13}),([0-9]{13})$", re.MULTILINE)
YARN = "org.apache.hadoop.yarn."
QUEUE = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.capacity.per-node-heartbeat.maximum-offswitch-assignments": "100",
}
"""A task that asks for no host counts as a far one: by default, one of them for each heartbeat."""
ADDRESSES = ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")


@dataclass(frozen=True)
class HadoopScheduler(Workload):
    """The tasks of a job are given to simulated nodes by YARN's ResourceManager (Hadoop's SLS).

    A node runs `slots` tasks at once, and each lasts `map_ms` or `reduce_ms`. So what the job takes
    beyond the `least time` is what the scheduler and its heartbeats cost.
    """

    roles: ClassVar[tuple[str, ...]] = ("client",)
    loop: ClassVar[str] = ""
    measures: ClassVar[tuple[str, ...]] = ("elapsed time", "least time", "over the least")
    programs: ClassVar[tuple[str, ...]] = ("java",)
    here: ClassVar[tuple[str, ...]] = TeraSort.here
    brings: ClassVar[str] = TeraSort.brings
    longest: ClassVar[float] = 0.0
    """None: it is made again."""

    nodes: int = 32
    slots: int = 20
    maps: int = 1200
    reduces: int = 600
    map_ms: int = 5000
    reduce_ms: int = 5000

    def __post_init__(self) -> None:
        limits = dict.fromkeys(("maps", "reduces", "map_ms", "reduce_ms"), (1, 10**6))
        self.insist_within(nodes=(1, 10_000), slots=(1, 1000), **limits)
        if self.nodes * self.slots < 2:
            raise BadInput("hadoop_scheduler: the job's own master takes one slot of all nodes")

    @property
    def least(self) -> float:
        """Seconds of the job on slots that never wait; one of them has the job's master."""
        slots = self.nodes * self.slots - 1
        waves = (math.ceil(self.maps / slots) * self.map_ms,
                 math.ceil(self.reduces / slots) * self.reduce_ms)  # fmt: skip
        return sum(waves) / 1000

    @property
    def seconds(self) -> float:
        """Tasks last in the simulator as long as in earnest."""
        return 15 + 1.2 * self.least

    def there(self, host: Host) -> bool:
        """Whether the host has this very Hadoop, and this machine the simulator."""
        return _hadoop.installed(host) and _hadoop.kept(_hadoop.SIMULATOR).exists()

    def install(self, host: Host) -> None:
        """Fetch both once, and bring Hadoop there."""
        _hadoop.simulator()
        if not _hadoop.installed(host):
            _hadoop.install(host)

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Hadoop."""
        return _hadoop.lacking(hosts["client"])

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Simulate it on the client."""
        host = hosts["client"]
        folder = f"{own_folder(host, LASTING)}/simulated-{secrets.token_hex(4)}"
        make = ("sh", "-c", 'mkdir -m 700 "$1" && tar -x -f - -C "$1"', "make", folder)
        archive = _hadoop.packed({
            "conf/sls-runner.xml": _hadoop.configuration(self._settings()),
            "conf/capacity-scheduler.xml": _hadoop.configuration(QUEUE),
            "conf/log4j.properties": _hadoop.LOG.replace("${labkit.level}", "ERROR"),
            "nodes.json": json.dumps(
                {"rack": "rack", "nodes": [{"node": address} for address in self._addresses()]}
            ),
            "jobs.json": json.dumps(self._jobs()),
        })  # fmt: skip
        try:
            host.check(*make, stdin=_hadoop.simulator())
            times = host.check("sh", "-c", SCRIPT, "simulate", folder, _hadoop.HOME,
                               stdin=archive, seconds=60 + 4 * self.seconds)  # fmt: skip
        finally:
            host.run("rm", "-rf", folder)
        knobs = "\n".join(f"{name} {value}" for name, value in vars(self).items())
        return joined({"asked": f"{knobs}\nleast {self.least:.3f}", "times": times})

    # Names would have to be known to the host; nothing is sent there.
    def _addresses(self) -> list[str]:
        return [f"127.1.{n // 250}.{n % 250 + 1}" for n in range(self.nodes)]

    def _settings(self) -> dict[str, str]:
        return {
            "yarn.resourcemanager.scheduler.class": f"{YARN}server.resourcemanager.scheduler"
            ".capacity.CapacityScheduler",
            **{f"yarn.resourcemanager{name}.address": "127.0.0.1:0" for name in ADDRESSES},
            "yarn.sls.am.type.mapreduce": f"{YARN}sls.appmaster.MRAMSimulator",
            "yarn.sls.nm.memory.mb": str(self.slots * MIB),
            "yarn.sls.nm.vcores": str(self.slots),
            "yarn.sls.container.memory.mb": str(MIB),
            "yarn.sls.metrics.switch": "OFF",
        }

    def _jobs(self) -> dict[str, object]:
        def tasks(kind: str, priority: int, count: int, ms: int) -> dict[str, object]:
            sizes = {"count": count, "time": ms, "max_memory": MIB, "max_vcores": 1}
            return {"type": kind, "priority": priority,
                    **{name: {"val": value} for name, value in sizes.items()}}  # fmt: skip

        job = {
            "class_name": "sort", "class_weight": 1.0, "type": "mapreduce",
            "deadline_factor": {"val": 10}, "duration": {"val": 1000 * self.least},
            "reservation": {"val": 0.0},
            "tasks": [tasks("map", 20, self.maps, self.map_ms),
                      tasks("reduce", 10, self.reduces, self.reduce_ms)],
        }  # fmt: skip
        load = {
            "workload_name": "sort", "workload_weight": 1.0, "queue_name": "default",
            "job_classes": [job], "time_distribution": [{"time": 1, "weight": 100}],
        }  # fmt: skip
        return {"description": "", "num_nodes": self.nodes, "nodes_per_rack": self.nodes,
                "num_jobs": 1, "rand_seed": 1, "workloads": [load]}  # fmt: skip

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Time of the job by the simulator's clock, and the least possible."""
        parts = parted(text, "asked", "times")
        bound = re.search(r"^least ([0-9]{1,9}\.[0-9]{3})$", parts["asked"], re.MULTILINE)
        times = TIMES.findall(parts["times"])
        if not bound or not float(bound[1]) or HEAD not in parts["times"] or len(times) != 1:
            raise ResultsError("hadoop_scheduler: no time of one job", said=parts["times"][-200:])
        took = (int(times[0][1]) - int(times[0][0])) / 1000
        if took <= 0:
            raise ResultsError("hadoop_scheduler: the job took no time", said=parts["times"])
        figures = {"elapsed time": (took, "s"), "least time": (float(bound[1]), "s"),
                   "over the least": (took / float(bound[1]), "1")}  # fmt: skip
        return [Sample.single(name, unit, value) for name, (value, unit) in figures.items()]
