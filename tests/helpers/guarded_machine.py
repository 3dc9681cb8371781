"""Hosts as an owner has them whose own Pacemaker guards a machine, and their `lab.toml`.

Real Corosync, Pacemaker and VirtualDomain on two hosts of a box; the machine has a kernel of its
own (User-Mode Linux) and a real systemd. Its root is this machine's, read-only, below a disk that
both hosts have. Two things stand in. `virsh` knows what VirtualDomain and labkit ask of it, in
libvirt's words. A loop on each host is its board: it ends all of its cluster's processes in place
of its power, and begins them again; the fence agent and the test write it files.
"""

import subprocess
from contextlib import ExitStack, contextmanager

from lab_toml import lab_toml, row, table
from libvirt_lab import lead_to

from labkit.box.guests import waking
from labkit.box.sshd import KeyPair
from labkit.gates import gate
from labkit.lab import opened
from labkit.machine.scripts import beside

PROGRAMS = (
    "/usr/lib/ocf/resource.d/heartbeat/VirtualDomain", "corosync", "corosync-cmapctl", "crm_mon",
    "crm_resource", "insmod", "ip", "linux.uml", "mkfs.ext4", "mount", "pacemakerd", "pkill",
    "setsid", "ssh-keygen", "switch_root", "systemctl",
)  # fmt: skip

LAST = 77
"""The last number of the machine's address."""
SHARED = "/run/labkit/scratch"
"""The disk that both hosts have."""
# Its places are the host's own. Done once.
PREPARE = beside(__file__, "guarded_machine_prepare.sh")
# What a host's boot begins.
ON = beside(__file__, "guarded_machine_on.sh")
OFF = beside(__file__, "guarded_machine_off.sh")
# The management board: it lives although the host has no power.
BOARD = beside(__file__, "guarded_machine_board.sh")
FENCE = beside(__file__, "guarded_machine_fence.sh")
COROSYNC = beside(__file__, "guarded_machine_corosync.conf")
CIB = beside(__file__, "guarded_machine_cib.xml")
DOMAIN = """\
<domain type='kvm'>
<name>center-vm</name>
<memory unit='MiB'>512</memory>
</domain>
"""
VIRSH = beside(__file__, "guarded_machine_virsh.sh")
INIT = beside(__file__, "guarded_machine_init.sh")
MULTI = """\
[Unit]
Requires=basic.target labkit-test-sshd.service
After=basic.target
AllowIsolate=yes
"""
SSHD_UNIT = """\
[Service]
ExecStart=/usr/sbin/sshd -D -e -f /etc/sshd_own
RuntimeDirectory=sshd
KillMode=process
"""
SSHD = beside(__file__, "guarded_machine_sshd.conf")
POWER = '[power.{role}]\nby = "virsh"\non = "client"\nvm = "{node}"\n'
PAIR = ("server", "server2")


@contextmanager
def guarded(box, folder):
    """The file of a lab whose cluster runs its machine; all of it ends with the box."""
    first, second = (box.host(role) for role in PAIR)
    names = [host.check("uname", "-n").strip() for host in (first, second)]
    address = f"{first.address.rpartition('.')[0]}.{LAST}"
    at, own = first.transport.at, KeyPair.new()
    public = subprocess.run(["ssh-keygen", "-y", "-f", at.key], capture_output=True, check=True)
    first.put(DOMAIN.encode(), f"{SHARED}/center.xml")
    first.check("truncate", "-s", "1G", f"{SHARED}/center.disk")
    first.check("mkfs.ext4", "-q", "-F", f"{SHARED}/center.disk")
    machine = {
        "systemd/system/multi-user.target": MULTI.encode(), "sshd_own": SSHD.encode(),
        "systemd/system/labkit-test-sshd.service": SSHD_UNIT.encode(), "hostname": b"center\n",
        "own_host_key": own.private, "own_keys": public.stdout,
    }  # fmt: skip
    with ExitStack() as stack:
        for host, node in zip((first, second), names, strict=True):
            wire = COROSYNC.format(first=first, second=second, names=names)
            _make_host(host, machine, address, wire, CIB.format(names=names, shared=SHARED))
            board = stack.enter_context(host.raw("sh", "-c", BOARD, "board", host.interface, node))
            assert board.recv() == b"ready\n"
        for node in names:
            box.host("client").check(*words("on", node), seconds=120)
        yield _lab_file(box, folder, address, own, names)


def words(what, node):
    """What stands in for `virsh destroy` and `virsh start` of a host: the board is told."""
    text = "touch $1; until [ -e $2 ]; do sleep 0.05; done; rm -f $2"
    return "sh", "-c", text, what, f"/dev/shm/{what}-{node}", f"/dev/shm/done-{what}-{node}"


def _make_host(host, machine, address, corosync, cib):
    folders = ("bin", "sbin", "uml", "machine/systemd/system")
    host.check("mkdir", "-p", *(f"/run/own/{name}" for name in folders))
    texts = {"corosync.conf": corosync, "cib.xml": cib, "on": ON, "off": OFF}
    scripts = {
        "sbin/fence_board": FENCE, "bin/virsh": VIRSH, "init": INIT.replace("ADDRESS", address),
    }  # fmt: skip
    for mode, files in ((0o644, texts), (0o755, scripts)):
        for name, text in files.items():
            host.put(text.encode(), f"/run/own/{name}", mode)
    host.put(waking.library(), "/run/own/waking.so")
    for name, content in machine.items():
        host.put(content, f"/run/own/machine/{name}", 0o600)
    host.check("sh", "-c", PREPARE, "prepare", host.interface, host.address, seconds=60)


def _lab_file(box, folder, address, own, names):
    client = box.host("client")
    lead_to(address, own, folder, box.path, client)
    rows = [row(role, box.host(role), "br1" if role in PAIR else "")
            for role in ("client", *PAIR, "guest", "guest2")]  # fmt: skip
    key = client.transport.at.key
    center = table("center", control=address, user="root", key=key, resource="center")
    power = (POWER.format(role=role, node=node) for role, node in zip(PAIR, names, strict=True))
    return lab_toml(
        folder / "lab.toml", *rows, center, *power, known_hosts="known_hosts",
        ssh_config="ssh_config", tolerates=gate.NAMES,
    )  # fmt: skip


@contextmanager
def opened_lab(box, folder):
    """The lab of that file."""
    with guarded(box, folder) as file, opened(file) as lab:
        yield lab
