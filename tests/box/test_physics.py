"""What is asked of the box is so: slower is slower, longer is longer, and a limit limits."""

import json
import os
import re
import subprocess
import sys

import pytest
from boxes import NAME

from labkit import box
from labkit.box.cgroup import cpu_sets
from labkit.box.folder import Folder
from labkit.box.network.shaping import Shaping
from labkit.changes.in_force import applied
from labkit.controls import kept
from labkit.errors import CommandFailed
from labkit.running import control_runs
from labkit.running.open_lab import facts
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.mtu import Mtu

PROGRAMS = ("nsenter", "ping", "taskset")

pytestmark = pytest.mark.box
TWO_CPUS = len(os.sched_getaffinity(0)) > 1


CLOCKED = "import socket, sys, time\n"


def started(role, program, *words):
    """A program of this machine's Python in a host's network, with its output to read."""
    pid = str(json.loads(Folder(NAME).pids.read_text())[role])
    command = ["nsenter", "-t", pid, "-n", sys.executable, "-c",
               CLOCKED + program, *map(str, words)]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(role, program, *words):
    """What the program prints, to its end."""
    with started(role, program, *words) as process:
        text = process.stdout.read()
    assert process.returncode == 0
    return text


TAKES = """
with socket.create_server((sys.argv[1], 5001)) as door:
    print("open", flush=True)
    there, _ = door.accept()
    total, counted = 0, 0.0
    begun = time.perf_counter()
    while taken := len(there.recv(1 << 20)):
        now = time.perf_counter()
        # What filled the queues at first is not counted.
        if counted:
            total += taken
        elif now > begun + 0.5:
            counted = now
    print(8 * total / (time.perf_counter() - counted))
"""
GIVES = """
with socket.create_connection((sys.argv[1], 5001)) as there:
    end = time.perf_counter() + float(sys.argv[2])
    while time.perf_counter() < end:
        there.sendall(b"x" * 65536)
"""


def throughput(giver, taker, address, seconds=1.2):
    """Bits per second of one TCP connection."""
    with started(taker, TAKES, address) as process:
        assert process.stdout.readline() == "open\n"
        said(giver, GIVES, address, seconds)
        return float(process.stdout.read())


def fastest(lab, role, count=200):
    """The shortest of many round trips, in ms: what else the machine does makes none shorter."""
    words = ("ping", "-n", "-c", str(count), "-i", "0.005", "-W", "5", lab.host(role).address)
    found = [float(time) for time in re.findall(r"time=([\d.]+)", lab.host("client").check(*words))]
    return min(found)


def test_throughput_falls_when_the_rate_falls(lab, faults):
    address, found = lab.host("server").address, {}
    for rate in (5, 40):
        with faults.shape("server", rate=f"{rate} Mbit/s"):
            found[rate] = throughput("client", "server", address) / 1e6
            found[-rate] = throughput("server", "client", lab.host("client").address) / 1e6
    free = throughput("client", "server", address) / 1e6
    assert all(found[way * rate] < 1.15 * rate for rate in (5, 40) for way in (1, -1)), found
    assert 2 * found[5] < found[40] < free and 2 * found[-5] < found[-40] < free, (found, free)


@pytest.mark.parametrize("role", ["server", "guest"])
@pytest.mark.parametrize("delay", [1, 10])
def test_the_round_trip_grows_by_the_delay_of_both_directions(lab, faults, role, delay):
    before = fastest(lab, role)
    with faults.shape("server", delay=f"{delay} ms") as link:
        grown = fastest(lab, role) - before
        asked, unit = link.measured["delay"].split()
    assert abs(grown - 2 * delay) <= max(0.2, 0.2 * delay), grown
    assert unit == "ms" and delay <= float(asked) < 3 * delay + 5
    assert fastest(lab, role) < before + delay


def test_a_link_that_loses_frames_loses_about_as_many_as_asked(lab, faults):
    words = ("ping", "-n", "-q", "-c", "600", "-i", "0.002", "-W", "1", lab.host("server").address)
    with faults.shape("server", loss="10 %"):
        said_so = lab.host("client").run(*words).stdout
    # One of a hundred thousand such samples is outside of this: 600 x 0.19, and 4.3 deviations.
    lost = 600 - int(re.search(r"(\d+) received", said_so)[1])
    assert 72 < lost < 156, said_so


