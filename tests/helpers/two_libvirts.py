"""Two hosts with real libvirt and QEMU, a link between them, and a machine that writes memory.

The machine runs no system: a program in its first sector writes to each page from 1 to 56 MiB in
turn, without an end. libvirt goes from host to host by a real sshd, as on hosts of one's own.
"""

import shlex
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import worlds

from labkit.gates import gate
from labkit.host import Guest, Host
from labkit.lab import Lab
from labkit.machine.scripts import beside
from labkit.transports.local import Local, Process

PROGRAMS = (
    "ip", "libvirtd", "mount", "nsenter", "qemu-system-x86_64", "ssh-keygen", "sshd", "tc", "virsh",
)  # fmt: skip

ADDRESSES = {"server": "198.51.100.1", "server2": "198.51.100.2"}
LINK = "data0"
VM = "writer"
# Real mode to protected mode, then `mov [edi], time` at each 4096 bytes, in assembler's words:
# cli; lgdt; cr0 |= 1; ljmp; edi = 1 MiB; loop: rdtsc; mov [edi], eax; add edi, 4096; cmp; jb; jmp.
WRITES = bytes.fromhex(
    "fa31c08ed8660f0116587c0f20c00c010f22c066ea1b7c0000080066b810008ed8bf000010000f31890781c7001000"
    "0081ff0000800372eeebe78db6000000000000000000000000ffff0000009acf00ffff00000092cf001700407c0000"
)
SECTOR, MAGIC, DISK_BYTES = 510, b"\x55\xaa", 1 << 20
MACHINE = beside(__file__, "two_libvirts_machine.xml")
LIBVIRT = beside(__file__, "two_libvirts_libvirt.sh")
SSHD = """\
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PidFile none
"""
SSH = """\
IdentityFile {folder}/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


@dataclass(frozen=True)
class InNamespaces(Local):
    """A transport into the namespaces of a process, with all that a transport can do."""

    pid: int = 0

    @contextmanager
    def _channel(self, script, spare, window=None):
        words = (*worlds.entry(self.pid, worlds.OF_SYSTEM), "sh", "-c", script)
        process = Process(f"exec {shlex.join(words)}", self.name)
        try:
            yield process
        finally:
            process.close()


@contextmanager
def two_libvirts(folder, mbit):
    """A lab of `server` and `server2`, `mbit` Mbit/s between them, and a load beside the guest."""
    worlds.skip_without(*PROGRAMS)
    _prepare(folder)
    before = set(worlds.left_by_libvirt())
    with ExitStack() as stack:
        stack.callback(lambda: worlds.remove_groups(set(worlds.left_by_libvirt()) - before))
        pids = {role: stack.enter_context(_libvirt(folder, role)) for role in ADDRESSES}
        _wire(pids, mbit)
        hosts = {
            role: Host(role, ADDRESSES[role], InNamespaces(role, pid=pid), LINK,
                       guests={"guest": Guest(VM, "127.0.0.1")} if role == "server" else {})
            for role, pid in pids.items()
        }  # fmt: skip
        xml = MACHINE.format(disk=folder / "disk").encode()
        hosts["server"].check("virsh", "define", "/dev/stdin", stdin=xml)
        hosts["server"].check("virsh", "start", VM)
        beside = Host("guest", "127.0.0.1", Local("guest"))
        every = {**hosts, "guest": beside, "client": beside}
        yield Lab("kvm", every, tolerates=gate.NAMES)


def _prepare(folder):
    (folder / "groups").symlink_to("/sys/fs/cgroup")
    named = "".join(f"{address} {role}\n" for role, address in ADDRESSES.items())
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + named)
    (folder / "resolv.conf").write_text("")
    (folder / "disk").write_bytes(WRITES.ljust(SECTOR, b"\0") + MAGIC + bytes(DISK_BYTES - 512))
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
    subprocess.run(keygen, check=True)
    (folder / "sshd_config").write_text(SSHD.format(folder=folder))
    (folder / "ssh_config").write_text(SSH.format(folder=folder))


def _libvirt(folder, role):
    uuid = f'host_uuid = "6e1f2a52-6a3f-4d5c-9d53-0d4d2c9b7a{len(role):02d}"\n'
    worlds.as_installed(folder, folder / role / "etc", uuid, "cgroup_controllers = []\n")
    return worlds.namespaces(LIBVIRT, folder / role, role, uts=True)


def _wire(pids, mbit):
    first, second = (str(pid) for pid in pids.values())
    subprocess.run(
        ["ip", "link", "add", LINK, "netns", first, "type", "veth", "peer", LINK, "netns", second],
        check=True,
    )
    for role, pid in pids.items():
        for words in (
            ["ip", "addr", "add", f"{ADDRESSES[role]}/30", "dev", LINK],
            ["ip", "link", "set", LINK, "up"],
            ["tc", "qdisc", "add", "dev", LINK, "root", "tbf", "rate", f"{mbit}mbit",
             "burst", f"{max(mbit * 500, 32768)}", "latency", "50ms"],
        ):  # fmt: skip
            subprocess.run(["nsenter", "-t", str(pid), "-n", "--", *words], check=True)
