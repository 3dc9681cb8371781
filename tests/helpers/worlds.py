"""Hosts of each kind, as real as this machine lets them be, each in namespaces of its own.

They end with the process that holds their namespaces, whatever becomes of the tests.
"""

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_hosts import Within

from labkit.host import Guest, Host
from labkit.machine.scripts import beside

PROGRAMS = (
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_network.so",
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so",
    "busybox", "corosync", "corosync-cmapctl", "crm_attribute", "docker", "dockerd", "ip",
    "libvirtd", "losetup", "mount", "nsenter", "pacemakerd", "qemu-system-x86_64", "tar", "unshare",
    "virsh",
)  # fmt: skip

GROUP = f"labkit-test-{os.getpid()}"
ENGINE = f"{GROUP}-engine"
GROUPS = Path("/sys/fs/cgroup")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONTROLLERS = ("cpu", "cpuset", "memory", "blkio")

# Says "ready" once all is there, and lives until its input ends.
LINUX = beside(__file__, "worlds_linux.sh")
LIBVIRT = beside(__file__, "worlds_libvirt.sh")
CLUSTER = beside(__file__, "worlds_cluster.sh")
CLUSTER_OF_ONE = beside(__file__, "worlds_cluster_of_one.conf")
DOCKER = beside(__file__, "worlds_docker.sh")
MACHINE = beside(__file__, "worlds_machine.xml")


def entry(pid, *extra):
    """The beginning of a command in the namespaces of a process, with an environment of its own."""
    return "nsenter", "-t", str(pid), "-n", "-m", "-p", "env", f"PATH={PATH}", *extra


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
            raise RuntimeError(f"{folder}: {process.communicate()[1]}")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield int(children.split()[0])
    finally:
        process.kill()
        process.communicate()


@contextmanager
def linux(folder):
    """A Linux host: its own network, the machine's kernel, and a control group for the tests."""
    skip_without("ip", "tc", "ethtool", "losetup", "nsenter", "unshare")
    tools = folder / "bin"
    tools.mkdir()
    # Stands in for the boot loader's tool, which no test may run on this machine.
    (tools / "update-grub").write_text("#!/bin/sh\ncat /etc/default/grub.d/* 2>/dev/null; true\n")
    (tools / "update-grub").chmod(0o755)
    with groups(), namespaces(LINUX, folder) as pid:
        within = Within(entry(pid, f"PATH={tools}:{PATH}"))
        try:
            yield Host("linux", "127.0.0.1", within, "lab0")
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
    skip_without("libvirtd", "virsh", "qemu-system-x86_64")
    as_installed(folder, folder / "etc")
    (folder / "disk").write_bytes(bytes(2**20))
    (folder / "lab.xml").write_text(MACHINE.format(disk=folder / "disk"))
    before = set(left_by_libvirt())
    try:
        with namespaces(LIBVIRT, folder, net=False) as pid:
            at = "127.0.0.1"
            guests = {"guest": Guest("guest", at), "guest2": Guest("idle", at)}
            yield Host("kvm", at, Within(entry(pid, OF_SYSTEM)), guests=guests)
    finally:
        remove_groups(set(left_by_libvirt()) - before)


OF_SYSTEM = "LIBVIRT_DEFAULT_URI=qemu:///system"
QEMU = """\
user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
stdio_handler = "file"
"""


def as_installed(folder, etc, of_libvirtd="", of_qemu=""):
    """What libvirt's packages would have made: its settings, and its user and groups in lists."""
    etc.mkdir(parents=True)
    own = f'unix_sock_dir = "/run/libvirt"\nauth_unix_rw = "none"\n{of_libvirtd}'
    (etc / "libvirtd.conf").write_text(own)
    (etc / "qemu.conf").write_text(QEMU + of_qemu)
    user, group = "libvirt-qemu:x:64055:64055::/:/bin/false\n", "libvirt-qemu:x:64055:\n"
    (folder / "passwd").write_text(Path("/etc/passwd").read_text() + user)
    (folder / "group").write_text(Path("/etc/group").read_text() + group + "kvm:x:64056:\n")


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
    skip_without("corosync", "corosync-cmapctl", "crm_attribute", "pacemakerd")
    (folder / "corosync.conf").write_text(CLUSTER_OF_ONE)
    with namespaces(CLUSTER, folder) as pid:
        yield Host("cluster", "127.0.0.1", Within(entry(pid)))


@contextmanager
def docker(folder):
    """A host with a real engine of its own, and two containers."""
    skip_without("dockerd", "docker", "busybox")
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
            within = Within(entry(pid, "DOCKER_HOST=unix:///run/docker.sock"))
            yield Host("docker", "127.0.0.1", within)
    finally:
        remove_groups(
            path for place in [GROUPS, *GROUPS.glob("*/")] for path in (place / ENGINE).rglob("")
        )


def skip_without(*programs):
    """Skip the test, and say why, where there can be no host that needs these."""
    if absent := [name for name in programs if not shutil.which(name, path=PATH)]:
        pytest.skip(f"no {', '.join(absent)}; to get them: make system-test")
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "true"]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no root here who may make namespaces")
