"""A guest that moves while it runs; where that fails it is alive on one side, asked on both."""

import json
import random
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from boxes import NAME
from leftovers import another

from labkit import box
from labkit.box import Faults
from labkit.box.guests.moving import Moving
from labkit.errors import BadInput, BoxError, StayedBehind
from labkit.workloads.dvdstore import DvdStore
from tests.box.conftest import MOVING, hypervisor, place, with_cpus

PROGRAMS = ("mount", "perl", "ping", "umount")

pytestmark = [pytest.mark.box, pytest.mark.slow, pytest.mark.when_changed("labkit/box/")]
SHOP = f"{NAME}-6"
CHECKED = re.compile(r'^checked {"orders": (\d+)', re.MULTILINE)
BOOT = "/proc/sys/kernel/random/boot_id"
WRITER = """\
(perl -e '$m = "\\1" x (40 << 20); for (;;) { substr($m, 4096 * int(rand 10240), 1) = "x" }' \
    > /dev/null 2>&1 & echo $! > /tmp/writer); sleep 2"""


def counted(guest):
    return int(guest.check("cat", "/tmp/count"))


def goes_on(guest, since):
    more = f"until [ $(cat /tmp/count) -gt {since} ]; do sleep 0.02; done"
    guest.check("sh", "-c", more)


def on(lab):
    return {
        host: lab.host(host).run("guest", "list").stdout.split() for host in ("server", "server2")
    }


@contextmanager
def writing(lab):
    """The guest writes to its memory as fast as it can."""
    guest = lab.host("guest")
    guest.check("sh", "-c", WRITER)
    try:
        yield
    finally:
        guest.run("sh", "-c", "kill $(cat /tmp/writer)")


def other(name=MOVING):
    return {"server": "server2", "server2": "server"}[place(name)]


def check_on_one_side(lab, expected):
    there = on(lab)
    assert there == {host: ["guest"] if host == expected else [] for host in there}
    assert place() == expected
    goes_on(lab.host("guest"), counted(lab.host("guest")))


def test_a_guest_moves_while_it_runs_and_stays_where_it_was_when_it_cannot(lab_of_two):
    guest, client = lab_of_two.host("guest"), lab_of_two.host("client")
    boot = guest.check("cat", "/proc/sys/kernel/random/boot_id")
    guest.check("sh", "-c", "echo kept | dd of=/dev/vda conv=fsync,notrunc")
    check_that_a_cut_link_leaves_it(lab_of_two)
    before = counted(guest)
    done = box.migrate(MOVING, "guest", to="server2", bandwidth="800M", downtime="500 ms")
    # Nothing was closed: the connection that was open before is the one that answers.
    goes_on(guest, max(before, counted(guest)))
    assert guest.check("cat", "/proc/sys/kernel/random/boot_id") == boot
    assert guest.check("head", "-c", "4", "/dev/vda") == "kept"
    guest.close()
    goes_on(guest, before)
    client.check("ping", "-n", "-c", "1", "-W", "5", guest.address)
    assert (done.origin, done.to) == ("server", "server2")
    assert 0 < done.downtime_ms < done.total_ms and done.rounds >= 1
    assert done.bytes > 10e6
    assert on(lab_of_two) == {"server": [], "server2": ["guest"]}
    now = box.status(MOVING)
    assert (now.state, now.guests[0].on, now.guests[0].state) == ("up", "server2", "running")
    with pytest.raises(BadInput, match="is on server2 already"):
        box.migrate(MOVING, "guest", to="server2")
    # It can be ended there, and is then started there: its disk is kept, its root is in its memory.
    guest.check("touch", "/etc/written-here")
    server2 = lab_of_two.host("server2")
    server2.check("guest", "stop")
    server2.check("guest", "set", "vcpus=2")
    box.up(MOVING)
    guest.close()
    assert guest.check("nproc").strip() == "2"
    assert guest.check("head", "-c", "4", "/dev/vda") == "kept"
    assert guest.check("cat", "/proc/sys/kernel/random/boot_id") != boot
    assert not guest.run("test", "-e", "/etc/written-here").ok
    assert box.migrate(MOVING, "guest", to="server").rounds >= 1
    assert guest.check("nproc").strip() == "2"
    assert guest.check("head", "-c", "4", "/dev/vda") == "kept"


def check_that_a_cut_link_leaves_it(lab):
    def links(host):
        return lab.host(host).check("ls", "/sys/class/net").split()

    guest, server, before = lab.host("guest"), lab.host("server"), links("server2")
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(box.migrate, MOVING, "guest", to="server2", bandwidth="10M", patience=2)
        while '"active"' not in server.check("guest", "qmp", "query-migrate"):
            assert not going.done(), going.exception()
        with Faults(MOVING).cut("server2"), pytest.raises(StayedBehind, match="stays on") as failed:
            going.result()
    assert "nothing arrived" in str(failed.value)
    goes_on(guest, counted(guest))
    assert on(lab) == {"server": ["guest"], "server2": []}
    assert links("server2") == before
    assert box.status(MOVING).guests[0].on == "server"


