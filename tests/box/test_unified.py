"""A box where control groups are of version 2 only and the kernel has netem: a guest of QEMU."""

import json
import subprocess
import sys
from pathlib import Path

import emulated
import pytest
from waiting import alive, awaited

from labkit.box.guests import accelerator, kernel
from labkit.box.guests.image import Archive

PROGRAMS = ("busybox", "ip", "mount")

VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
CHECKOUT = Path(__file__).resolve().parents[2]
MODULES = ("virtiofs", "veth", "bridge", "br_netfilter", "tun", "sch_netem", "sch_tbf", "overlay")
pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.torture,
    pytest.mark.skipif(
        bool(accelerator.lacking()) or not VIRTIOFSD.exists(),
        reason="no QEMU, no kernel for its guests, or no virtiofsd; to get them: make test",
    ),
]
SECONDS = 500
# This machine's root, read-only, with what changes in memory: then as systemd would have it.
INIT = f"""\
{emulated.INIT}{emulated.LOAD.replace("/lib/modules", "/more")}
mkdir /root-of-host && mount -t virtiofs -o ro host /root-of-host && cd /root-of-host || exit 1
for place in run var/tmp var/log; do mount -t tmpfs tmpfs "$place"; done
mount -t proc proc proc; mount -t sysfs sysfs sys; mount -t devtmpfs devtmpfs dev
mkdir -p dev/pts dev/shm run/tmp
mount -t devpts devpts dev/pts; mount -t tmpfs tmpfs dev/shm
mount -t cgroup2 cgroup2 sys/fs/cgroup
echo "+cpuset +cpu +memory +pids" > sys/fs/cgroup/cgroup.subtree_control
ip link set lo up
cp /unified.py run/
exec busybox chroot . /usr/bin/env -i HOME=/run TMPDIR=/run/tmp "PYTHONPATH={CHECKOUT}" \\
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONDONTWRITEBYTECODE=1 \\
    sh -c '"{sys.executable}" /run/unified.py; echo "= end"; sleep 1000'
"""


def archived(monkeypatch):
    monkeypatch.setattr(kernel, "EXTRAS", MODULES)
    modules = kernel.find().ordered()
    archive = Archive()
    archive.folders(["/more"])
    archive.files({f"/more/{one.name}": kernel.content(one) for one in modules}, 0o644)
    names = "".join(f"{module.name}\n" for module in modules)
    archive.files({"/more/order": names.encode(), "/init": INIT.encode(),
               "/unified.py": (CHECKOUT / "tests/helpers/unified.py").read_bytes()})  # fmt: skip
    return archive


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What a box was like in there, by name."""
    with monkeypatch.context() as more:
        archive = archived(more)
    emulated.first_root(tmp_path / "initrd", archive)
    share = [VIRTIOFSD, f"--socket-path={tmp_path}/fs", "-o", "source=/", "-o", "cache=always",
             "-o", "sandbox=chroot"]  # fmt: skip
    words = emulated.words(
        tmp_path / "initrd", 1024, "-smp", "2", "-chardev", f"socket,id=fs,path={tmp_path}/fs",
        "-object", "memory-backend-memfd,id=memory,size=1024M,share=on",
        "-numa", "node,memdev=memory", "-device", "virtio-rng-pci",
        "-device", "vhost-user-fs-pci,chardev=fs,tag=host", threads=",thread=multi",
    )  # fmt: skip
    away = subprocess.DEVNULL
    with alive(share, stdin=away, stdout=away, stderr=away):
        awaited(lambda: (tmp_path / "fs").exists(), why="virtiofsd ended")
        with emulated.powered(words, SECONDS) as lines:
            yield heard(lines)


def heard(lines):
    found, every = {}, []
    for line in lines:
        every.append(line)
        print(line, end="")
        if line.startswith("= end"):
            break
        if line.startswith("= {"):
            told = json.loads(line[2:])
            found |= {told["what"]: told["seconds"]} if "what" in told else told
    assert found.get("done"), "".join(every[-30:])
    return found


def test_on_version_2_limits_limit_and_netem_delays_and_loses(said):
    assert (said["hierarchy"], said["cpus"]) == ("/sys/fs/cgroup", "/sys/fs/cgroup")
    assert (said["state"], said["engine"]) == ("up", "crun")
    client, server = said["links"]["client"], said["links"]["server"]
    assert (client["by"], server["by"]) == ("netem", "netem")
    assert 5 <= float(client["measured"]["delay"].split()[0]) < 15
    assert 4 < float(server["measured"]["loss"].split()[0]) < 20
    assert 2 < float(server["measured"]["rate"].split()[0]) < 22
    there = said["round_trips"]["server"]
    # Each way is 5 ms, give or take 1; of 60 round trips some 11 are lost, and 25 never.
    assert there[0] >= 8 and 35 < len(there) < 60
    assert said["eaten"] == {"client": True, "bridged": False}
    assert said["leaves"] == {"client": False, "server": False}
    assert said["left"] == []