def test_a_cut_silences_a_link_that_is_shaped(lab, faults):
    words = ("ping", "-n", "-q", "-c", "3", "-i", "0.1", "-W", "1")
    with faults.shape("server", delay="1 ms"), faults.cut("server"):
        for role in ("server", "guest"):
            assert not lab.host("client").run(*words, lab.host(role).address).ok
    assert lab.host("client").run(*words, lab.host("server").address).ok


def test_hosts_alone_decide_how_large_a_packet_may_be(lab):
    large = ("ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", "8000",
             lab.host("server").address)  # fmt: skip
    assert not lab.host("client").run(*large).ok
    with applied([Mtu(9000, role=role) for role in ("client", "server")], lab.hosts):
        assert lab.host("client").run(*large).ok


@pytest.mark.skipif(not TWO_CPUS, reason="one CPU")
def test_a_pinned_guest_stays_on_its_cpu_whatever_it_does(lab):
    server, guest = lab.host("server"), lab.host("guest")
    (own,) = {cpu for host in box.status(NAME).hosts if host.role == "server" for cpu in host.cpus}
    watch = "for pid in $(guest pids); do cut -d' ' -f39 /proc/$pid/stat; done"
    spin = guest.check("sh", "-c", "yes > /dev/null & echo $!").strip()
    try:
        seen = {cpu for _ in range(20) for cpu in server.run("sh", "-c", watch).stdout.split()}
    finally:
        guest.check("kill", spin)
    assert seen == {str(own)}


@pytest.mark.skipif(not TWO_CPUS or not cpu_sets(), reason="no CPU sets of groups here")
def test_a_host_cannot_leave_its_cpus(lab):
    taken = set(box.status(NAME).hosts[0].cpus)
    other = next(cpu for cpu in sorted(os.sched_getaffinity(0)) if cpu not in taken)
    with pytest.raises(CommandFailed, match="Invalid argument"):
        lab.host("client").check("taskset", "-c", str(other), "true")


FRAMES = """
there = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
there.bind(("data0", 0))
frame = bytes.fromhex(sys.argv[1] + sys.argv[2] + "88b5") + b"x" * 86
costs = []
for _ in range(60):
    begun = time.thread_time()
    for _ in range(1000):
        try:
            there.send(frame)
        except OSError:
            pass
    costs.append(time.thread_time() - begun)
print(1000 * min(costs))
"""


def test_the_way_to_a_guest_costs_more_without_a_direct_path(lab):
    """In CPU time of a frame, on this machine: round trips of the two do not differ at the median.

    The guest stands still meanwhile, so that only the way counts. On some machines the same frames
    cost twice as much for seconds at a time, so that the least of many decides.
    """

    def cost():
        lab.host("client").check("ping", "-n", "-c", "2", "-W", "5", lab.host("guest").address)
        with applied([GuestPower("paused")], lab.hosts):
            return float(said("client", FRAMES, mac("guest"), mac("client")))

    usual, direct = [], []
    for _ in range(9):
        usual.append(cost())
        with applied([GuestNic("direct")], lab.hosts):
            direct.append(cost())
    assert min(direct) < min(usual)


def mac(role):
    return Shaping.of(NAME).layout.mac(1, role).replace(":", "")


def test_what_was_measured_stands_beside_what_was_asked(lab, faults, lab_file):
    assert "links" not in facts(lab)
    with faults.shape("client", rate="50 Mbit/s", delay="2 ms", jitter="500 us") as link:
        assert link.asked == {"rate": "50 Mbit/s", "delay": "2 ms", "jitter": "500 us"}
        assert set(link.measured) == set(link.asked)
        rate, unit = link.measured["rate"].split()
        assert unit == "Mbit/s" and 5 < float(rate) < 55
        assert box.status(NAME).links == (link,)
        link_kept = facts(lab)["links"]["client"]
        assert link_kept["rate_measured"] == link.measured["rate"]
        assert link_kept["delay"] == "2 ms"
        assert "50 Mbit/s" in box.draw(box.status(NAME)).svg
        json.dumps(link_kept)
    assert "links" not in facts(lab) and box.status(NAME).links == ()


def test_a_known_delay_is_found_with_its_size_and_taken_out_again(lab, monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    said = []
    found = control_runs.measure(lab, blocks=3, say=said.append)
    assert found.size_found, found.lines()
    assert found.put_in == 500 and found.equal.enough and len(said) == 12
    assert not Shaping.of(NAME).links
    assert kept(lab.name) == found