@pytest.mark.parametrize(
    "guest, words, said",
    [
        ("guest", {"to": "client"}, "User-Mode Linux, which cannot be migrated"),
        ("guest", {"to": "nowhere"}, "known: client, server"),
        ("client", {"to": "server"}, "known: guest"),
        ("guest", {"to": "client", "bandwidth": "fast"}, "is not a bandwidth"),
        ("guest", {"to": "client", "downtime": "none"}, "is not a downtime"),
    ],
)
def test_what_cannot_move_is_refused(lab_file, guest, words, said):
    with pytest.raises(BadInput, match=said):
        box.migrate(NAME, guest, **words)


def test_a_move_whose_target_is_killed_leaves_the_guest_where_it_was(lab_of_two):
    at, to = place(), other()
    there, under_way = lab_of_two.host(to), threading.Event()

    def hears(line):
        if line["host"] == at and line.get("said", {}).get("transferred", 0) > 1 << 20:
            under_way.set()

    def killed():
        assert under_way.wait(60)
        pids = there.check("guest", "@guest", "pids").split()
        there.check("kill", "-KILL", *pids)

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(killed)
        with pytest.raises(StayedBehind, match=f"stays on {at}"):
            box.migrate(MOVING, "guest", to=to, how=Moving(rate="20 Mbit/s"), hears=hears)
        killing.result()
    check_on_one_side(lab_of_two, at)


@pytest.mark.torture
def test_a_guest_that_is_killed_as_it_arrives_is_started_there_and_never_wakes_here(lab_of_two):
    to, pids = other(), []
    there = lab_of_two.host(to)

    def hears(line):
        if line["host"] == to and not pids:
            pids.extend(there.check("guest", "@guest", "pids").split())
        if line["host"] == to and line.get("event") == "RESUME":
            there.check("kill", "-KILL", *pids)

    with pytest.raises(BoxError):
        box.migrate(MOVING, "guest", to=to, hears=hears)
    box.up(MOVING)
    lab_of_two.host("guest").close()
    assert on(lab_of_two) == {host: ["guest"] if host == to else [] for host in on(lab_of_two)}
    assert not lab_of_two.host("guest").run("test", "-e", "/tmp/count").ok


LITTLE = """\
sed 's/^MemAvailable:.*/MemAvailable: 2048 kB/' /proc/meminfo > /run/little || exit
mount --bind /run/little /proc/meminfo"""


def test_a_move_to_a_host_with_too_little_memory_is_refused_before_it_begins(lab_of_two):
    at, to = place(), other()
    there = lab_of_two.host(to)
    there.check("sh", "-c", LITTLE)
    try:
        with pytest.raises(BadInput, match=rf"takes \d+ MiB of memory, and {to} has 2 MiB"):
            box.migrate(MOVING, "guest", to=to)
    finally:
        there.check("umount", "/proc/meminfo")
    check_on_one_side(lab_of_two, at)


# Whole 256 KiB would be searched in a way that overlooks writes (guest_boot.sh).
def test_the_memory_of_an_emulated_guest_has_a_size_that_qemu_searches_page_by_page(lab_of_two):
    at = hypervisor(lab_of_two)
    summary = json.loads(at.check("guest", "@guest", "qmp", "query-memory-size-summary"))
    emulated = box.status(MOVING).accelerator == "tcg"
    assert bool(summary["base-memory"] % (256 << 10)) == emulated


MOVES = """\
from labkit import box
from labkit.box.guests.moving import Moving
box.migrate({name!r}, "guest", to={to!r}, how=Moving(rate="60 Mbit/s", delay="1 ms"))
"""


