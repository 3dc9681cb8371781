"""Several Redis servers behind two kinds of balancers, counted on the servers in steady state."""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from itertools import count

from labkit.errors import BadInput, CommandFailed, HostError, ResultsError, absence
from labkit.fleet.together import served
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.probes import cpu_moves
from labkit.probes.ready_time import looks, spent
from labkit.programs.packages import brings
from labkit.setting import Words
from labkit.workload import Sample, Workload, knob
from labkit.workloads._pairs import FIND
from labkit.workloads._sections import joined, parted
from labkit.workloads._server import serving
from labkit.workloads.redis import MEMORY_ONLY, MOST_KEYS, NEEDS, SIDES, counts_of, ended

PROGRAMS = ("redis-benchmark", "redis-cli", "redis-server", "taskset")

MOST_SERVERS = 8
SERVERS = tuple(f"server{n}" if n else "server" for n in range(MOST_SERVERS))
GETS, SETS = 6, 2
"""Processes of redis-benchmark for each: three quarters ask, as the post says."""
BALANCERS = {word: brings(word) for word in ("nutcracker", "haproxy")}
# All servers of one host, for a connection has few turns. Their folder goes with them; the port
# that is waited for is opened last.
KEEPING = beside(__file__, "redis_scaleout_keeping.sh")
# The servers of a host on one of its NUMA nodes, as far as the host may use that.
ON_NODE = 'exec taskset -c "$(cat /sys/devices/system/node/node0/cpulist)" "$@"'
PIN = re.compile(r"|node|\d{1,4}([-,]\d{1,4}){0,64}", re.ASCII)
CONFIGURED = beside(__file__, "redis_scaleout_configured.sh")
# redis-benchmark's own names of keys. What a proxy makes of the tool's last request does not count.
FILL = beside(__file__, "redis_scaleout_fill.sh")
# They ask until somebody ends them; the words are those of one that asks and of one that sets. One
# instance of redis-benchmark has one thread: what stands in for one shares a CPU.
LOAD = beside(__file__, "redis_scaleout_load.sh")
ENDLESS = 1_000_000_000
SETTLE_SECONDS = 1.0
DOCUMENT_KEYS = 250_000_000
SERVER_KIB, KEY_BYTES = 10 << 10, 104
"""Of a server that holds nothing; the document's keys took 26 GB."""
FILL_SECONDS = 20.0
SLOWEST_FILL = 20_000
"""Keys a second that are sent at the least."""
MEMORY_HINT = "was it killed for want of memory? `dmesg | tail` on its host; fewer keys need less"
COUNTS = re.compile(
    r"^(cmdstat_get|cmdstat_set|server_time_usec|keyspace_hits|keyspace_misses|used_cpu_sys"
    r"|used_cpu_user):(?:calls=)?(\d{1,17}(?:\.\d{1,9})?)(?:,.*)?$", re.ASCII | re.MULTILINE
)  # fmt: skip
COUNTERS = ("cmdstat_get", "cmdstat_set", "server_time_usec", "keyspace_hits", "keyspace_misses",
            "used_cpu_sys", "used_cpu_user")  # fmt: skip


