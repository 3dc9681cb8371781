"""Redis under load, alone and scaled out, and netperf's streams: on this machine's loopback."""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from brought import own_address
from by_hand import insist_same
from figures import figures
from small_hosts import Within
from waiting import awaited

from labkit import studies
from labkit.errors import CommandFailed, HostError
from labkit.host import Host
from labkit.judging import by_hosts
from labkit.results import Results
from labkit.transports.local import Local
from labkit.workloads._server import serving
from labkit.workloads.netperf import Netperf
from labkit.workloads.redis import Redis, ended, server_words
from labkit.workloads.redis_scaleout import RedisScaleout
from labkit.workloads.streams import WAYS, Streams

PROGRAMS = ("haproxy", "iperf3", "netperf", "nutcracker", "pgrep", "redis-benchmark",
            "redis-server")  # fmt: skip

needs_redis = pytest.mark.skipif(
    not (shutil.which("redis-server") and shutil.which("redis-benchmark")),
    reason="needs redis-server and redis-tools",
)
needs_balancers = pytest.mark.skipif(
    not (shutil.which("nutcracker") and shutil.which("haproxy")),
    reason="needs nutcracker and haproxy",
)
needs_netperf = pytest.mark.skipif(not shutil.which("netperf"), reason="needs netperf")
SMALL = Redis(clients=20, duration=1)
AT = own_address(77)


@pytest.fixture
def here():
    return Host("here", AT, Local("here"))


def hosts_of(workload, host):
    return dict.fromkeys(workload.roles, host)


def told(workload, host):
    return figures(workload, workload.run(hosts_of(workload, host)))


def servers():
    result = subprocess.run(["pgrep", "-f", f"^redis-server {AT}:"], capture_output=True, text=True)
    return {int(pid) for pid in result.stdout.split()}


@needs_redis
@pytest.mark.torture
def test_the_figure_is_that_of_redis_benchmark_by_hand(here):
    with serving(here, lambda port: server_words(AT, port)) as port:
        insist_same(
            lambda: told(SMALL, here)["throughput"],
            lambda: benchmark(port, "-c", "20", "-n", "20000", "-t", "set"),
        )


def benchmark(port, *more):
    words = ("redis-benchmark", "-h", AT, "-p", str(port), "-d", "1", "--csv", *more)
    result = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return float(result.stdout.splitlines()[-1].split(",")[1].strip('"'))


@pytest.mark.slow
@needs_redis
def test_nothing_of_it_is_left_when_it_has_run(here):
    told(SMALL, here)
    awaited(lambda: not servers())


def kill_servers(begun, after):
    """Once a program runs that asks them."""
    awaited(lambda: asking(begun), 30)
    time.sleep(after)
    for pid in servers():
        os.kill(pid, signal.SIGKILL)


def asking(program):
    words = ("pgrep", "-f", f"^{program} -h {AT} .*")
    return subprocess.run(words, capture_output=True).returncode == 0


@pytest.mark.slow
@needs_redis
@pytest.mark.parametrize(("load", "after"), [
    (Redis(clients=20, duration=30), 0.5),
    pytest.param(RedisScaleout(servers=2, keys=1000, duration=30), 0.3, marks=needs_balancers),
])  # fmt: skip
def test_a_server_that_is_killed_in_mid_run_is_named(here, load, after):
    killer = threading.Thread(target=kill_servers, args=("redis-benchmark", after))
    killer.start()
    with pytest.raises(HostError, match=r"(?s)redis-server .* ended in mid-run.*dmesg") as gone:
        load.run(hosts_of(load, here))
    killer.join()
    assert not isinstance(gone.value, CommandFailed) and not servers()


@needs_redis
def test_what_failed_while_the_server_lives_is_told_as_it_was(here):
    failed = CommandFailed("client: it ended with code 1", said="what it said")
    with pytest.raises(HostError, match="in mid-run"):
        raise ended(failed, here, 1)


@needs_redis
def test_a_host_that_may_not_open_a_file_for_each_client_is_refused(here):
    assert SMALL.lacking(hosts_of(SMALL, here)) == ""
    few = Host("few", "127.0.0.1", Within(("sh", "-c", 'ulimit -n 100; exec "$@"', "few")))
    assert "few may open 100 files, and 1000 clients need 1064" in Redis().lacking(
        hosts_of(SMALL, few)
    )


