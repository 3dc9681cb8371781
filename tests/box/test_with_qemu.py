"""Guests that leave a choice come up with QEMU as well: all topologies, containers, a study."""

import json

import pytest
from boxes import OTHER
from leftovers import another
from waiting import awaited

from labkit import box
from labkit.box import topology
from labkit.box.guests import accelerator
from tests.box.test_accelerator import needs_qemu

PROGRAMS = ("bridge", "ping")

pytestmark = [pytest.mark.box, pytest.mark.slow, pytest.mark.torture, needs_qemu]

PAIR = """\
[hosts.client]
[hosts.server]
[guests.guest]
on = "server"
[containers.inner]
on = "guest"
"""
CHOOSES = [name for name in topology.names()
           if any(guest.kind == "auto" for guest in topology.find(name).guests)]  # fmt: skip


@pytest.fixture(autouse=True)
def _by_emulation(monkeypatch):
    monkeypatch.setenv(accelerator.VARIABLE, "tcg")


def looked_at(lab):
    """What each machine of a lab says of itself."""
    return {role: host.check("hostname").strip() for role, host in lab.hosts.items()}


def test_a_guest_of_qemu_has_its_host_s_programs_containers_and_both_ways_to_the_wire():
    with another(OTHER, PAIR) as lab:
        client, server, guest = (lab.host(role) for role in ("client", "server", "guest"))
        assert lab.accelerator == "tcg" and looked_at(lab)["inner"] == f"{OTHER}-inner"
        assert guest.run("touch", "/usr/mine").code and not guest.run("touch", "/tmp/mine").code
        assert guest.check("cat", "/proc/cmdline").startswith("console=ttyS0")
        for nic, link in (("direct", "direct0"), ("bridge", "uplink0")):
            server.check("guest", "set", f"nic={nic}")
            moved = sent(server, link)
            client.check("ping", "-n", "-q", "-c", "20", "-i", "0.01", guest.address)
            assert sent(server, link) - moved >= 20, nic
        # Killed as by the kernel, it is gone whole; what is begun next is as new.
        server.check("sh", "-c", "kill -KILL $(guest pids)")
        awaited(lambda: server.check("guest", "state") == "stopped\n", 5)
        box.up(OTHER)
        guest.close()
        assert guest.run("ls", "/tmp/mine").code


def sent(server, link):
    return int(server.check("cat", f"/sys/class/net/{link}/statistics/tx_packets"))


@pytest.mark.parametrize("name", CHOOSES)
def test_every_topology_comes_up_with_guests_of_qemu_and_goes(name):
    with another(OTHER, name) as lab:
        found = looked_at(lab)
        assert found == {role: f"{OTHER}-{role}" for role in topology.find(name).roles}
        assert {guest.state for guest in box.status(OTHER).guests} == {"running"}
        assert "uml" not in lab.accelerator


def test_a_study_runs_with_guests_of_qemu_and_its_verdicts_say_so(labkit):
    with another(OTHER, "pair") as lab:
        words = ["run", "lat_ping", "--where", str(lab.path), "-p", "repeats=2", "-p", "count=100"]
        done = labkit(*words, "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0 and "guests by TCG" in said["note"], done.stderr
    assert {"Native", "VM-Default", "VM-SRIOV"} <= {row["condition"] for row in said["rows"]}
