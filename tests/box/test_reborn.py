"""What only a machine of its own shows: a real reboot, and cards that are pulled out."""

import pytest
from reborn import DISKS, LACKING, disk, machine  # noqa: F401
from waiting import awaited

from labkit.changes.in_force import InForce
from labkit.changes.journal import hello
from labkit.changes.lease import Owner
from labkit.changes.plan import plan
from labkit.changes.restore import restore
from labkit.settings.boot import BootOptions
from labkit.settings.mtu import Mtu
from labkit.settings.storage import ReadAhead

PROGRAMS = ("ip",)

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.skipif(LACKING, reason="no QEMU, no kernel for its guests, or no mkfs.ext4"),
]
BOOT = BootOptions(("nohz=off", "hugepages=3"))


@pytest.fixture
def host(machine):  # noqa: F811
    with machine.host() as there:
        yield there


def state(host):
    found = plan([BOOT], {"server": host})
    (step,) = found.told()["steps"]
    pages = host.check("sed", "-n", "s/^HugePages_Total: *//p", "/proc/meminfo").strip()
    return (step["state"], step["current"], pages), found.hosts["server"]


def left_in_force(host, setting):
    """A setting as a process leaves it that has ended; those that wait for the next start."""
    changes = InForce({"server": host}, Owner.me("lat_feature boot"))
    changes.move_to([setting])
    waiting = changes.waiting()
    changes.leave()
    return waiting, changes.before[setting.thing]


@pytest.mark.torture
def test_a_boot_option_is_configured_runs_after_a_real_reboot_and_goes_back(machine, host):  # noqa: F811
    assert left_in_force(host, BOOT) == ([BOOT], "none of ours")
    assert machine.options() == BOOT.wanted
    found, before = state(host)
    assert found == ("waits for a reboot", BOOT.wanted, "0")
    assert "unfinished" in before.trouble("server") and "anew" not in before.trouble("server")
    machine.anew(host)
    found, after = state(host)
    assert found == ("in force", BOOT.wanted, "3")
    assert after.boot != before.boot and after.lives == "free"
    assert "the host has rebooted since" in after.trouble("server")
    assert restore(host).ok and machine.options() == ""
    machine.anew(host)
    found, last = state(host)
    assert found == ("possible", "none of ours", "0") and not last.open


def until(host, test):
    awaited(lambda: host.run("sh", "-c", test).ok, why=lambda: (test, host.check("ip", "link")))


@pytest.mark.torture
def test_a_card_that_was_pulled_out_is_said_and_one_in_its_place_is_left_alone(machine, host):  # noqa: F811
    text = "[ -e /sys/class/net/eth1 ]"
    card = {"driver": "virtio-net-pci", "addr": "0x5", "romfile": ""}
    left_in_force(host, Mtu(1400))
    machine.pull_out("data")
    # In its slot, by its name, with the very value that we had made: only not the same.
    machine.told("device_add", id="third", netdev="other", mac="52:54:00:00:00:09", **card)
    until(host, text)
    host.check("ip", "link", "set", "eth1", "mtu", "1400")
    (line,) = restore(host).lines
    assert "cannot be read any more, so '1500' is not put back" in line
    assert "eth1 (0000:00:05.0 52:54:00:00:00:02) is gone" in line
    assert host.check("cat", "/sys/class/net/eth1/mtu") == "1400\n" and hello(host).open
    machine.pull_out("third")
    machine.told("device_add", id="data", netdev="data", mac="52:54:00:00:00:02", **card)
    until(host, text)
    assert restore(host).ok and not hello(host).open


def ahead(host):
    """How much is read ahead from each disk, by its own name; and the names it has there."""
    look = "echo $(cat $d/serial) $(cat $d/queue/read_ahead_kb) $d"
    said = host.check("sh", "-c", f"cd /sys/block; for d in vd[b-z]; do {look}; done").splitlines()
    return {name: (kib, now) for name, kib, now in map(str.split, said)}


@pytest.mark.torture
def test_a_disk_of_another_name_goes_back_and_the_one_with_its_name_does_not(machine, host):  # noqa: F811
    was = ahead(host)
    assert {*was} == {*DISKS}
    left_in_force(host, ReadAhead(was["red"][1], 512))
    for name in DISKS:
        machine.pull_out(name)
    until(host, "[ ! -e /sys/block/vdb ] && [ ! -e /sys/block/vdc ]")
    for name in sorted(DISKS, key=lambda name: was[name][1], reverse=True):
        machine.told("device_add", **disk(name))
        until(host, f"grep -qx {name} /sys/block/vd?/serial")
    now = ahead(host)
    assert [now[name][1] for name in DISKS] == [was[name][1] for name in DISKS[::-1]]
    # As if it were still so after another start: both have the very value that we had made.
    host.check("sh", "-c", "echo 512 | tee /sys/block/vd[bc]/queue/read_ahead_kb")
    assert restore(host).ok and not hello(host).open
    assert ahead(host) == {
        **now,
        "red": (was["red"][0], now["red"][1]),
        "blue": ("512", now["blue"][1]),
    }
