"""Containers on the hosts of a box: reached as hosts are, limited, and gone without a trace."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from boxes import OTHER
from leftovers import another, maker_killed, snapshot
from waiting import awaited

from labkit import box
from labkit.box.containers import container
from labkit.box.folder import Folder
from labkit.errors import BoxError

PROGRAMS = ("bash", "ip", "ping")

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.skipif(not container.choice("any"), reason="no engine; to get one: make system"),
]
FOUR = """
[hosts.client]
[hosts.server]
[hosts.server2]
[containers.bridged]
on = "server"
memory = "64M"
cpus = "first half"
[containers.flat]
on = "server"
network = "host"
[containers.bridged2]
on = "server2"
memory = "64M"
cpus = "first half"
engine = "crun"
[containers.flat2]
on = "server2"
network = "host"
engine = "crun"
"""
ROLES = ("bridged", "flat", "bridged2", "flat2")
FILLED = "head -c 150000000 /dev/zero | tail -c 150000000 | wc -c"


# What an engine of the machine's own would have in the machine's own namespaces.
def of_the_machine():
    tables = subprocess.run(["iptables-save"], capture_output=True, text=True).stdout
    rules = [line for line in tables.splitlines() if line.startswith("-")]
    places = ("/run/docker.sock", "/run/docker.pid", "/run/docker", "/run/containerd")
    kept = [Path("/var/lib/docker"), *map(Path, places)]
    stamps = {str(path): path.stat().st_mtime_ns if path.exists() else 0 for path in kept}
    return rules, stamps, Path("/proc/sys/net/ipv4/ip_forward").read_text()


@pytest.fixture(scope="module")
def four():
    machine = of_the_machine()
    with another(OTHER, FOUR) as lab:
        assert of_the_machine() == machine
        yield lab
    assert of_the_machine() == machine


def answers(lab, role):
    lab.host("client").check("ping", "-n", "-c", "2", "-W", "5", lab.host(role).address)


@pytest.mark.parametrize("role", ROLES)
def test_a_container_is_a_host_with_the_same_programs(four, role):
    inside, on = four.host(role), four.host("server2" if role.endswith("2") else "server")
    assert inside.check("hostname").strip() == f"{OTHER}-{role}"
    same = ("stat", "-L", "-c", "%d %i", "/usr/sbin/sshd")
    assert inside.check(*same) == on.check(*same)
    answers(four, role)
    inside.check("ping", "-n", "-c", "1", "-W", "5", four.host("client").address)
    inside.check("sh", "-c", "echo kept > /root/file && echo kept > /tmp/file")
    assert not on.run("test", "-e", "/root/file").ok
    assert inside.run("touch", "/usr/file").code and inside.run("touch", "/etc/passwd").code


@pytest.mark.parametrize("role", ROLES)
def test_test_traffic_takes_the_bridge_or_the_links_of_the_host(four, role):
    inside = four.host(role)
    assert inside.run("test", "-d", "/sys/class/net/data0").ok == role.startswith("flat")
    shown = inside.check("ip", "-br", "addr", "show", inside.interface)
    assert f"{inside.address}/" in shown
    ttl = four.host("client").check("ping", "-n", "-c", "1", "-W", "5", inside.address)
    assert f"ttl={64 if role.startswith('flat') else 63}" in ttl


@pytest.mark.parametrize("role", ROLES)
def test_a_server_in_a_container_can_be_bound_to_its_address(four, role):
    inside = four.host(role)
    words = ["-D", "-f", "/run/labkit/sshd_config", "-o", f"ListenAddress={inside.address}:2222"]
    program = inside.check("sh", "-c", "command -v sshd").strip()
    script = f"exec 3<>/dev/tcp/{inside.address}/2222 && head -c 4 <&3"
    with inside.raw("timeout", "30", program, *words):
        client = four.host("client")
        awaited(lambda: client.run("bash", "-c", script).stdout == "SSH-", 20)


@pytest.mark.parametrize("role", ("bridged", "bridged2"))
def test_its_limits_limit(four, role):
    inside, free = four.host(role), four.host("flat")
    assert int(inside.check("nproc")) == max(1, int(free.check("nproc")) // 2)
    assert free.check("sh", "-c", FILLED).strip() == "150000000"
    assert inside.check("sh", "-c", FILLED).strip() != "150000000"


def test_it_is_made_anew_from_its_description(four):
    server, inside = four.host("server"), four.host("bridged")
    inside.check("touch", "/root/written")
    assert server.check("container", "list").split() == ["bridged", "flat"]
    server.check("container", "@bridged", "set", "network=host", "memory=none")
    assert server.check("container", "@bridged", "get", "network").strip() == "bridge"
    server.check("container", "@bridged", "stop")
    assert server.check("container", "@bridged", "state").strip() == "stopped"
    assert {c.name: c.state for c in box.status(OTHER).containers}["bridged"] == "stopped"
    server.check("container", "@bridged", "start", seconds=60)
    inside.close()
    assert inside.run("test", "-d", "/sys/class/net/data0").ok
    assert not inside.run("test", "-e", "/root/written").ok
    answers(four, "bridged")
    server.check("container", "@bridged", "set", "network=bridge", "memory=64M")
    server.check("container", "@bridged", "stop")
    box.up(OTHER)
    inside.close()
    answers(four, "bridged")
    for wrong in ("network=none", "memory=x", "cpus=99", "x=1"):
        assert server.run("container", "@bridged", "set", wrong).code == 1
    assert "no such container: x" in server.run("container", "@x", "state").stderr


def test_it_can_be_cut_off_alone(four):
    with box.Faults(OTHER).cut("bridged", "control"):
        assert not alive("bridged") and alive("flat")
    assert alive("bridged")


def alive(role):
    return next(host for host in box.status(OTHER).hosts if host.role == role).alive


def test_status_and_picture_show_containers(four):
    now = box.status(OTHER)
    assert now.engine == "crun, docker" and [c.name for c in now.containers] == list(ROLES)
    assert box.draw(now).svg.count("container<") == len(ROLES)
    assert four.containers == "crun, docker"


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(n, marks=pytest.mark.torture) for n in range(1, 30))]
)
def test_down_leaves_nothing_of_a_box_with_containers_whose_maker_was_killed(turn):
    before, machine = snapshot(OTHER), of_the_machine()
    words = [sys.executable, "-m", "labkit", "box", "up", "containers", "--name", OTHER]
    # At some moment after the hosts came up, so while the engine starts or runs its first.
    maker_killed(words, Folder(OTHER).lab.exists, random.Random(turn).uniform(0, 2.5))
    box.down(OTHER)
    assert (snapshot(OTHER) - before, of_the_machine()) == (set(), machine)


def test_an_engine_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(container, "SEARCH_PATH", "/nonexistent")
    assert container.choice("any") == ""
    with pytest.raises(BoxError, match="cannot be run by docker here") as refused:
        container.choice("docker")
    assert "docker.io" in refused.value.hint
