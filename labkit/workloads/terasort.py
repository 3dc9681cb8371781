"""TeraGen, TeraSort and TeraValidate of Apache Hadoop, on a cluster that is started for them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.errors import BadInput, HostError, ResultsError
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.machine.cpus import cpus_of, ranges
from labkit.probes.ready_time import looks, spent
from labkit.runs.capacity import capacity
from labkit.workload import Sample, Workload, knob
from labkit.workloads import _hadoop
from labkit.workloads._sections import joined, parted

PROGRAMS = ("bash", "java", "tar", "taskset")

MOST_NODES = 640
"""32 hosts with twenty guests each."""
NODES = tuple(f"server{n}" if n else "server" for n in range(MOST_NODES))
SIDES = ("host", "client")
ROW_BYTES, DOCUMENT_BYTES = 100, 30 * 10**12
CLASSES = {"generate": "TeraGen", "sort": "TeraSort", "validate": "TeraValidate"}
SLOT = 192
"""MiB of a task: a heap of 120, and what Java needs beside it."""
DAEMONS_MIB = 420
"""Memory of a DataNode with a NodeManager, or of a NameNode with a ResourceManager."""
LEAST_MIB = DAEMONS_MIB + SLOT
TOOK = re.compile(r"^from (\d+\.\d+) to (\d+\.\d+) code (\d+)$", re.MULTILINE)
CHECKSUM = re.compile(r"^\s*CHECKSUM=(\d+)$", re.MULTILINE)
VALIDATION = re.compile(r"^checksum\s+([0-9a-f]+)$", re.MULTILINE)
LINES = re.compile(r"INFO Job: |^\t|^from |^checksum|^error|Exception|WARN|ERROR")
CPUS = r"cat /proc/sys/kernel/random/boot_id; sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status"
FULL = re.compile("No space|could only be (written|replicated) to", re.IGNORECASE)
MAPS = re.compile(r"map [1-9]\d*%")
COUNTERS = {
    ("bytes written", "B"): "HDFS: Number of bytes written",
    ("bytes read", "B"): "HDFS: Number of bytes read",
    ("cpu time", "s"): "CPU time spent (ms)",
    ("garbage collection", "s"): "GC time elapsed (ms)",
    ("map time", "s"): "Total time spent by all map tasks (ms)",
}  # fmt: skip
OF_SORT = {
    ("reduce time", "s"): "Total time spent by all reduce tasks (ms)",
    ("shuffled", "B"): "Reduce shuffle bytes",
    ("spilled records", "1"): "Spilled Records",
}  # fmt: skip


@dataclass(frozen=True)
class TeraSort(Workload):
    """Generate rows of 100 bytes, sort them by their keys, check order and sum of the result.

    Role `client` has NameNode and ResourceManager and starts the jobs, each node a DataNode and a
    NodeManager. The document sorts up to 30 TB on 32 hosts. `memory` is for tasks on each host, in
    MiB; nodes that share a host, `per_host`, get equal parts of it.
    """

    roles = ("client", "host", *NODES)
    beside = ("host",)
    loop = ""
    measures = ("elapsed time", *(name for name, _ in (*COUNTERS, *OF_SORT)), "bytes stored",
                "copies", "dataset over memory", "nodes", "cpu of the host",
                "cpu of the client")  # fmt: skip
    programs = ("java",)
    ours = ("java",)
    here = ("mvn",)
    brings = (
        f"Hadoop {_hadoop.VERSION} ({_hadoop.MIB} MB from Maven Central, "
        f"{_hadoop.MIB_INSTALLED} MB on each host)"
    )
    longest = 0.0
    """None: a run of three jobs is made again, as its cluster ends with the connection."""

    rows: int = knob(320_000, 1000, 10**12)
    nodes: int = knob(1, 1, MOST_NODES)
    per_host: int = knob(1, 1, MOST_NODES)
    replication: int = knob(2, 1, 10)
    """Copies of the generated rows. TeraSort keeps one of its own."""
    block: int = knob(16, 1, 1024)
    """MiB of a block of HDFS."""
    maps: int = knob(2, 1, 10**6)
    """Tasks that generate rows. Each block is sorted by one."""
    reduces: int = knob(2, 1, 10**6)
    memory: int = knob(8 * SLOT, SLOT, 1 << 24)
    cores: int = knob(0, 0, 4096)
    """CPUs of each host that its nodes may use; 0 for all."""
    disks: str = ""
    """Folders on the disks of each node, with commas; empty: where labkit has its own."""
    lose: bool = False
    """Whether the DataNode of the last node ends in mid-sort."""

    def __post_init__(self) -> None:
        if self.lose and min(self.nodes, self.replication) < 2:
            raise BadInput("terasort: without a second copy on a second node, lost data are gone")

    @property
    def seconds(self) -> float:
        """About how long one run takes: most of it, for few rows, Java starts."""
        hosts = self.nodes / self.per_host
        return 40 + 6 * self.per_host + self.rows * ROW_BYTES / (8e6 * hosts)

    @property
    def memory_of_node(self) -> int:
        """MiB for the tasks of one node: its part of its host's, and one task at the least."""
        return max(SLOT, self.memory // self.per_host)

    @property
    def disk(self) -> int:
        """KiB of each server: copies, what is sorted, and what maps and reduces lay aside."""
        return (self.copies + 3) * self.rows * ROW_BYTES // self.nodes >> 10

    @property
    def copies(self) -> int:
        """Copies of each generated block: not more than there are nodes."""
        return min(self.replication, self.nodes)

    @property
    def scaled(self) -> str:
        """The rows, out of the document's bytes."""
        return (f"{self.rows:,} rows, {self.rows * ROW_BYTES / 1e6:,.0f} MB of the document's"
                f" {DOCUMENT_BYTES / 1e12:.0f} TB")  # fmt: skip

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Hadoop, a JVM, memory or CPUs."""
        for host in {host.name: host for host in self._all_hosts(hosts)}.values():
            if reason := _hadoop.lacking(host):
                return reason
            room = capacity(host)
            if room.free >> 10 < LEAST_MIB:
                return (f"{host.name} has {room.free >> 10} MiB of memory free, and Java takes "
                        f"{LEAST_MIB}")  # fmt: skip
            if self.cores > room.cpus * self.per_host and host is not hosts["client"]:
                return f"{host.name} has {room.cpus} CPUs, and its host is to use {self.cores}"
        return ""

    def there(self, host: Host) -> bool:
        """Whether the host has this very Hadoop."""
        return _hadoop.installed(host)

    def install(self, host: Host) -> None:
        """Fetch Hadoop once, and bring it there."""
        _hadoop.install(host)

    # Nodes on one kernel get different CPUs of it.
    def _cpus(self, nodes: Mapping[str, Host]) -> dict[str, str]:
        looks = Fleet(nodes).each(lambda host: host.check("sh", "-c", CPUS).split()).check()
        cpus_of_node: dict[str, str] = {}
        for kernel in {boot: None for boot, _ in looks.values()}:
            names = [name for name in nodes if looks[name][0] == kernel]
            cpus = sorted(cpus_of(looks[names[0]][1]))
            used = cpus[: -(-self.cores * len(names) // self.per_host)] if self.cores else cpus
            for at, name in enumerate(names):
                first, last = (n * len(used) // len(names) for n in (at, at + 1))
                cpus_of_node[name] = ranges(used[first : max(first + 1, last)])
        return cpus_of_node

    def _all_hosts(self, hosts: Mapping[str, Host]) -> list[Host]:
        return [hosts["client"], *(hosts[role] for role in NODES[: self.nodes])]

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Start a cluster, run the three jobs, wipe it; what each job printed, in brief."""
        nodes = {host.name: host for host in self._all_hosts(hosts)[1:]}
        if len(nodes) < self.nodes:
            raise HostError(f"terasort: of {self.nodes} nodes, the lab has {len(nodes)}")
        values = {
            "replication": self.copies, "block": self.block << 20, "slot": SLOT,
            "memory": self.memory_of_node, "maps": self.maps, "reduces": self.reduces,
        }  # fmt: skip
        memory = sum(Fleet(nodes).each(lambda host: capacity(host).memory).check().values())
        disks = tuple(filter(None, self.disks.split(",")))
        cpus = self._cpus(nodes)
        with _hadoop.cluster(hosts["client"], nodes, values, cpus, disks) as cluster:
            parts = {
                "asked": f"rows {self.rows}\nnodes {len(nodes)}\nmemory {memory}\n"
                f"copies {self.copies}\nhadoop {_hadoop.mark()}\ncpus {' '.join(cpus.values())}",
                "settings": "\n".join(f"{k} = {v}" for k, v in cluster.settings.items()),
                "generate": self._job(cluster, "generate", str(self.rows), "/rows"),
                "stored": str(cluster.stored()),
            }
            parts |= looks(hosts, SIDES, "before")
            parts["sort"] = self._sort(cluster, [*nodes])
            parts |= looks(hosts, SIDES, "after")
            parts["validate"] = self._job(cluster, "validate", "/sorted", "/checked")
            parts["result"] = cluster.job("fs.FsShell", "-cat", "/checked/part-r-*")
        for name in CLASSES:
            parts[name] = "\n".join(filter(LINES.search, parts[name].splitlines()))
        return joined(parts)

    @staticmethod
    def _job(cluster: _hadoop.HadoopCluster, name: str, *words: str) -> str:
        text = cluster.job(f"examples.terasort.{CLASSES[name]}", *words)
        return _check_success(name, text)

    # A DataNode is lost as soon as the first rows are mapped.
    def _sort(self, cluster: _hadoop.HadoopCluster, nodes: Sequence[str]) -> str:
        if not self.lose:
            return self._job(cluster, "sort", "/rows", "/sorted")
        words = cluster.words(f"examples.terasort.{CLASSES['sort']}", "/rows", "/sorted")
        warning = ""
        with cluster.master.stream(*words, seconds=_hadoop.JOB_SECONDS) as lines:
            for line in lines:
                if not warning and MAPS.search(line.text):
                    cluster.lose(nodes[-1])
                    warning = f"WARN the DataNode of {nodes[-1]} was ended after: {line.text}\n"
            text = lines.done.stdout
        return _check_success("sort", warning + text)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Times and counters of each job; a run whose result is not what was generated is none."""
        parts = parted(text, "asked", "stored", "result", *CLASSES)
        _check_sum(parts)
        order = {name: _number(name, parts["asked"]) for name in ("rows", "nodes", "memory")}
        size = order["rows"] * ROW_BYTES
        seconds = {name: _took(name, parts[name]) for name in CLASSES}
        figures = {("elapsed time", "s"): seconds["sort"], ("nodes", "1"): order["nodes"]}
        for name in CLASSES:
            figures[f"elapsed time [job={name}]", "s"] = seconds[name]
            for (metric, unit), counter in COUNTERS.items():
                figures[f"{metric} [job={name}]", unit] = _count(parts[name], counter, unit)
        figures |= {key: _count(parts["sort"], name, key[1]) for key, name in OF_SORT.items()}
        size_stored = _number("bytes", f"bytes {parts['stored']}")
        figures |= {("bytes stored", "B"): size_stored, ("copies", "1"): size_stored / size}
        figures["dataset over memory [job=sort]", "1"] = size / (order["memory"] << 10)
        for side in SIDES:
            if busy := spent(parts.get(f"{side} before", ""), parts.get(f"{side} after", "")):
                figures[f"cpu of the {side}", "share"] = busy["CPU share"]
        return [Sample.single(*key, value) for key, value in figures.items()]


def _find(pattern: str, text: str, problem: str) -> re.Match[str]:
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise ResultsError(f"terasort: {problem}", said=text[-200:])
    return match


def _number(name: str, text: str) -> int:
    pattern = rf"^{name} ([1-9][0-9]{{0,17}})$"
    return int(_find(pattern, text, f"the run does not say how many {name}")[1])


def _check_success(name: str, text: str) -> str:
    took = TOOK.search(text)
    if not took or took[3] != "0":
        lines = [line.strip() for line in text.splitlines() if re.search("Exception|Error:", line)]
        full = any(FULL.search(line) for line in lines)
        raise HostError(
            f"terasort: the job to {name} failed", said="\n".join(lines[-3:]) or text[-300:],
            hint="a disk is full: fewer rows, or fewer copies" if full
            else "is there memory for Java? `dmesg | tail` on the hosts tells what was killed",
        )  # fmt: skip
    return text


def _took(name: str, text: str) -> float:
    took = TOOK.search(text)
    if not took or took[3] != "0" or float(took[2]) <= float(took[1]):
        raise ResultsError(f"terasort: the job to {name} did not finish", said=text[-200:])
    return float(took[2]) - float(took[1])


def _count(text: str, name: str, unit: str) -> float:
    match = _find(rf"^\s*{re.escape(name)}=([0-9]+)$", text, f"a job did not count: {name}")
    return int(match[1]) / (1000 if unit == "s" else 1)


# What is checked is Hadoop's own sum of all rows, before and after, and that they are in order.
def _check_sum(parts: Mapping[str, str]) -> None:
    generated, result = CHECKSUM.search(parts["generate"]), VALIDATION.search(parts["result"])
    if "error" in parts["result"] or not generated or not result:
        raise ResultsError("terasort: the result is not sorted", said=parts["result"][:200])
    if int(generated[1]) != int(result[1], 16):
        raise ResultsError(
            "terasort: the sorted rows are not those that were generated",
            said=f"checksum {int(generated[1]):x} before, {result[1]} after",
        )
