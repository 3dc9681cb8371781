"""A columnar database on several nodes: partial answers travel by shared storage or the network."""

import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labkit.errors import HostError, ResultsError
from labkit.host import Host
from labkit.machine.scripts import by_nginx
from labkit.machine.stopping import together
from labkit.setting import Words
from labkit.workload import Sample, Workload, choice, knob
from labkit.workloads import _query_node as node
from labkit.workloads import _query_tables as tables
from labkit.workloads._own_place import own_file, own_folder
from labkit.workloads._sections import read_number, read_object
from labkit.workloads._server import serving

PROGRAMS = ("nginx", "python3")

NODES = ("leader", "worker", "worker2", "worker3")
EXCHANGE_PORT = 9480
"""The leader's port for partial answers: a limit on the network between nodes is set by it."""
WAYS = ("storage", "network")
FILES = by_nginx(__file__, "_query_files.sh")
PROGRAM = Path(node.__file__)
LIBRARIES = f"PYTHONPATH={Path(np.__file__).parents[1]}"
PYTHONS = (("python3",), (sys.executable,), ("env", LIBRARIES, "python3"))
"""The host's own; else, where it has the same files as this machine, that of labkit."""
# To look for a module takes a tenth of the time that importing it takes.
LOOK = f"import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, {tables.MODULES})))"
QUERY_SECONDS, START_SECONDS = 2.0, 8.0
MEMORY_KIB = 1 << 20
MOST_STREAMS = 16


@dataclass(frozen=True)
class DistributedQuery(Workload):
    """Streams of analytic queries on TPC-H-derived tables, each computed by four nodes.

    The post names no query, no scale and no number of streams: these are labkit's own. `factor` is
    the scale of the tables, `cache` the share of them that a node's read cache holds; `warm` fills
    it before. A pass that is not measured goes first in either case, so that the engine is warm.
    """

    roles = (*NODES, "store")
    loop = "closed"
    measures = ("throughput", "elapsed", "response time", "hit rate", "read from store",
                "intermediate")  # fmt: skip
    programs = ("nginx",)
    ours = ("nginx", "python3")
    name = "distributed_query"
    longest = 0.0
    """None: nodes, store and caches end with the process that asked for them."""

    way: str = choice("network", WAYS)
    warm: bool = True
    cache: float = knob(0.7, 0, 1)
    factor: float = knob(0.2, 0.01, 100)
    streams: int = knob(2, 1, MOST_STREAMS)
    seed: int = 1

    @property
    def seconds(self) -> float:
        """About how long one run takes; the first one makes the tables as well."""
        work = self.streams * len(node.QUERIES) * QUERY_SECONDS * self.factor
        return START_SECONDS + 2 * (2.0 + work)

    @property
    def memory(self) -> int:
        """KiB for the columns and groups of a query on each node."""
        return round(MEMORY_KIB * max(0.25, self.factor))

    @property
    def disk(self) -> int:
        """KiB of tables, on the store and in caches."""
        return round(2 * tables.MEBIBYTES * 1024 * self.factor)

    @property
    def scaled(self) -> str:
        """The scale of the data, which the post does not tell."""
        return f"TPC-H-derived data of scale {self.factor:g}; no result of TPC-H"

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """The generator on this machine, or a Python with the database on a node."""
        if reason := tables.lacking():
            return reason
        missing = (role for role in NODES if not _python(hosts[role]))
        if role := next(missing, ""):
            return f"duckdb or pyarrow is missing on {hosts[role].name}: {tables.INSTALL}"
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Serve the tables, the caches before them and the workers, and have the leader ask."""
        folder = tables.bring(hosts["store"], self.factor)
        secret = secrets.token_hex(16)
        with ExitStack() as up:
            nodes = [hosts[role] for role in NODES]
            store = up.enter_context(_files(hosts["store"], "store", secret, folder))
            share = f"{100 * self.cache:.0f}"
            before = [_files(host, "cache", secret, store, share) for host in nodes]
            caches = together(up.enter_context, before, len(nodes))
            workers = together(up.enter_context, [_worker(h, secret) for h in nodes], len(nodes))
            return self._lead(nodes, {
                "secret": secret, "names": [host.name for host in nodes],
                "store": f"{store}/{secret}", "caches": [f"{url}/{secret}" for url in caches],
                "nodes": [f"{url}/{secret}" for url in workers],
            })  # fmt: skip

    def _lead(self, nodes: list[Host], places: Mapping[str, object]) -> str:
        leader = nodes[0]
        order = {
            **places, "address": leader.address, "port": EXCHANGE_PORT, "way": self.way,
            "exchange": f"http://{leader.address}:{EXCHANGE_PORT}/{places['secret']}",
            "streams": self.streams, "seed": self.seed, "scale": self.factor, "warm": self.warm,
        }  # fmt: skip
        result = leader.run(*_program(leader), "lead", stdin=json.dumps(order).encode(),
                            seconds=60 + 10 * self.seconds)  # fmt: skip
        if not result.ok:
            raise HostError(f"{leader.name}: the leader gave up", said=result.stderr,
                            hint="what became of a node? `dmesg | tail` there")  # fmt: skip
        return result.stdout

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Queries an hour, each response time, and the share of bytes that a cache had."""
        problem = "distributed query: cannot read a line"
        lines = [read_object(line, problem) for line in text.splitlines()]
        queries = [line for line in lines if "query" in line]
        ends = [line for line in lines if "elapsed" in line]
        if not queries or len(ends) != 1:
            raise ResultsError("distributed query: the run did not finish")
        tool = "distributed query"
        hit, misses, traffic = (
            sum(read_number(row, key, tool) for row in queries) for key in node.COUNTERS
        )
        seconds_all = read_number(ends[0], "elapsed", tool)
        if not seconds_all or not hit + misses:
            raise ResultsError("distributed query: it took no time, or read nothing", said=text)
        seconds = np.array([read_number(query, "seconds", tool) for query in queries])
        return [
            Sample.single("throughput", "1/h", 3600 * len(queries) / seconds_all),
            Sample.single("elapsed", "s", seconds_all),
            Sample("response time", "s", seconds),
            Sample.single("hit rate", "share", hit / (hit + misses)),
            Sample.single("read from store", "MB", misses / 1e6),
            Sample.single("intermediate", "MB", traffic / 1e6),
        ]


# The Python of a host that has the database; empty if none has.
def _python(host: Host) -> Words:
    return next((words for words in PYTHONS if host.run(*words, "-c", LOOK).ok), ())


def _program(host: Host) -> Words:
    program = f"{own_folder(host)}/{PROGRAM.name}"
    host.put(PROGRAM.read_bytes(), program, 0o644)
    return (*_python(host), program)


# The secret is in a file of the host's user alone, as anybody may read the words of a command.
@contextmanager
def _served(host: Host, secret: str, words: Words, *options: str) -> Iterator[str]:
    at = (*words, host.address)
    with (
        own_file(host, "query", secret.encode()) as file,
        serving(host, lambda port: (*at, str(port), file, *options)) as port,
    ):
        yield f"http://{host.address}:{port}"


def _files(host: Host, kind: str, secret: str, *options: str) -> AbstractContextManager[str]:
    return _served(host, secret, ("sh", "-c", FILES, "files", kind), *options)


def _worker(host: Host, secret: str) -> AbstractContextManager[str]:
    return _served(host, secret, (*_program(host), "worker"))
