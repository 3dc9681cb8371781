"""Hosts of each kind, as real as this machine lets them be, each in namespaces of its own.

They end with the process that holds their namespaces, whatever becomes of the tests.
"""

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from labkit.host import Guest, Host
from labkit.transports.local import Local

PROGRAMS = (
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_network.so",
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so",
    "busybox",
    "corosync",
    "corosync-cmapctl",
    "crm_attribute",
    "docker",
    "dockerd",
    "ip",
    "libvirtd",
    "losetup",
    "mount",
    "nsenter",
    "pacemakerd",
    "qemu-system-x86_64",
    "tar",
    "unshare",
    "virsh",
)

GROUP = f"labkit-test-{os.getpid()}"
ENGINE = f"{GROUP}-engine"
GROUPS = Path("/sys/fs/cgroup")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONTROLLERS = ("cpu", "cpuset", "memory", "blkio")

# Says "ready" once all is there, and lives until its input ends.
LINUX = """\
set -e
ip link set lo up
ip link add lab0 type veth peer name lab1
ip link set lab0 up; ip link set lab1 up
mkdir "$1/groups" && mount --rbind /sys/fs/cgroup "$1/groups"
mount -t sysfs sysfs /sys && mount --rbind "$1/groups" /sys/fs/cgroup
mount -t tmpfs tmpfs /etc/default; mount -t tmpfs tmpfs /var/lib
truncate -s 8M "$1/disk2"; losetup -f --show "$1/disk2" > "$1/loop"
"""
LIBVIRT = """\
set -e
for place in /run /var/lib /var/cache /var/log; do mount -t tmpfs tmpfs "$place"; done
mount --bind "$1/etc" /etc/libvirt
mount --bind "$1/passwd" /etc/passwd; mount --bind "$1/group" /etc/group
libvirtd -f /etc/libvirt/libvirtd.conf >"$1/log" 2>&1 &
n=0; until virsh -q define "$1/lab.xml" >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 150 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.2; done
virsh -q start lab >/dev/null
sed 's/>lab</>idle</; s/52:54:00:00:00:01/52:54:00:00:00:02/' "$1/lab.xml" > "$1/idle.xml"
virsh -q define "$1/idle.xml" >/dev/null
sed "s/>lab</>guest</; s/52:54:00:00:00:01/52:54:00:00:00:03/; s/ current='1'>2</>1</
    s/interface type='ethernet'/interface type='network'/; s/<disk.*//; s/<source file.*//
    s/<model type=.virtio/<source network='labkit-bridge'\\/>&/" "$1/lab.xml" > "$1/guest.xml"
virsh -q define "$1/guest.xml" >/dev/null
for path in bridge direct; do
    echo "<network><name>labkit-$path</name><forward mode='bridge'/>" \\
        "<bridge name='br-$path'/></network>"
done | while read -r network; do
    echo "$network" > "$1/network.xml"; virsh -q net-define "$1/network.xml" >/dev/null; done
"""
CLUSTER = """\
set -e
ip link set lo up
for place in /run /var/lib /var/log /dev/shm; do mount -t tmpfs tmpfs "$place"; done
mkdir /run/corosync /var/lib/corosync
corosync -f -c "$1/corosync.conf" >"$1/log" 2>&1 &
n=0; until corosync-cmapctl -g runtime.config.totem.token >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.1; done
for each in cib pengine blackbox cores; do mkdir -p "/var/lib/pacemaker/$each"; done
mkdir /run/crm /var/log/pacemaker
for each in passwd group; do cp "/etc/$each" "/run/$each"; done
echo 'hacluster:x:64021:64021::/var/lib/pacemaker:/bin/false' >> /run/passwd
echo 'haclient:x:64021:' >> /run/group
for each in passwd group; do mount --bind "/run/$each" "/etc/$each"; done
chown -R hacluster:haclient /var/lib/pacemaker /run/crm /var/log/pacemaker
pacemakerd -f >>"$1/log" 2>&1 &
n=0; until crm_attribute -t crm_config -n dc-deadtime -v 2s >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.2; done
"""
CLUSTER_OF_ONE = """\
totem {
  version: 2
  cluster_name: labkit-test
  transport: udpu
  crypto_cipher: none
  crypto_hash: none
}
nodelist {
  node {
    nodeid: 1
    ring0_addr: 127.0.0.1
  }
}
logging {
  to_stderr: yes
  to_syslog: no
}
"""
DOCKER = """\
set -e
ip link set lo up
for place in /run /var/lib /var/log; do mount -t tmpfs tmpfs "$place"; done
dockerd --data-root "$1/engine" --exec-root /run/docker -H unix:///run/docker.sock \\
    -p /run/docker.pid --iptables=false --bridge=none --storage-driver vfs \\
    --cgroup-parent "$2" >"$1/log" 2>&1 &
export DOCKER_HOST=unix:///run/docker.sock
n=0; until docker info >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.2; done
tar -C "$1/image" -c . | docker import - busy >/dev/null
docker run -d --name lab --network host --cpuset-cpus 0 --cpus 1 --memory 64m --memory-swap 64m \\
    busy /bin/busybox sleep 1000 >/dev/null
docker run -d --name free --network none busy /bin/busybox sleep 1000 >/dev/null
"""
MACHINE = """\
<domain type='qemu'><name>lab</name><memory unit='MiB'>64</memory><vcpu current='1'>2</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os>
<numatune><memory mode='restrictive' nodeset='0'/></numatune>
<devices><disk type='file' device='disk'><driver name='qemu' type='raw'/>
<source file='{disk}'/><target dev='vda' bus='virtio'/></disk>
<interface type='ethernet'><mac address='52:54:00:00:00:01'/><model type='virtio'/></interface>
</devices></domain>
"""