@pytest.mark.slow
@needs_redis
@needs_balancers
def test_eight_servers_share_all_keys_and_each_get_finds_one(here):
    found = told(RedisScaleout(keys=4000, duration=1), here)
    assert found["share found"] == 1.0
    assert 0.5 < found["share of gets"] < 0.95
    assert 1.0 <= found["busiest over mean"] < 4.0
    assert found["throughput"] > 100


@pytest.mark.torture
@needs_redis
def test_what_a_server_counts_is_what_its_clients_say_that_they_got(here):
    """By hand each client counts for itself; ours are four, of which one sets."""
    load = RedisScaleout(servers=1, keys=1000, duration=1)
    kinds = ("get",) * 3 + ("set",)

    def by_hand():
        with serving(here, lambda port: server_words(AT, port)) as port:
            asked = ("-c", "25", "-P", "30", "-r", "1000", "-n", "200000")
            with ThreadPoolExecutor(len(kinds)) as pool:
                each = [pool.submit(benchmark, port, *asked, "-t", kind) for kind in kinds]
                return sum(one.result() for one in each)

    insist_same(lambda: told(load, here)["throughput"], by_hand)


@needs_redis
def test_a_server_that_is_gone_before_it_has_its_keys_is_named(here):
    with socket.socket() as nobody:
        nobody.bind((AT, 0))
        at = nobody.getsockname()
        with pytest.raises(HostError, match=rf"at {AT}, port {at[1]}, ended in mid-run"):
            RedisScaleout(keys=9)._fill(here, at, [at])


@pytest.mark.slow
@needs_redis
@needs_balancers
def test_servers_on_one_cpu_do_with_the_time_of_one(here):
    pinned = told(RedisScaleout(servers=4, keys=1000, duration=1, pin="0"), here)
    assert 0 < pinned["cpus of the servers"] <= 1.05
    assert pinned["cpus used"] == 1.0 and pinned["moves"] == 0.0


@needs_redis
def test_one_server_is_asked_directly_and_needs_no_balancer(here):
    bare = Host("bare", "127.0.0.1", NoBalancers("bare"))
    load = RedisScaleout(servers=1, keys=1000, duration=1)
    assert load.lacking(hosts_of(load, bare)) == ""
    assert "nutcracker is missing on bare" in RedisScaleout().lacking(hosts_of(load, bare))


class NoBalancers(Local):
    """This machine, with nothing but the programs of a folder on its PATH."""

    def run(self, words, **how):
        return super().run(("env", "PATH=/nowhere", "/bin/sh", *words[1:]), **how)


@pytest.mark.torture  # beside other tests, one way may have less of the CPUs than the other
@needs_netperf
@pytest.mark.parametrize(("way", "test"), WAYS.items())
def test_a_stream_is_as_fast_as_netperf_s_own_by_hand(here, way, test):
    load, typed = Streams(duration=1), Netperf(test, Streams().size, 1)

    def by_hand():
        with typed.asking(hosts_of(typed, here)) as words:
            output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return next(line for line in output.splitlines() if line.startswith("THROUGHPUT="))[11:]

    insist_same(lambda: told(load, here)[f"throughput [way={way}]"], by_hand)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("iperf3"), reason="needs iperf3")
def test_a_stream_costs_cpu_time_on_both_sides(here):
    found = told(Streams(duration=1, free=True), here)
    for way in WAYS:
        assert found[f"cpu per gigabyte [way={way}]"] > 0
        assert found[f"client cpu per gigabyte [way={way}]"] > 0


@pytest.mark.parametrize(
    ("server", "guest", "here"), [(2, 1, 2), (8, 4, None), (8, 1, 2), (16, 8, None)]
)
def test_a_speed_up_is_not_judged_where_the_servers_have_too_few_cpus(
    tmp_path, server, guest, here
):
    study = studies.find("redis_scaleout")
    names = {role for condition in study.conditions for role in condition.roles.values()}
    hosts = {name: {"cpus": str(guest if name[:5] in ("guest", "inner") else server)}
             for name in names}  # fmt: skip
    results = Results.begin(tmp_path / "some", {"lab": {"hosts": hosts}})
    decided = by_hosts.decided(study, results)
    if here:
        assert f"8 CPUs for the servers, and here they have {here}" in decided["redis-scaleout-06"]
    else:
        assert "redis-scaleout-06" not in decided
