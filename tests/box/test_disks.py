"""Disks of guests: real files, found by their bytes, kept over a restart, gone with the box."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from boxes import OTHER
from leftovers import another

from labkit import box
from labkit.box.folder import Folder

pytestmark = [pytest.mark.box, pytest.mark.slow]

TOPOLOGY = """
[hosts.server]
[guests.usual]
on = "server"
disks = ["16M", "32M cow"]
[guests.emulated]
on = "server"
accelerator = "tcg"
memory = "256M"
disks = ["64M raw cache=none aio=native iothread", "700M qcow2"]
"""
AT = 5 << 20


def mark(guest, disk):
    return f"written by {guest} to {disk}, "


def write(host, disk):
    block = f"dd of=/dev/{disk} bs=1M seek=5 conv=fsync,notrunc"
    host.check("sh", "-c", f"printf '%s' '{mark(host.name, disk)}' | {block}")


def read(host, disk):
    length = len(mark(host.name, disk))
    return host.check("sh", "-c", f"dd if=/dev/{disk} bs=1M skip=5 count=1 | head -c {length}")


def restart(lab, guest):
    server = lab.host("server")
    server.check("guest", f"@{guest}", "stop")
    server.check("guest", f"@{guest}", "start", seconds=90)
    lab.host(guest).close()


@pytest.mark.torture
def test_what_a_guest_writes_is_in_its_files_and_there_after_a_restart():
    with another(OTHER, TOPOLOGY) as lab:
        guests = {guest.name: guest for guest in box.status(OTHER).guests}
        assert guests["usual"].disks == {"ubda": "16M raw", "ubdb": "32M cow"}
        assert "usual: ubda 16M raw, ubdb 32M cow" in lab.disks
        assert "ubdb 32M cow" in box.draw(box.status(OTHER)).svg
        check_files(lab, guests)
        asked = {word: lab.host("server").check("guest", "@emulated", "qmp", f"query-{word}")
                 for word in ("block", "iothreads")}  # fmt: skip
        (first, _) = (one["inserted"] for one in json.loads(asked["block"]) if "inserted" in one)
        assert first["cache"]["direct"] and not first["cache"]["no-flush"]
        assert [one["id"] for one in json.loads(asked["iothreads"])] == ["of-vda"]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda guest: restart(lab, guest), guests))
        for guest, found in guests.items():
            for disk in found.disks:
                assert read(lab.host(guest), disk) == mark(guest, disk)


def check_files(lab, guests):
    for guest, found in guests.items():
        host = lab.host(guest)
        said = lab.host("server").check("guest", f"@{guest}", "disks").splitlines()
        for (disk, what), line in zip(found.disks.items(), said, strict=True):
            size, form, *_ = what.split()
            sectors = int(host.check("cat", f"/sys/block/{disk}/size"))
            assert sectors == int(size[:-1]) << 11
            write(host, disk)
            assert line.split()[:2] == [disk, form]
            whole = (Folder(OTHER).disks / guest / f"{disk}.{form}").read_bytes()
            assert (whole.find(mark(guest, disk).encode()) == AT) == (form == "raw")
            assert mark(guest, disk).encode() in whole
            assert lab.host("server").run("grep", "-c", "written by", line.split()[2]).ok