@dataclass(frozen=True)
class Inside:
    """A transport into namespaces: all commands run there, with an environment of their own."""

    pid: int
    extra: tuple = ()
    local: Local = field(default_factory=Local)

    def run(self, words, **more):
        enter = ("nsenter", "-t", str(self.pid), "-n", "-m", "-p")
        there = ("env", f"PATH={PATH}", *self.extra)
        return self.local.run((*enter, *there, *words), **more)

    def close(self):
        """Nothing to let go of."""


@contextmanager
def namespaces(script, folder, *words, net=True, uts=False):
    """A process that holds namespaces in which a script has run; all in them ends with it."""
    # Its shell stays: what libvirt kills is nobody's child, and would wait for it as a zombie.
    text = f"mount --make-rprivate /\n{{ {script}\n}} >/dev/null\necho ready\ncat\ntrue"
    flags = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *["--net"] * net,
             *["--uts"] * uts]  # fmt: skip
    process = subprocess.Popen(
        ["unshare", *flags, "sh", "-c", text, "world", str(folder), *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        said = process.stdout.readline()
        if said != "ready\n":
            process.kill()
            raise RuntimeError(f"{script.split()[0]}: {process.communicate()[1]}")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield int(children.split()[0])
    finally:
        process.kill()
        process.communicate()


@contextmanager
def linux(folder):
    """A Linux host: its own network, the machine's kernel, and a control group for the tests."""
    tools = folder / "bin"
    tools.mkdir()
    # Stands in for the boot loader's tool, which no test may run on this machine.
    (tools / "update-grub").write_text("#!/bin/sh\ncat /etc/default/grub.d/* 2>/dev/null; true\n")
    (tools / "update-grub").chmod(0o755)
    with groups(), namespaces(LINUX, folder) as pid:
        extra = (f"PATH={tools}:{PATH}",)
        try:
            yield Host("linux", "127.0.0.1", Inside(pid, extra), "lab0")
        finally:
            subprocess.run(["sh", "-c", DETACH, "detach", str(folder)], capture_output=True)


DETACH = 'losetup -n -O NAME,BACK-FILE | while read -r name file; do case $file in "$1"/*) ' + (
    'losetup -d "$name" ;; esac; done'
)


@contextmanager
def groups():
    """The tests' own control group in each hierarchy that the machine has."""
    made = [place / GROUP for place in hierarchies()]
    for place in made:
        place.mkdir()
    try:
        for place in made:
            if place.parent.name == "cpuset":
                (place / "cpuset.mems").write_text((place.parent / "cpuset.mems").read_text())
                (place / "cpuset.cpus").write_text((place.parent / "cpuset.cpus").read_text())
        yield
    finally:
        for place in made:
            place.rmdir()


def hierarchies():
    """Where control groups are made: one for each controller of version 1, or one for all."""
    if (GROUPS / "cgroup.controllers").exists():
        return [GROUPS]
    return [GROUPS / name for name in CONTROLLERS if (GROUPS / name).is_dir()]


@contextmanager
def kvm(folder):
    """A host with real libvirt and real QEMU; the machines are emulated, and run no system."""
    etc = folder / "etc"
    etc.mkdir()
    (etc / "libvirtd.conf").write_text('unix_sock_dir = "/run/libvirt"\nauth_unix_rw = "none"\n')
    (etc / "qemu.conf").write_text(
        'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nremember_owner = 0\n'
        'stdio_handler = "file"\n'
    )
    (folder / "disk").write_bytes(bytes(2**20))
    (folder / "lab.xml").write_text(MACHINE.format(disk=folder / "disk"))
    # What its packages would have made.
    user, group = "libvirt-qemu:x:64055:64055::/:/bin/false\n", "libvirt-qemu:x:64055:\n"
    (folder / "passwd").write_text(Path("/etc/passwd").read_text() + user)
    (folder / "group").write_text(Path("/etc/group").read_text() + group + "kvm:x:64056:\n")
    before = set(left_by_libvirt())
    try:
        with namespaces(LIBVIRT, folder, net=False) as pid:
            extra = ("LIBVIRT_DEFAULT_URI=qemu:///system",)
            at = "127.0.0.1"
            guests = {"guest": Guest("guest", at), "guest2": Guest("idle", at)}
            yield Host("kvm", "127.0.0.1", Inside(pid, extra), guests=guests)
    finally:
        remove_groups(set(left_by_libvirt()) - before)


def left_by_libvirt():
    parents = [*GROUPS.glob("machine*"), *GROUPS.glob("*/machine*")]
    return [place for parent in parents for place in parent.rglob("")]


def remove_groups(places):
    """Groups whose processes have ended, the innermost first."""
    for place in sorted(places, key=lambda path: len(path.parts), reverse=True):
        for _ in range(50):
            try:
                place.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.1)
            else:
                break


@contextmanager
def cluster(folder):
    """A host with real Corosync and Pacemaker, in a cluster of one."""
    (folder / "corosync.conf").write_text(CLUSTER_OF_ONE)
    with namespaces(CLUSTER, folder) as pid:
        yield Host("cluster", "127.0.0.1", Inside(pid))


@contextmanager
def docker(folder):
    """A host with a real engine of its own, and two containers."""
    image = folder / "image"
    (image / "bin").mkdir(parents=True)
    busybox = shutil.which("busybox")
    shutil.copy(busybox, image / "bin/busybox")
    listed = subprocess.run(["ldd", busybox], capture_output=True, text=True).stdout.split()
    for library in (word for word in listed if word.startswith("/")):
        target = image / library.strip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    try:
        with namespaces(DOCKER, folder, ENGINE) as pid:
            yield Host("docker", "127.0.0.1", Inside(pid, ("DOCKER_HOST=unix:///run/docker.sock",)))
    finally:
        remove_groups(
            path for place in [GROUPS, *GROUPS.glob("*/")] for path in (place / ENGINE).rglob("")
        )


def lacking(*programs):
    """Why there can be no such host here; empty when there can."""
    absent = [name for name in programs if not shutil.which(name, path=PATH)]
    if absent:
        return f"no {', '.join(absent)}; to get them: make system-test"
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "true"]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        return "no root here who may make namespaces"
    return ""