@dataclass(frozen=True)
class RedisScaleout(Workload):
    """Clients, HAProxy, several twemproxies, several servers (Scaling Out Redis, section Setup).

    One server is asked directly by one instance, as in the post's baseline: its clients are shared
    out, three to GET and one to SET. 250 million keys would take 26 GB: `keys` is their number
    here. All are there before it begins, so that each GET finds one.
    """

    roles = ("client", "balancer", "host", *SERVERS)
    beside = ("host",)
    of_kernel = ("cpu utilization", "cpus used", "moves")
    loop = "closed"
    measures = ("throughput", "share of gets", "share found", "busiest over mean",
                "cpus of the servers", "cpu utilization", "client cpu", "cpus used",
                "moves")  # fmt: skip
    programs = ("redis-server", "nutcracker", "haproxy")
    ours = ("redis-server", "redis-benchmark", "nutcracker", "haproxy", "redis-cli", "awk", "mawk")
    needs = NEEDS
    name = "redis_scaleout"
    longest = 0.0
    """None: it counts between two looks, in the midst of its load."""

    servers: int = knob(8, 1, MOST_SERVERS)
    proxies: int = knob(2, 1, 16)
    clients: int = knob(100, 1, 1000)
    """Of each process of redis-benchmark."""
    pipeline: int = knob(30, 1, 10_000)
    size: int = knob(1, 1, 1 << 20)
    keys: int = knob(10_000, 1, MOST_KEYS)
    duration: int = knob(2, 1, 3600)
    pin: str = ""
    """The CPUs that all servers are kept on, or `node` for those of the first NUMA node."""
    guests: tuple[str, ...] = ()
    """The host's names for the guests that the servers are in; empty where they are in none."""

    def __post_init__(self) -> None:
        if not PIN.fullmatch(self.pin):
            raise BadInput(f"redis scale-out: pin is `node` or CPUs as 0-3, not {self.pin!r}")

    @property
    def seconds(self) -> float:
        """About how long one run takes: servers and balancers start, and keys are written."""
        return self.duration + SETTLE_SECONDS + 2.0 + self.keys / SLOWEST_FILL + 0.3 * self.servers

    @property
    def memory(self) -> int:
        """KiB of all servers, which may be on one host, and of their keys."""
        return self.servers * SERVER_KIB + (self.keys * (KEY_BYTES + self.size) >> 10)

    @property
    def scaled(self) -> str:
        """The keys out of the document's, and the time that is counted."""
        return f"{self.keys:,} of {DOCUMENT_KEYS:,} keys; {self.duration} s are counted"

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Only one host needs the balancers."""
        balancer = hosts["balancer"]
        missing = balancer.run("sh", "-c", FIND, "find", *BALANCERS).stdout.split()
        if missing and self.servers > 1:
            name = missing[0]
            return absence(name, balancer.name, BALANCERS[name])
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Count what all servers did between two looks, in the midst of the load."""
        with ExitStack() as up:
            at = self._start(hosts, up)
            front = at[0] if self.servers == 1 else self._balance(hosts["balancer"], at, up)
            self._fill(hosts["client"], front, at)
            up.enter_context(self._load(hosts["client"], front))
            # On a busy machine it takes a while until all of them ask. Who looks next says what
            # failed.
            time.sleep(SETTLE_SECONDS)
            with suppress(CommandFailed):
                _until(lambda: all("cmdstat_get" in counts_of(hosts["client"], *one) for one in at),
                       "not all were asked")  # fmt: skip
            parts = self._looks(hosts, at, "before")
            placement = cpu_moves.watched(hosts["host"], self.duration, "redis-server", self.guests)
            parts |= {**self._looks(hosts, at, "after"), "placed": placement}
        return joined({"servers": str(self.servers), **parts})

    # Server 1 is on the first host, server 2 on the next, and so on in turn.
    def _start(self, hosts: Mapping[str, Host], up: ExitStack) -> list[tuple[str, int]]:
        machines = [hosts[role] for role in SERVERS[: self.servers]]
        counts = Counter(host.name for host in machines)
        places = list({host.name: host for host in machines}.values())
        contexts = [serving(h, self._server(h, counts[h.name]), seconds=60) for h in places]
        firsts = together(up.enter_context, contexts, len(places))
        free = {host.name: count(port) for host, port in zip(places, firsts, strict=True)}
        at = [(host.address, next(free[host.name])) for host in machines]
        client = hosts["client"]
        _until(lambda: all(_size(client, *server) >= 0 for server in at), "some do not answer")
        return at

    def _server(self, host: Host, servers: int) -> Callable[[int], Words]:
        cpus = ("taskset", "-c", self.pin) if self.pin else ()
        pin = ("sh", "-c", ON_NODE, "on") if self.pin == "node" else cpus
        return lambda port: (
            "sh", "-c", KEEPING, "keeping", str(port), str(servers), *pin,
            "redis-server", "--bind", host.address, "--protected-mode", "no",
            "--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
            "--auto-aof-rewrite-percentage", "0", "--io-threads", "1", "--maxclients", "4000",
            *MEMORY_ONLY,
        )  # fmt: skip

    # HAProxy deals out connections by turns; each twemproxy knows all servers, and which key is
    # whose.
    def _balance(
        self, balancer: Host, servers: Sequence[tuple[str, int]], up: ExitStack
    ) -> tuple[str, int]:
        def proxy(port: int) -> Words:
            config = _nutcracker(balancer.address, port, servers)
            return ("sh", "-c", CONFIGURED, "configured", config, "nutcracker", "-a", "127.0.0.1",
                    "-s", str(port + 1), "-v", "4", "-p", "/dev/null",
                    "-o", "/dev/stderr", "-c")  # fmt: skip

        ports = [up.enter_context(serving(balancer, proxy)) for _ in range(self.proxies)]

        def front(port: int) -> Words:
            config = _haproxy(balancer.address, port, ports)
            return ("sh", "-c", CONFIGURED, "configured", config, "haproxy", "-db", "-f")

        return balancer.address, up.enter_context(serving(balancer, front))

    # As soon as all keys are on the servers.
    def _fill(
        self, client: Host, front: tuple[str, int], servers: Sequence[tuple[str, int]]
    ) -> None:
        limit = round(60 + self.keys / SLOWEST_FILL)
        words = map(str, (*front, self.keys, self.size, limit))
        client.check("sh", "-c", FILL, "fill", *words, seconds=limit + 30)
        sizes = [0]

        def is_full() -> bool:
            sizes[:] = [_size(client, *server) for server in servers]
            return min(sizes) < 0 or sum(sizes) >= self.keys

        _until(is_full, f"not all {self.keys} keys reached them: fewer keys, or more memory")
        if min(sizes) < 0:
            host, port = servers[sizes.index(-1)]
            problem = f"redis-server at {host}, port {port}, ended in mid-run"
            raise HostError(problem, hint=MEMORY_HINT)

    # One server is asked by one instance: those that stand in for it have its clients together.
    def _load(self, client: Host, front: tuple[str, int]) -> AbstractContextManager[object]:
        parts = 1 if self.servers > 1 else 2
        gets, sets = GETS // parts, SETS // parts
        clients = self.clients if self.servers > 1 else max(1, self.clients // (gets + sets))
        words = (
            "redis-benchmark", "-h", front[0], "-p", str(front[1]), "-n", str(ENDLESS),
            "-c", str(clients), "-P", str(self.pipeline), "-d", str(self.size),
            "-r", str(self.keys),
        )  # fmt: skip
        mode = "one" if self.servers == 1 else "each"
        command = ("sh", "-c", LOAD, "load", mode, str(gets), str(sets), *words)
        return served(client, command, ("true",), 20)

    def _looks(
        self, hosts: Mapping[str, Host], servers: Sequence[tuple[str, int]], moment: str
    ) -> dict[str, str]:
        parts = looks(hosts, SIDES, moment)
        for n, at in enumerate(servers, 1):
            try:
                parts[f"{n} {moment}"] = counts_of(hosts["client"], *at)
            except CommandFailed as error:
                raise ended(error, hosts[SERVERS[n - 1]], at[1]) from None
        return parts

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """One figure each, of all servers together; what they count is read by their own clocks."""
        names = [f"{side} {moment}" for side in SIDES for moment in ("before", "after")]
        parts = parted(text, "servers", *names)
        if not re.fullmatch(r"[1-8]", parts["servers"], re.ASCII):
            raise ResultsError("redis scale-out: how many servers?", said=parts["servers"])
        counts = [_rates(parts, n) for n in range(1, int(parts["servers"]) + 1)]
        gets, sets, _, hits, misses, *_ = (
            sum(rates[name] for rates in counts) for name in COUNTERS
        )
        if gets <= 0 or sets <= 0:
            raise ResultsError("redis scale-out: the servers were asked for nothing")
        each = [rates["cmdstat_get"] + rates["cmdstat_set"] for rates in counts]
        used_cpus = sum(rates[name] for rates in counts for name in COUNTERS[5:])
        placement = {s.metric: s for s in cpu_moves.samples(parts.get("placed", ""))}
        # A server in a guest counts time that others took from the guest as its own. What the
        # machine gave is no more than it was busy.
        given = placement.get("cpus given")
        busy = {side: spent(parts[f"{side} before"], parts[f"{side} after"]) for side in SIDES}
        used_cpus = min(used_cpus, busy["host"].get("CPUs busy", used_cpus))
        figures = {
            ("throughput", "1/s"): gets + sets,
            ("share of gets", "share"): gets / (gets + sets),
            ("share found", "share"): hits / max(hits + misses, 1e-9),
            ("busiest over mean", "1"): max(each) * len(each) / sum(each),
            ("cpus of the servers", "1"): given.values[0] if given else used_cpus,
        }  # fmt: skip
        samples = [Sample.single(*name, value) for name, value in figures.items()]
        samples += [placement[name] for name in ("cpus used", "moves") if name in placement]
        for side, name in (("host", "cpu utilization"), ("client", "client cpu")):
            if used := busy[side]:
                samples.append(Sample.single(name, "share", used["CPU share"]))
        return samples


# What one server counted a second, by its own clock.
def _rates(parts: Mapping[str, str], n: int) -> dict[str, float]:
    looks = []
    for moment in ("before", "after"):
        found = {
            name: float(value) for name, value in COUNTS.findall(parts.get(f"{n} {moment}", ""))
        }
        if missing := [name for name in COUNTERS if name not in found]:
            raise ResultsError(f"redis scale-out: server {n} does not count {missing[0]}")
        looks.append(found)
    first, last = looks
    seconds = (last["server_time_usec"] - first["server_time_usec"]) / 1e6
    if seconds <= 0 or any(last[name] < first[name] for name in COUNTERS):
        raise ResultsError(f"redis scale-out: server {n} was a different one at the end")
    return {name: (last[name] - first[name]) / seconds for name in COUNTERS}


def _until(ready: Callable[[], bool], missing: str) -> None:
    until = time.monotonic() + FILL_SECONDS
    while not ready():
        if time.monotonic() > until:
            raise HostError(f"redis scale-out: {missing}, within {FILL_SECONDS:.0f} s")
        time.sleep(0.1)


# Below 0 where no server answers.
def _size(client: Host, address: str, port: int) -> int:
    words = ("timeout", "10", "redis-cli", "-h", address, "-p", str(port), "dbsize")
    output = client.run(*words, seconds=30).stdout.strip()
    return int(output) if output.isdecimal() else -1


def _nutcracker(address: str, port: int, servers: Sequence[tuple[str, int]]) -> str:
    lines = "".join(f"   - {host}:{at}:1 s{n}\n" for n, (host, at) in enumerate(servers, 1))
    return beside(__file__, "redis_scaleout_nutcracker.yml").format(at=f"{address}:{port}") + lines


def _haproxy(address: str, port: int, proxies: Sequence[int]) -> str:
    lines = "".join(f"  server t{n} {address}:{at}\n" for n, at in enumerate(proxies, 1))
    return beside(__file__, "redis_scaleout_haproxy.cfg").format(at=f"{address}:{port}") + lines
