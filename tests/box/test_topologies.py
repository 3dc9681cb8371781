"""Boxes of several guests and several servers."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from labkit import box
from labkit.box import Faults, LinkPlan
from labkit.box.splice import Splice, queues
from labkit.box.view import GUESTS
from labkit.errors import BadInput, BoxError
from labkit.lab import opened
from tests.box.conftest import NAME, OTHER
from tests.box.machine import snapshot

pytestmark = [pytest.mark.box, pytest.mark.slow]

QMP = (
    "use IO::Socket::UNIX; my $qemu = IO::Socket::UNIX->new(Peer => shift) or die $!; <$qemu>;"
    ' for ("qmp_capabilities", @ARGV) { print $qemu qq({"execute": "$_"}\\n); <$qemu> }'
)
FOUR = ("guest", "guest2", "guest3", "guest4")


@pytest.fixture
def made_of(request):
    box.down(OTHER)
    before = snapshot(OTHER)
    try:
        with opened(box.up(OTHER, made_of=request.param)) as lab:
            yield lab
    finally:
        box.down(OTHER)
    assert snapshot(OTHER) - before == set()


@pytest.mark.parametrize("made_of", ["four-guests"], indirect=True)
def test_four_guests_share_a_host_and_nothing_else(made_of):
    server, client = made_of.host("server"), made_of.host("client")
    assert server.check("guest", "list").split() == list(FOUR)
    for guest in FOUR:
        host = made_of.host(guest)
        assert host.check("hostname").strip() == f"{OTHER}-{guest}"
        client.check("ping", "-n", "-c", "1", "-W", "2", host.address)
        assert host.run("cat", "/run/labkit/guests/guest/run/labkit/host_key").code
    server.check("guest", "@guest2", "stop")
    server.check("guest", "@guest3", "set", "nic=direct", "batch=1")
    server.check("guest", "@guest3", "stop")
    server.check("guest", "@guest3", "start")
    states = {guest.name: guest.state for guest in box.status(OTHER).guests}
    assert states == {name: "stopped" if name == "guest2" else "running" for name in FOUR}
    assert server.check("guest", "@guest", "get", "nic").strip() == "bridge"
    client.check("ping", "-n", "-c", "1", "-W", "2", made_of.host("guest3").address)
    box.up(OTHER)
    assert {guest.state for guest in box.status(OTHER).guests} == {"running"}
    with pytest.raises(BoxError, match="made of four-guests and not of pair"):
        box.up(OTHER, made_of="pair")
    assert "no such guest: x" in server.run("guest", "@x", "state").stderr


@pytest.mark.parametrize("made_of", ["two-servers"], indirect=True)
def test_each_server_has_its_own_guest(made_of):
    for host, guest in (("server", "guest"), ("server2", "guest2")):
        assert made_of.host(host).check("guest", "list").split() == [guest]
        assert made_of.host(host).check("guest", "state").strip() == "running"
    made_of.host("guest").check("ping", "-n", "-c", "1", "-W", "2", made_of.host("guest2").address)


@pytest.mark.parametrize("made_of", ["two-hypervisors"], indirect=True)
def test_a_guest_of_qemu_has_several_cpus_and_a_root_of_its_own_and_can_be_paused(made_of):
    guest, server = made_of.host("guest"), made_of.host("server")
    assert guest.check("nproc").strip() == "2"
    assert made_of.accelerator in ("kvm", "tcg")
    check_that_a_pause_shows(guest, server)
    before = guest.check("cat", "/proc/sys/kernel/random/boot_id")
    guest.check("touch", "/etc/written-here")
    made_of.host("client").check("ping", "-n", "-c", "1", "-W", "5", guest.address)
    # This machine's kernel may have no netem; the guest's has, and takes our words.
    asked = LinkPlan("lo", "10 Mbit/s", "2 ms", "1 ms", "0.5 %")
    for line in queues(Splice("s2", "switch", (), "data"), asked, {"netem"}):
        words = line.split()
        guest.check("tc", *words[:3], "lo", *words[4:])
        guest.check("tc", "qdisc", "del", "dev", "lo", "root")
    assert json.loads(server.check("guest", "qmp", "query-status"))["status"] == "running"
    server.check("guest", "qmp", "migrate-set-parameters", '{"downtime-limit": 123}')
    asked = json.loads(server.check("guest", "qmp", "query-migrate-parameters"))
    assert asked["downtime-limit"] == 123
    assert "has not been found" in server.run("guest", "qmp", "no-such").stderr
    refused = server.run("guest", "set", "nic=direct")
    assert refused.code == 1 and "has no choice of nic=direct" in refused.stderr
    server.check("guest", "stop")
    server.check("guest", "set", "vcpus=1")
    server.check("guest", "start", seconds=90)
    guest.close()
    assert guest.check("nproc").strip() == "1"
    assert guest.check("cat", "/proc/sys/kernel/random/boot_id") != before
    assert not guest.run("test", "-e", "/etc/written-here").ok


SHAPED = """
[hosts.client]
[hosts.server]
[guests.guest]
on = "server"
[links.client]
rate = "20 Mbit/s"
[links.guest]
delay = "1 ms"
loss = "2 %"
mtu = "1400"
[links.server]
mtu = "9000"
"""


def test_a_topology_with_links_comes_up_with_each_measured(tmp_path):
    file, before = tmp_path / "shaped.toml", snapshot(OTHER)
    file.write_text(SHAPED)
    try:
        with opened(box.up(OTHER, made_of=str(file))) as lab:
            links = {link.role: link for link in box.status(OTHER).links}
            assert {role: set(link.asked) for role, link in links.items()} == {
                "client": {"rate"}, "guest": {"delay", "loss", "mtu"}, "server": {"mtu"},
            }  # fmt: skip
            assert all(set(link.measured) == set(link.asked) for link in links.values()), links
            assert links["guest"].measured["mtu"] == "1400"
            # A pair of links leaves room for a VLAN tag of 4 bytes, and does not look for one.
            assert links["server"].measured["mtu"] in ("9000", "9004")
            assert lab.links["client"]["rate_measured"].endswith("Mbit/s")
    finally:
        box.down(OTHER)
    assert snapshot(OTHER) == before


def test_a_kernel_without_queues_has_its_rate_from_the_relay(monkeypatch, lab_file):
    monkeypatch.setattr("labkit.box.shaping.kinds_known", set)
    with Faults(NAME).shape("client", rate="10 Mbit/s") as link:
        assert link.by == "relay"
        assert 0 < float(link.measured["rate"].split()[0]) < 11


# F22, I-PAUSE: its clock stands still with it, and ours does not.
def check_that_a_pause_shows(guest, server):
    def told(word):
        server.check("perl", "-e", QMP, f"/run/{GUESTS}/guest/run/qmp", word)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(guest.run, "sleep", "1")
        time.sleep(0.5)
        told("stop")
        time.sleep(4)
        told("cont")
        done = running.result()
    assert done.code == 0 and done.seconds >= 4 and done.host_seconds <= done.seconds - 3


def test_an_impossible_box_starts_nothing(tmp_path):
    file, before = tmp_path / "big.toml", snapshot(OTHER)
    file.write_text('[hosts.a]\n[guests.g]\non = "a"\nmemory = "900000M"\n')
    with pytest.raises(BoxError, match="900000 MiB"):
        box.up(OTHER, made_of=str(file))
    with pytest.raises(BadInput):
        box.up(OTHER, made_of="no-such")
    assert snapshot(OTHER) == before


def ssh(*words):
    command = [sys.executable, "-m", "labkit.cli", "box", "ssh", "--name", NAME, *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_box_ssh_runs_a_command_on_a_host_as_it_is_written(lab_file):
    done = ssh("guest", "printf", "%s|", "a b", "$HOME", "'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a b|$HOME|'|", "")
    assert ssh("client", "sh", "-c", "exit 3").returncode == 3
    refused = ssh("nobody", "true")
    assert refused.returncode == 2 and "known: client, guest, server" in refused.stderr
