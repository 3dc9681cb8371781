"""What notebooks/docs/lab-kvm.md describes: a server with libvirt, and a guest with a system.

The hosts are those of a box without guests; libvirt and QEMU on its server are the machine's own,
and the guest is emulated (TCG). All of it ends with the box.
"""

import subprocess
from pathlib import Path

import emulated
import worlds
from lab_toml import lab_toml, row, table

from labkit import box
from labkit.box.guests import kernel
from labkit.box.guests.image import Archive
from labkit.box.sshd import KeyPair
from labkit.gates import gate
from labkit.lab import opened
from labkit.machine.scripts import beside

PROGRAMS = (
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_network.so",
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so",
    "busybox", "insmod", "ip", "libvirtd", "mount", "ssh-keygen", "virsh",
)  # fmt: skip

LAST = 77
"""The last number of the guest's address."""
SERVER = beside(__file__, "libvirt_lab_server.sh")
NETWORK = """\
<network><name>labkit-bridge</name><forward mode='bridge'/><bridge name='br1'/></network>
"""
DOMAIN = beside(__file__, "libvirt_lab_domain.xml")
INIT = emulated.INIT + beside(__file__, "libvirt_lab_init.sh")
CONFIG = beside(__file__, "libvirt_lab_ssh.conf")


def up(name, folder):
    """The lab's file, once the guest is defined; it is off."""
    worlds.skip_without("libvirtd", "virsh", "qemu-system-x86_64")
    (folder / "hosts.toml").write_text("[hosts.client]\n[hosts.server]\n")
    with opened(box.up(name, made_of=str(folder / "hosts.toml"))) as lab:
        client, server = lab.host("client"), lab.host("server")
        guest = f"{server.address.rpartition('.')[0]}.{LAST}"
        server.check("sh", "-c", SERVER, "server", server.interface, server.address, seconds=120)
        key, own = server.transport.at.key, KeyPair.new()
        found = kernel.find()
        server.put(found.image.read_bytes(), "/run/lab/kernel")
        public = subprocess.run(["ssh-keygen", "-y", "-f", key], capture_output=True, check=True)
        emulated.first_root(folder / "initrd", _own(found, guest, own, public.stdout.decode()))
        server.put((folder / "initrd").read_bytes(), "/run/lab/initrd")
        for what, text in (("net-define", NETWORK), ("define", DOMAIN)):
            server.put(text.encode(), f"/run/lab/{what}.xml")
            server.check("virsh", "-q", what, f"/run/lab/{what}.xml")
        server.check("virsh", "-q", "net-start", "labkit-bridge")
        lead_to(guest, own, folder, lab.path, server)
        asleep = table("guest", control=guest, address=guest, interface="eth0", key=key, vm="lab")
        return lab_toml(
            folder / "lab.toml", row("client", client), row("server", server, "br1"), asleep,
            name="a KVM host and a machine that asks", known_hosts="known_hosts",
            ssh_config="ssh_config", tolerates=gate.NAMES,
        )  # fmt: skip


def lead_to(address, own, folder, lab_file, host):
    """Write how SSH gets to a machine behind a host, and the keys of all."""
    known = (Path(lab_file).parent / "known_hosts").read_text()
    (folder / "known_hosts").write_text(f"{known}{address} {own.public}\n")
    at = host.transport.at
    words = {"control": at.control, "port": at.port or 22, "key": at.key, "guest": address}
    text = CONFIG.format(**words, known=folder / "known_hosts")
    (folder / "ssh_config").write_text(text)


def _own(found, address, host, user):
    archive = Archive()
    modules = {
        f"/lib/modules/{name}.ko": kernel.content(next(found.modules.rglob(f"{name}.ko*")))
        for name in ("evdev", "button")
    }
    archive.files({"/init": INIT.replace("ADDRESS", address).encode(), **modules})
    return emulated.with_login(archive, host, user)
