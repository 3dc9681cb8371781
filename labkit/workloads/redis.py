"""One Redis server under redis-benchmark, and what each request costs in CPU time."""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.errors import CommandFailed, HostError, ResultsError
from labkit.host import Host
from labkit.probes.ready_time import looks, spent
from labkit.setting import Words
from labkit.workload import Sample, Workload, choice, knob
from labkit.workloads import _lasting
from labkit.workloads._sections import joined, parted
from labkit.workloads._server import SPARE_SECONDS, serving_on

PROGRAMS = ("redis-benchmark", "redis-server", "taskset")

TESTS = ("set", "get", "incr", "lpush", "lpop", "sadd", "hset", "mset",
         "lrange_100", "lrange_300", "lrange_500", "lrange_600")  # fmt: skip
MOST_KEYS = 2**31 - 1
"""redis-benchmark reads the number of keys into an `int`."""
SPARE_FILES = 64
# redis-benchmark that may not open as many files as it has clients asks for ever.
LIMIT_AND_EXEC = 'ulimit -n "$1" || exit; shift; exec "$@"'
MAY_OPEN = "ulimit -Hn"
SAID_BEFORE = 'printf %s "$1"; shift; exec "$@"'
LEAST_REQUESTS = 4
"""Of each client, before it is known how fast they are answered."""
COLUMNS = {"avg_latency_ms": "mean", "p50_latency_ms": "p50", "p99_latency_ms": "p99"}
ROW = re.compile(r"\d{1,12}\.\d{1,6}", re.ASCII)
INFO = re.compile(r"^(used_cpu_sys|used_cpu_user|used_memory):(\d{1,15}(?:\.\d{1,9})?)$",
                  re.ASCII | re.MULTILINE)  # fmt: skip
# Of all that a server says, what is read, and what sets one server apart.
KEPT = (
    "redis_version:", "used_cpu_", "used_memory:", "total_commands", "evicted_keys:",
    "keyspace_", "cmdstat_", "aof_delayed", "server_time_usec:", "db0:",
)  # fmt: skip
NEEDS = ("redis-server", "redis-benchmark", "redis-cli")
SIDES = ("client", "host")


@dataclass(frozen=True)
class Redis(Workload):
    """Defaults are the container post's: SET of 1 byte, 1000 clients, no pipeline (section Redis).

    Its 100 billion keys do not fit into redis-benchmark's number, which wraps: there were
    1,215,752,192. How long it takes decides how many requests are made, after a short warm-up.
    """

    roles = ("client", "server", "host")
    beside = ("host",)
    of_kernel = ("server cpu",)
    loop = "closed"
    measures = ("throughput", "latency mean", "latency p50", "latency p99", "cpu per request",
                "server cpu", "client cpu")  # fmt: skip
    programs = ("redis-server", "redis-benchmark")
    ours = ("redis-server", "redis-benchmark")
    needs = NEEDS

    test: str = choice("set", TESTS)
    clients: int = knob(1000, 1, 10_000)
    pipeline: int = knob(1, 1, 10_000)
    size: int = knob(1, 1, 1 << 20)
    keys: int = knob(1_215_752_192, 1, MOST_KEYS)
    duration: int = knob(3, 1, 3600)
    pin: str = ""
    """The CPUs of the server's machine that redis-server may use; empty for all."""

    @property
    def seconds(self) -> float:
        """About how long one run takes, the warm-up included."""
        return self.duration + 2.5

    @property
    def files(self) -> int:
        """The number of files each side has open."""
        return self.clients + SPARE_FILES

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Both sides have to hold a connection for each client."""
        for host in (hosts["client"], hosts["server"]):
            limit = host.run("sh", "-c", MAY_OPEN).stdout.strip()
            if limit.isdecimal() and int(limit) < self.files:
                need = f"{self.clients} clients need {self.files}"
                return f"{host.name} may open {limit} files, and {need}"
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Serve, warm up, then measure between two looks at the server and both machines."""
        server, client = hosts["server"], hosts["client"]
        longest = SPARE_SECONDS + 3 * self._most_seconds
        with serving_on(server, client, lambda at: self._server(server, at), longest) as port:

            def words() -> Words:
                return ("sh", "-c", SAID_BEFORE, "said", *self._begin(hosts, port))

            try:
                output, _ = _lasting.timed(client, f"{self} {port}", words, self._most_seconds)
            except CommandFailed as error:
                raise ended(error, server, port) from None
            return output + joined(self._looks(hosts, port, "after"))

    @property
    def _most_seconds(self) -> float:
        return 50 + 10 * self.duration

    # What was seen before the benchmark goes the same way as what it prints: that may be read by
    # another process than this one.
    def _begin(self, hosts: Mapping[str, Host], port: int) -> Words:
        requests = LEAST_REQUESTS * self.clients
        words = self._benchmark(hosts, port, requests)
        parts = {"warm-up": hosts["client"].check(*words, seconds=self._most_seconds)}
        requests = max(requests, int(self.duration * _row(parts["warm-up"])["rps"]))
        parts |= self._looks(hosts, port, "before")
        parts["requests"] = str(requests)
        return (joined({**parts, "benchmark": ""}), *self._benchmark(hosts, port, requests))

    def _server(self, host: Host, port: int) -> Words:
        pin = ("taskset", "-c", self.pin) if self.pin else ()
        return limited(self.files, (*pin, *server_words(host.address, port),
                       "--maxclients", str(self.clients + 32)))  # fmt: skip

    def _benchmark(self, hosts: Mapping[str, Host], port: int, requests: int) -> Words:
        words = (
            "redis-benchmark", "-h", hosts["server"].address, "-p", str(port), "--csv",
            "-t", self.test, "-n", str(requests), "-c", str(self.clients),
            "-P", str(self.pipeline), "-d", str(self.size), "-r", str(self.keys),
        )  # fmt: skip
        limit = 30 + 10 * self.duration
        return limited(self.files, ("timeout", "-k", "2", str(limit), *words))

    def _looks(self, hosts: Mapping[str, Host], port: int, moment: str) -> dict[str, str]:
        parts, server = looks(hosts, SIDES, moment), hosts["server"]
        return parts | {f"info {moment}": counts_of(server, server.address, port)}

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """One figure each: throughput, latencies as redis-benchmark prints them, and CPU time."""
        needed = [f"{side} {moment}" for side in (*SIDES, "info") for moment in ("before", "after")]
        parts = parted(text, "warm-up", "benchmark", "requests", *needed)
        row = _row(parts["benchmark"])
        if not re.fullmatch(r"[1-9]\d{0,14}", parts["requests"], re.ASCII):
            raise ResultsError("redis: how many requests were there?", said=parts["requests"][:200])
        samples = [Sample.single("throughput", "1/s", row["rps"])]
        samples += [Sample.single(f"latency {short}", "ms", row[column])
                    for column, short in COLUMNS.items()]  # fmt: skip
        cost = _cpu(parts["info after"]) - _cpu(parts["info before"])
        if cost < 0:
            raise ResultsError("redis: a different server was running at the end")
        samples.append(Sample.single("cpu per request", "us", 1e6 * cost / int(parts["requests"])))
        for side, name in (("host", "server cpu"), ("client", "client cpu")):
            if used := spent(parts[f"{side} before"], parts[f"{side} after"]):
                samples.append(Sample.single(name, "share", used["CPU share"]))
        return samples


