"""Arrays of disks: what they cost, what is never written to, and a disk that fails."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from boxes import NAME
from figures import figures
from leftovers import another_with_arrays

from labkit.box.guests.disk import Disk
from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.lab import Lab
from labkit.studies.raid_iometer import study
from labkit.transports.local import Local
from labkit.workloads import disk_array as module
from labkit.workloads.disk_array import DiskArray

PROGRAMS = ("blkid", "dmsetup", "fio", "mdadm", "mkfs.ext4", "mount", "umount")
SHORT = replace(study.workload, duration=3)
CASE = Path(__file__).parents[1] / "cases/DiskArray/pool/stdout.txt"
DISKS = ("/dev/vda", "/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde")


@pytest.fixture(scope="module")
def guest():
    """A guest with five disks, and what makes arrays of them."""
    with another_with_arrays(f"{NAME}-arr", "arrays", *PROGRAMS) as lab:
        host = lab.host("guest")
        assert SHORT.lacking({"server": host}) == ""
        yield host


def test_a_host_without_named_disks_and_a_volume_that_is_too_large_are_named():
    bare = Host("server", "127.0.0.1", Local())
    assert "names 0 disks of server" in SHORT.lacking({"server": bare})
    full = replace(bare, disks=DISKS)
    said = replace(SHORT, volume=25).lacking({"server": full})
    assert "no space: a volume of 25 MiB" in said and "24 MiB" in said


@pytest.mark.parametrize(("line", "said"), [
    ('disks = "/dev/sdb /dev/sdb"', "twice"), ('disks = "sdb"', "no path of a disk"),
    ('disks = "/dev/sdb;reboot"', "no path of a disk"),
])  # fmt: skip
def test_a_lab_file_names_each_disk_once_by_its_path(tmp_path, line, said):
    file = tmp_path / "lab.toml"
    file.write_text(f'[hosts.server]\ncontrol = "192.0.2.1"\n{line}\n')
    with pytest.raises(BadInput, match=said):
        Lab.read(file)
    file.write_text('[hosts.server]\ncontrol = "192.0.2.1"\ndisks = "/dev/sdb /dev/disk/by-id/a"\n')
    assert Lab.read(file).host("server").disks == ("/dev/sdb", "/dev/disk/by-id/a")


def test_only_a_disk_of_qemu_can_be_held_to_a_rate():
    assert Disk.of("32M raw 200/s", "guest", "tcg").rate == 200
    assert str(Disk.of("32M 200/s", "guest", "kvm")) == "32M raw 200/s"
    with pytest.raises(BadInput, match="only QEMU"):
        Disk.of("32M 200/s", "guest", "uml")


def test_what_qemu_does_with_requests_is_asked_of_each_disk():
    text = "32M qcow2 9/s cache=none aio=native iothread"
    disk = Disk.of(text, "guest", "tcg")
    assert str(disk) == text and disk.drive == "cache=none,aio=native"
    assert str(Disk.of("32M iothread", "guest", "tcg")) == "32M raw iothread"
    assert Disk.of("32M", "guest", "tcg").drive == "cache=writeback,aio=threads"
    with pytest.raises(BadInput, match="goes past the cache"):
        Disk.of("32M aio=native", "guest", "tcg")
    for odd in ("32M cache=some", "32M aio=native cache=none", "32M iothread 9/s"):
        with pytest.raises(BadInput, match="cannot have a disk"):
            Disk.of(odd, "guest", "tcg")


@pytest.mark.parametrize(("before", "after", "said"), [
    ("steady yes", "steady no", "never became steady"), ('"error" : 0', '"error" : 5', "error 5"),
    ("=== fio ===\n{", "=== fio ===\n", "cannot be read"),
])  # fmt: skip
def test_a_run_that_was_not_steady_or_failed_is_no_figure(before, after, said):
    text = CASE.read_text()
    assert before in text
    with pytest.raises(ResultsError, match=said):
        DiskArray.parse(text.replace(before, after))


def test_latencies_are_those_that_fio_has_a_mean_of():
    text = CASE.read_text()
    job = json.loads(text[text.index("{") : text.rindex("}") + 1])["jobs"][0]
    for side in ("read", "write"):
        assert figures(DiskArray, text)[f"{side} latency"] == pytest.approx(
            job[side]["clat_ns"]["mean"] / 1e6, rel=0.02
        )


@pytest.mark.box
@pytest.mark.torture
def test_a_small_write_costs_four_requests_and_the_figures_are_those_of_fio_by_hand(guest):
    text = SHORT.run({"server": guest})
    found = figures(DiskArray, text)
    assert 3.3 < found["disk requests per write"] < 4.1
    with SHORT.made(guest):
        SHORT.slow_down(guest)
        typed = guest.check(
            "fio", "--name=hand", "--filename=/dev/mapper/labkit-volume", "--ioengine=libaio",
            "--direct=1", "--rw=randrw", "--rwmixread=70", "--bs=4k", "--iodepth=64",
            "--norandommap", "--time_based", "--ramp_time=4", "--runtime=4",
            "--output-format=json", seconds=60,
        )  # fmt: skip
    sides = json.loads(typed[typed.index("{") :])["jobs"][0]
    by_hand = sides["read"]["iops"] + sides["write"]["iops"]
    assert found["throughput"] / by_hand == pytest.approx(1, abs=0.15)
    # Nothing of it stays, neither a mapping nor a byte.
    assert not guest.run("sh", "-c", "ls /dev/mapper/labkit-* /dev/md94").stdout
    assert guest.run("sh", "-c", module.MAKE, "array", "look", "16", *DISKS, seconds=60).ok


HOLDING = [
    ("holds ext4", "mkfs.ext4 -q -F /dev/vdb"),
    ("holds dos", r"printf '\203\0\0\0\0\10\0\0\0\20\0\0' | dd of=/dev/vdb bs=1 seek=450; "
                  r"printf '\125\252' | dd of=/dev/vdb bs=1 seek=510"),
    ("is mounted", "mkfs.ext4 -q -F /dev/vdb && mkdir -p /mnt && mount -o ro /dev/vdb /mnt"),
    ("holds data", "echo mine | dd of=/dev/vdb bs=1 seek=7000000"),
]  # fmt: skip


@pytest.mark.box
@pytest.mark.torture
@pytest.mark.parametrize(("said", "made"), HOLDING)
def test_a_disk_that_holds_anything_is_named_and_stays_as_it_is(guest, said, made):
    guest.check("sh", "-c", f"({made}) 2>&1")
    try:
        before = guest.check("cksum", "/dev/vdb")
        with pytest.raises(BadInput, match=f"/dev/vdb {said}: nothing was written"):
            SHORT.run({"server": guest})
        assert guest.check("cksum", "/dev/vdb") == before
    finally:
        guest.run("umount", "/mnt")
        guest.check("dd", "if=/dev/zero", "of=/dev/vdb", "bs=1M", "count=32")


@pytest.mark.box
@pytest.mark.torture
def test_a_disk_that_fails_in_the_middle_of_a_run_is_named(guest):
    fail = """PATH=$PATH:/usr/sbin DM_DISABLE_UDEV=1; export PATH DM_DISABLE_UDEV
        until dmsetup table labkit-vde 2> /dev/null | grep -q delay; do sleep 0.2; done; sleep 5
        dmsetup load labkit-vdc --table "0 65536 error"
        dmsetup suspend labkit-vdc; dmsetup resume labkit-vdc"""

    def failing():
        guest.check("sh", "-c", fail, seconds=120)

    beside = threading.Thread(target=failing)
    beside.start()
    try:
        with pytest.raises(HostError, match="degraded: it lost vdc in the middle"):
            replace(SHORT, duration=12).run({"server": guest})
    finally:
        beside.join()
        guest.check("dd", "if=/dev/zero", "of=/dev/vdc", "bs=1M", "count=32")
