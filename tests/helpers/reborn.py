"""A machine of QEMU that can really be started anew: a disk, SSH, cards that can be pulled out.

Only its boot loader is a stand-in: what `update-grub` writes to the disk is given to QEMU here.
"""

import json
import os
import shutil
import socket
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import emulated
import pytest
from sshd import reached
from waiting import awaited, free_port

from labkit.box.guests import accelerator
from labkit.box.guests.image import Archive
from labkit.box.sshd import KeyPair, greets
from labkit.errors import HostError
from labkit.ssh.connection import Address

PROGRAMS = ("debugfs", "ip", "mkfs.ext4", "mount")

LACKING = bool(accelerator.lacking()) or not all(map(shutil.which, ("mkfs.ext4", "debugfs")))
INIT = f"""\
{emulated.INIT}
mkdir -p /dev/pts; mount -t devpts devpts /dev/pts
mkdir -p /disk /etc/default && mount -t ext4 /dev/vda /disk && mkdir -p /disk/default /disk/lib
mount --bind /disk/default /etc/default; mount --bind /disk/lib /var/lib
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
/bin/sshd -D -e -f /run/labkit/sshd_config
"""
UPDATE_GRUB = """\
#!/bin/sh
GRUB_CMDLINE_LINUX=
for file in /etc/default/grub.d/*.cfg; do [ ! -e "$file" ] || . "$file"; done
echo "$GRUB_CMDLINE_LINUX" > /disk/options
sync
"""
CARD = "virtio-net-pci,netdev={0},id={0},mac=52:54:00:00:00:{1:02x},addr={2:#x},romfile="


DISKS = ("red", "blue")


def disk(name):
    """A disk as its monitor is told of it."""
    at = f"{16 + DISKS.index(name):#x}"
    return {"driver": "virtio-blk-pci", "drive": name, "id": name, "serial": name, "addr": at}


@dataclass
class Machine:
    """It runs from `on` to `off`; its disk and its keys are the same each time."""

    folder: Path
    port: int
    key: KeyPair = field(default_factory=KeyPair.new)
    user: KeyPair = field(default_factory=KeyPair.new)
    process: subprocess.Popen | None = None

    def make(self):
        archive = Archive()
        archive.files({"/init": INIT.encode(), "/bin/update-grub": UPDATE_GRUB.encode()})
        emulated.with_login(archive, self.key, self.user.public)
        emulated.first_root(self.folder / "first", archive)
        subprocess.run(["mkfs.ext4", "-q", self.folder / "disk", "16M"], check=True)
        (self.folder / "user").write_bytes(self.user.private)
        (self.folder / "user").chmod(0o600)
        known = f"[127.0.0.1]:{self.port} {self.key.public}\n"
        (self.folder / "known_hosts").write_text(known)
        return self

    def options(self):
        """What the boot loader would tell the kernel."""
        words = ["debugfs", "-R", "cat /options", self.folder / "disk"]
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()

    def on(self):
        forward = f"user,id=control,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        words = emulated.words(
            self.folder / "first", 256, "-no-reboot", "-netdev", forward,
            "-drive", f"file={self.folder}/disk,format=raw,if=virtio",
            "-netdev", "hubport,id=data,hubid=1", "-netdev", "hubport,id=other,hubid=2",
            "-device", CARD.format("control", 1, 4), "-device", CARD.format("data", 2, 5),
            *(word for name in DISKS for word in self.disk(name)),
            "-qmp", f"unix:{self.folder}/qmp,server=on,wait=off", text=self.options(), machine="pc",
        )  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        awaited(lambda: greets("127.0.0.1", 20, self.port) or self.process.poll() is not None,
                120, self.log, 0.1)  # fmt: skip
        assert self.process.poll() is None, self.log()

    def disk(self, name):
        """What it is told of a disk of that name, which can be pulled out."""
        (self.folder / name).touch()
        os.truncate(self.folder / name, 2**20)
        file = f"driver=raw,node-name={name},file.driver=file,file.filename={self.folder}/{name}"
        return ["-blockdev", file, "-device", ",".join(map("=".join, disk(name).items()))]

    def log(self):
        return (self.folder / "log").read_text("utf-8", "replace")[-2000:]

    def off(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def anew(self, host):
        """It restarts itself, as `reboot` does; QEMU ends with it, and its boot loader follows."""
        with suppress(HostError):
            host.run("sh", "-c", "sync; for key in u b; do echo $key > /proc/sysrq-trigger; done")
        host.close()
        self.process.wait(60)
        self.on()

    def told(self, command, **given):
        """What its monitor answers."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(20)
            monitor.connect(f"{self.folder}/qmp")
            lines = monitor.makefile()
            lines.readline()
            for asked in ({"execute": "qmp_capabilities"},
                          {"execute": command, "arguments": given}):  # fmt: skip
                monitor.sendall(json.dumps(asked).encode())
                said = {}
                while "return" not in said and "error" not in said:
                    said = json.loads(lines.readline())
        assert "return" in said, said
        return said["return"]

    def pull_out(self, card):
        """Takes a card out of its slot; the machine is asked to let go of it first."""
        self.told("device_del", id=card)
        awaited(lambda: f"'{card}'" not in str(self.told("query-pci")), pause=0.1)

    @contextmanager
    def host(self, interface="eth1"):
        at = Address(
            "box1", "127.0.0.1", self.port, "root", str(self.folder / "user"),
            (str(self.folder / "known_hosts"),),
        )  # fmt: skip
        with reached(at) as host:
            yield replace(host, interface=interface)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    port = free_port()
    made = Machine(tmp_path_factory.mktemp("reborn"), port).make()
    try:
        made.on()
        yield made
    finally:
        made.off()
