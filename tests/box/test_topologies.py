"""Boxes of several guests and several servers."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from boxes import NAME, OTHER
from leftovers import another, snapshot

from labkit import box
from labkit.box import Faults, LinkPlan
from labkit.box.network.splice import Splice, queues
from labkit.box.view import GUESTS
from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.errors import BadInput, BoxError
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_size import VirtualNuma
from tests.box.conftest import hypervisor, with_cpus

PROGRAMS = ("perl", "ping", "tc")

pytestmark = [pytest.mark.box, pytest.mark.slow]

QMP = (
    "use IO::Socket::UNIX; my $qemu = IO::Socket::UNIX->new(Peer => shift) or die $!; <$qemu>;"
    ' for ("qmp_capabilities", @ARGV) { print $qemu qq({"execute": "$_"}\\n); <$qemu> }'
)
UPTIME = "read -r up _ </proc/uptime; echo $up"


def test_each_server_has_its_own_guest():
    with another(OTHER, "two-servers") as lab:
        for host, guest in (("server", "guest"), ("server2", "guest2")):
            assert lab.host(host).check("guest", "list").split() == [guest]
            assert lab.host(host).check("guest", "state").strip() == "running"
        lab.host("guest").check("ping", "-n", "-c", "1", "-W", "2", lab.host("guest2").address)


@pytest.mark.when_changed("labkit/box/")
def test_a_guest_of_qemu_has_several_cpus_and_can_be_paused(hypervisors):
    guest, server = with_cpus(hypervisors, 2), hypervisor(hypervisors)
    assert hypervisors.accelerator in ("kvm", "tcg")
    check_that_a_pause_shows(guest, server)
    hypervisors.host("client").check("ping", "-n", "-c", "1", "-W", "5", guest.address)
    # This machine's kernel may have no netem; the guest's has, and takes our words.
    asked = LinkPlan("lo", "10 Mbit/s", "2 ms", "1 ms", "0.5 %")
    for line in queues(Splice("s2", ()), asked, {"netem"}):
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


RANKS = """\
for task in $(guest pids | sed 's,.*,/proc/&/task/*,'); do
    echo "$(sed 's/.*) //' "$task/stat" | cut -d' ' -f38) $(cat "$task/comm")"
done"""


@pytest.mark.torture
def test_a_guest_of_qemu_with_real_time_priority_answers_while_it_computes(hypervisors):
    guest, server = with_cpus(hypervisors, 1), hypervisor(hypervisors)
    setting = ExclusiveCpu()
    with applied([setting], {"server": server}):
        ranks = {line.partition(" ")[::2] for line in server.check("sh", "-c", RANKS).splitlines()}
        assert {rank for rank, name in ranks if name.startswith("CPU ")} == {"1"}
        assert {rank for rank, name in ranks if not name.startswith("CPU ")} == {"2"}
        with guest.raw("sh", "-c", "while :; do :; done"):
            guest.check("sh", "-c", "cat > /dev/null", stdin=bytes(4 << 20), seconds=60)
        assert server.check("guest", "placement").split()[1] == "fifo"
    assert server.check("guest", "placement").split()[1] == "other"
    with_cpus(hypervisors, 2)
    found = plan([setting], {"server": server}).steps[0].why
    assert "a guest of several CPUs would wait for itself" in found
    assert server.run("guest", "set", "policy=fifo").code == 1


@pytest.mark.torture
def test_a_guest_of_qemu_sees_its_cpus_as_the_nodes_that_it_is_given(hypervisors):
    guest, server = with_cpus(hypervisors, 2), hypervisor(hypervisors)
    nodes = ("sh", "-c", "cat /sys/devices/system/node/node[0-9]*/cpulist")
    assert guest.check(*nodes).split() == ["0-1"]
    with applied([VirtualNuma("guest", 1)], {"server": server}):
        guest.close()
        assert guest.check(*nodes).split() == ["0", "1"]
    guest.close()
    assert guest.check(*nodes).split() == ["0-1"]


SHAPED = """
[hosts.client]
[hosts.server]
[guests.guest]
on = "server"
[links.client]
rate = "20 Mbit/s"
[links.server]
delay = "1 ms"
loss = "2 %"
"""


@pytest.mark.when_changed("labkit/box/")
def test_a_topology_with_links_comes_up_with_each_measured():
    with another(OTHER, SHAPED) as lab:
        links = {link.role: link for link in box.status(OTHER).links}
        assert {role: set(link.asked) for role, link in links.items()} == {
            "client": {"rate"}, "server": {"delay", "loss"},
        }  # fmt: skip
        assert all(set(link.measured) == set(link.asked) for link in links.values()), links
        assert lab.links["client"]["rate_measured"].endswith("Mbit/s")


def test_a_kernel_without_queues_has_its_rate_from_the_relay(monkeypatch, lab_file):
    monkeypatch.setattr("labkit.box.network.shaping.kinds_known", set)
    with Faults(NAME).shape("client", rate="10 Mbit/s") as link:
        assert link.by == "relay"
        assert 0 < float(link.measured["rate"].split()[0]) < 11


# F22, I-PAUSE: its clock stands still with it, and ours does not.
def check_that_a_pause_shows(guest, server):
    def told(word):
        server.check("perl", "-e", QMP, f"/run/{GUESTS}/guest/run/qmp", word)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(guest.run, "sh", "-c", f"{UPTIME}; sleep 1; {UPTIME}")
        time.sleep(0.5)
        told("stop")
        time.sleep(4)
        told("cont")
        done = running.result()
    begun, ended = map(float, done.stdout.split())
    assert done.code == 0 and done.seconds >= 4 and ended - begun <= done.seconds - 3


@pytest.mark.parametrize(("size", "said"), [
    ('memory = "900000M"', "900000 MiB"), ('cpus = "all"', "unknown key"),
    ('disks = ["999999M", "999999M"]', r"(?s)KiB are free.*smaller disks than 1999998 MiB"),
])  # fmt: skip
def test_an_impossible_box_starts_nothing(tmp_path, size, said):
    file, before = tmp_path / "big.toml", snapshot(OTHER)
    file.write_text(f'[hosts.a]\n[guests.g]\non = "a"\n{size}\n')
    with pytest.raises((BadInput, BoxError), match=said):
        box.up(OTHER, made_of=str(file))
    assert snapshot(OTHER) == before


def ssh(*words):
    command = [sys.executable, "-m", "labkit", "box", "ssh", "--name", NAME, *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_box_ssh_runs_a_command_on_a_host_as_it_is_written(lab_file):
    done = ssh("guest", "printf", "%s|", "a b", "$HOME", "'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a b|$HOME|'|", "")
    assert ssh("client", "sh", "-c", "exit 3").returncode == 3
    refused = ssh("nobody", "true")
    assert refused.returncode == 2 and "known: client, guest, server" in refused.stderr
