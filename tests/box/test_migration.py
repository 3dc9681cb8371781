"""A guest that moves to another host while it runs, and one that cannot."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from boxes import MOVING, NAME

from labkit import box
from labkit.box import Faults
from labkit.errors import BadInput, StayedBehind

PROGRAMS = ("ping",)

pytestmark = [pytest.mark.box, pytest.mark.slow, pytest.mark.when_changed("labkit/box/")]


def counted(guest):
    return int(guest.check("cat", "/tmp/count"))


def goes_on(guest, since):
    more = f"until [ $(cat /tmp/count) -gt {since} ]; do sleep 0.02; done"
    guest.check("sh", "-c", more)


def on(lab):
    return {
        host: lab.host(host).run("guest", "list").stdout.split() for host in ("server", "server2")
    }


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