# It has no password and runs as whoever labkit logs in as, often root: what reaches beyond its own
# memory is taken from it, as by each of these an older one is made to write or run a file.
MEMORY_ONLY = tuple(
    word
    for name in ("CONFIG", "DEBUG", "EVAL", "EVALSHA", "MODULE", "REPLICAOF", "SLAVEOF")
    for word in ("--rename-command", name, "")
)


def server_words(address: str, port: int) -> Words:
    """A server that keeps nothing on disk, listens on one address, and has one thread."""
    return (
        "redis-server", "--bind", address, "--port", str(port), "--protected-mode", "no",
        "--save", "", "--appendonly", "no", "--io-threads", "1", "--daemonize", "no", *MEMORY_ONLY,
    )  # fmt: skip


def limited(files: int, words: Words) -> Words:
    """The command, allowed to open that many files."""
    return ("sh", "-c", LIMIT_AND_EXEC, "limited", str(files), *words)


def counts_of(host: Host, address: str, port: int) -> str:
    """A server's counts, asked from this host."""
    words = ("timeout", "20", "redis-cli", "-h", address, "-p", str(port), "info", "all")
    lines = host.check(*words, seconds=40).splitlines()
    return "\n".join(line for line in lines if line.startswith(KEPT))


def ended(error: CommandFailed, server: Host, port: int) -> HostError:
    """The error for a failed benchmark, by whether its server still answers."""
    words = ("timeout", "5", "redis-cli", "-h", server.address, "-p", str(port), "ping")
    if server.run(*words).stdout.strip() == "PONG":
        return error
    return HostError(
        f"redis-server on {server.name} ended in mid-run",
        said=error.said,
        hint=f"was it killed for want of memory? `dmesg | tail` on {server.name}; fewer clients or "
        "a shorter duration need less",
    )


# Of a test that first has to make its data, the last line is its own.
def _row(text: str) -> dict[str, float]:
    rows = list(csv.reader(io.StringIO(text.strip(), newline="")))
    complete = len(rows) >= 2 and rows[0][:1] == ["test"] and len(rows[-1]) == len(rows[0])
    if not complete or {"rps", *COLUMNS} - {*rows[0]}:
        raise ResultsError("redis-benchmark: it did not finish", said=text[-200:])
    _, *figures = rows[-1]
    if not all(ROW.fullmatch(figure) for figure in figures):
        raise ResultsError("redis-benchmark: cannot read its figures", said=text[-200:])
    row = dict(zip(rows[0][1:], map(float, figures), strict=True))
    if not row["rps"]:
        raise ResultsError("redis-benchmark: no request was answered", said=text[-200:])
    return row


def _cpu(text: str) -> float:
    figures = {name: float(value) for name, value in INFO.findall(text)}
    if not {"used_cpu_sys", "used_cpu_user"} <= figures.keys():
        raise ResultsError("redis: the server does not say its CPU time", said=text[:200])
    return figures["used_cpu_sys"] + figures["used_cpu_user"]
