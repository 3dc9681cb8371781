"""What notebooks/docs/lab-kvm.md describes: a server with libvirt, and a guest with a system.

The hosts are those of a box without guests; libvirt and QEMU on its server are the machine's own,
and the guest is emulated (TCG). All of it ends with the box.
"""

import json
import subprocess
from pathlib import Path

import emulated
from own_hosts import row

from labkit import box
from labkit.box.guests import kernel
from labkit.box.guests.cpio import Archive
from labkit.box.sshd import KeyPair
from labkit.gates import gate
from labkit.lab import opened

PROGRAMS = (
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_network.so",
    "/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so",
    "busybox", "insmod", "ip", "libvirtd", "mount", "ssh-keygen", "virsh",
)  # fmt: skip

LAST = 77
"""The last number of the guest's address."""
SERVER = """\
set -e
for place in /var/lib /var/cache /etc/libvirt; do mount -t tmpfs tmpfs "$place"; done
mkdir -p /run/lab /var/log/libvirt
printf '%s\\n' 'auth_unix_rw = "none"' > /etc/libvirt/libvirtd.conf
printf '%s\\n' 'user = "root"' 'group = "root"' 'security_driver = "none"' 'remember_owner = 0' \\
    'stdio_handler = "file"' 'cgroup_controllers = []' > /etc/libvirt/qemu.conf
for file in passwd group; do cp "/etc/$file" "/run/lab/$file"; done
grep -q ^libvirt-qemu: /etc/passwd ||
    echo 'libvirt-qemu:x:64055:64055::/:/bin/false' >> /run/lab/passwd
grep -q ^kvm: /etc/group || echo 'kvm:x:64056:' >> /run/lab/group
grep -q ^libvirt-qemu: /etc/group || echo 'libvirt-qemu:x:64055:' >> /run/lab/group
for file in passwd group; do mount --bind "/run/lab/$file" "/etc/$file"; done
ip link add br1 type bridge forward_delay 0
ip addr flush dev "$1"
ip link set "$1" master br1
ip addr add "$2/24" dev br1
ip link set br1 up
libvirtd -d -f /etc/libvirt/libvirtd.conf
n=0; until virsh -q list >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 150 ] || { echo 'libvirt is not there' >&2; exit 1; }; sleep 0.2; done
"""
NETWORK = """\
<network><name>labkit-bridge</name><forward mode='bridge'/><bridge name='br1'/></network>
"""
DOMAIN = """\
<domain type='qemu'><name>lab</name><memory unit='MiB'>256</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type>
<kernel>/run/lab/kernel</kernel><initrd>/run/lab/initrd</initrd>
<cmdline>console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on</cmdline></os>
<features><acpi/></features><cpu mode='maximum'/>
<devices>
<interface type='network'><mac address='52:54:00:00:01:01'/><source network='labkit-bridge'/>
<model type='virtio'/></interface>
<serial type='file'><source path='/run/lab/console'/></serial>
<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
</devices></domain>
"""
INIT = (
    emulated.INIT
    + """\
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm
for module in evdev button; do
    insmod "/lib/modules/$module.ko" 2>/dev/null || busybox insmod "/lib/modules/$module.ko"; done
ln -s busybox /bin/awk
echo guest > /proc/sys/kernel/hostname
ip link set lo up; ip addr add ADDRESS/24 dev eth0; ip link set eth0 up
n=0; until ls /dev/input/event* >/dev/null 2>&1 || [ "$n" -gt 50 ]; do n=$((n + 1)); sleep 0.1; done
# What acpid would do: the button is pressed, and the machine goes off.
for button in /dev/input/event*; do
    { head -c 24 "$button" >/dev/null && busybox poweroff -f; } &
done
# As most systems, it answers to ping some time before one can log in.
sleep 5
/bin/sshd -D -e -f /run/labkit/sshd_config
sleep infinity
"""
)
CONFIG = """\
Host gate
    HostName {control}
    Port {port}
    User root
    IdentityFile {key}
    UserKnownHostsFile {known}
Host {guest}
    ProxyJump gate
"""
TOML = """\
name = "a KVM host and a machine that asks"
known_hosts = "known_hosts"
ssh_config = "ssh_config"
tolerates = {gates}
{client}{server}
[hosts.guest]
control = "{guest}"
address = "{guest}"
interface = "eth0"
key = "{key}"
vm = "lab"
"""


def up(name, folder):
    """The lab's file, once the guest is defined; it is off."""
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
        rows = {"client": row("client", client), "server": row("server", server, "br1")}
        (folder / "lab.toml").write_text(
            TOML.format(guest=guest, key=key, gates=json.dumps(list(gate.NAMES)), **rows)
        )
    return folder / "lab.toml"


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