@pytest.mark.torture
def test_a_move_whose_controller_is_killed_is_settled_when_the_box_is_used_next(lab_of_two):
    at, to = place(), other()
    words = [sys.executable, "-c", MOVES.format(name=MOVING, to=to)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as controller:
        while '"active"' not in lab_of_two.host(at).run("guest", "qmp", "query-migrate").stdout:
            assert controller.poll() is None
            time.sleep(0.1)
        controller.kill()
    box.up(MOVING)
    check_on_one_side(lab_of_two, place())
    box.migrate(MOVING, "guest", to=other(), how=Moving(delay="1 ms"))


@pytest.mark.torture
def test_a_move_that_never_converges_is_given_up_and_says_what_else_there_is(lab_of_two):
    at, how = place(), Moving(rate="100 Mbit/s", deadline=3)
    with writing(lab_of_two):
        with pytest.raises(StayedBehind, match="did not converge") as failed:
            box.migrate(MOVING, "guest", to=other(), how=how)
        assert "stop and copy" in str(failed.value)
        check_on_one_side(lab_of_two, at)


@pytest.mark.torture
def test_it_moves_with_its_disk_on_channels_over_a_long_way_and_back(lab_of_two):
    guest, at = lab_of_two.host("guest"), place()
    guest.check("sh", "-c", "echo moved | dd of=/dev/vda conv=fsync,notrunc")
    lines = []
    how = Moving(channels=2, disks=True, delay="5 ms", rate="800 Mbit/s")
    box.migrate(MOVING, "guest", to=other(), how=how, hears=lines.append)
    assert {"STOP", "RESUME", "BLOCK_JOB_COMPLETED"} <= {line.get("event") for line in lines}
    assert guest.check("head", "-c", "5", "/dev/vda") == "moved"
    box.migrate(MOVING, "guest", to=at, how=Moving(disks=True))
    assert guest.check("head", "-c", "5", "/dev/vda") == "moved"
    check_on_one_side(lab_of_two, at)


# Whether a guest of QEMU without KVM outruns its link depends on the CPUs that are left for it.
@pytest.mark.torture
@pytest.mark.parametrize("escape", ["stop and copy", "post-copy", "throttle"])
def test_each_way_out_brings_a_guest_over_that_writes_faster_than_its_link(lab_of_two, escape):
    to, how = other(), Moving(rate="200 Mbit/s", deadline=3, escape=escape)
    with writing(lab_of_two):
        box.migrate(MOVING, "guest", to=to, how=how)
        check_on_one_side(lab_of_two, to)


def moved(lab, **how):
    done = box.migrate(MOVING, "guest", to=other(), how=Moving(**how))
    check_on_one_side(lab, done.to)
    return done


@pytest.mark.torture
def test_a_faster_link_a_longer_way_and_a_guest_that_writes_show_in_how_it_moves(lab_of_two):
    slow, fast = (moved(lab_of_two, rate=rate) for rate in ("100 Mbit/s", "400 Mbit/s"))
    far = moved(lab_of_two, rate="400 Mbit/s", delay="75 ms")
    with writing(lab_of_two):
        written = moved(lab_of_two, rate="400 Mbit/s", deadline=25, escape="stop and copy")
    assert fast.total_ms < slow.total_ms
    assert far.total_ms > fast.total_ms
    assert written.rounds > fast.rounds


@pytest.mark.parametrize(
    "odd",
    [{"channels": 0}, {"escape": "pray"}, {"deadline": 0}, {"channels": 2, "post_copy": True}],
)
def test_a_move_that_cannot_be_meant_is_refused(odd):
    with pytest.raises(BadInput):
        Moving(**odd)


# Whether the move had ended by then.
def cut_at_some_moment(lab, moment):
    at, to = place(), other()
    cut = threading.Event()

    def fault():
        time.sleep(moment)
        with Faults(MOVING).cut(to):
            cut.wait(30)

    cutter = threading.Thread(target=fault)
    cutter.start()
    try:
        box.migrate(MOVING, "guest", to=to, bandwidth="100M", patience=2)
        expected = to
    except (BoxError, StayedBehind):
        expected = at
    finally:
        cut.set()
        cutter.join()
    # A connection that was idle while its host was cut off may be gone, and nobody knows it yet.
    for host in lab.hosts.values():
        host.close()
    check_on_one_side(lab, expected)
    return expected == to


@pytest.mark.torture
def test_a_link_cut_at_30_moments_leaves_the_guest_on_one_side_each_time(lab_of_two):
    rng = random.Random(23)
    begun = time.monotonic()
    box.migrate(MOVING, "guest", to=other(), bandwidth="100M")
    longest = 1.3 * (time.monotonic() - begun)
    arrived = [cut_at_some_moment(lab_of_two, rng.uniform(0, longest)) for _ in range(30)]
    print(f"30 cuts: {sum(arrived)} moves had ended, {30 - sum(arrived)} stayed; one side each")
    assert 0 < sum(arrived) < 30


@pytest.mark.torture
@pytest.mark.parametrize("vcpus, most", [(1, 50), (2, 20)])
def test_moves_under_load_lose_no_order_that_was_committed(vcpus, most):
    load = DvdStore(users=3, duration=60, warm_up=3, buffers=16, patience=30)
    with another(SHOP, "long-distance") as lab, ThreadPoolExecutor(1) as pool:
        with_cpus(lab, vcpus)
        hosts = {"client": lab.host("client"), "server": lab.host("guest")}
        boot, moves, orders = hosts["server"].check("cat", BOOT), 0, 0
        while moves < most:
            ordering = pool.submit(load.run, hosts)
            while not ordering.done():
                how = Moving(channels=1 + moves % 2, escape="stop and copy", deadline=20)
                box.migrate(SHOP, "guest", to=other(SHOP), how=how)
                moves += 1
            # It refuses a shop that lacks an order, or has one twice.
            assert load.parse(ordering.result())
            orders += int(CHECKED.search(ordering.result())[1])
            print(f"{moves} moves so far, {orders} orders committed, none lost", flush=True)
        assert hosts["server"].check("cat", BOOT) == boot
        assert sorted(on(lab).values()) == [[], ["guest"]]
        assert orders > 500
