"""labkit's figures are those of the tool itself, typed by hand into ssh on the same box."""

import shlex
import shutil
import subprocess
import tomllib
from contextlib import contextmanager

import numpy as np
import pytest
from by_hand import insist_same
from waiting import awaited

from labkit.workloads.netperf import Netperf
from labkit.workloads.ping import Ping

PROGRAMS = ("netperf", "netserver", "ping", "ssh")

pytestmark = [pytest.mark.box, pytest.mark.slow]
PORT = 19_761


@pytest.fixture
def ssh(lab_file):
    if not shutil.which("ssh"):
        pytest.skip("needs ssh")
    hosts = tomllib.loads(lab_file.read_text())["hosts"]

    def words(role, command):
        at = hosts[role]
        return [
            "ssh", "-F", "none", "-o", f"UserKnownHostsFile={lab_file.parent}/known_hosts",
            "-i", f"{lab_file.parent}/key", "-p", str(at.get("port", 22)),
            f"{at.get('user', 'root')}@{at['control']}", command,
        ]  # fmt: skip

    return words


def by_hand(words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def given(values):
    return iter(values).__next__


def test_what_is_worse_by_a_third_is_seen_as_such_and_what_is_alike_passes_at_once():
    calm = [50, 51, 52, 50, 51, 53, 49, 50, 52, 51, 50, 53, 51, 50, 52]
    left = given(calm)
    insist_same(left, given([1.01 * one for one in calm[::-1]]))
    assert left() == calm[6], "the first look was enough"
    with pytest.raises(AssertionError, match="apart"):
        insist_same(given(calm), given([one * 4 / 3 for one in calm]))


def test_pings_median_is_that_of_ping_typed_by_hand(lab, ssh):
    load, hosts = Ping(count=400), {"client": lab.host("client"), "server": lab.host("guest")}
    typed = shlex.join(["ping", "-n", "-D", "-s", "256", "-i", "0.001", "-c", "400",
                        lab.host("guest").address])  # fmt: skip

    def median(text):
        return np.median(load.parse(text)[0].values)

    insist_same(lambda: median(load.run(hosts)), lambda: median(by_hand(ssh("client", typed))))


def median_of(load, hosts):
    return {s.metric: s.values[0] for s in load.parse(load.run(hosts))}["netperf p50"]


@contextmanager
def served(words, client):
    """A server typed by hand, from when a client of it gets an answer."""
    away = subprocess.DEVNULL
    with subprocess.Popen(
        ["ssh", "-tt", *words[1:]], stdin=subprocess.PIPE, stdout=away, stderr=away
    ) as server:
        try:
            awaited(lambda: not subprocess.run(client, capture_output=True).returncode)
            yield
        finally:
            server.terminate()


@pytest.mark.skipif(not shutil.which("netperf"), reason="needs netperf")
def test_netperfs_median_is_that_of_netperf_typed_by_hand(lab, ssh):
    load, hosts = Netperf(duration=1), {r: lab.host(r) for r in ("client", "server")}
    at = lab.host("server").address
    client = ssh(
        "client", f"netperf -4 -H {at} -p {PORT} -t TCP_RR -l 1 -- -r 256,256 -k P50_LATENCY"
    )
    with served(ssh("server", f"exec netserver -D -4 -L {at} -p {PORT}"), client):
        insist_same(lambda: median_of(load, hosts),
                    lambda: by_hand(client).rpartition("P50_LATENCY=")[2])  # fmt: skip
