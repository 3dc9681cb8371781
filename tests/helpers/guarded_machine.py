"""Hosts as an owner has them whose own Pacemaker guards a machine, and their `lab.toml`.

Real Corosync, Pacemaker and VirtualDomain on two hosts of a box; the machine has a kernel of its
own (User-Mode Linux) and a real systemd. Its root is this machine's, read-only, below a disk that
both hosts have. Two things stand in. `virsh` knows what VirtualDomain and labkit ask of it, in
libvirt's words. A loop on each host is its board: it ends all of its cluster's processes in place
of its power, and begins them again; the fence agent and the test write it files.
"""

import json
import subprocess
from contextlib import ExitStack, contextmanager

import worlds
from libvirt_lab import lead_to
from own_hosts import row

from labkit.box.guests import waking
from labkit.box.sshd import KeyPair
from labkit.gates import gate
from labkit.lab import opened

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
PREPARE = """\
set -e
mkdir /run/own/wire
mount --bind /dev/shm /run/own/wire
for place in /var/lib /var/cache /etc/corosync /dev/shm; do
    mount -t tmpfs -o mode=0755 tmpfs "$place"; done
chmod 1777 /dev/shm
mkdir -p /var/lib/corosync /var/log/corosync /var/log/pacemaker /var/log/cluster
for place in bin sbin; do
    mount -t overlay -o "lowerdir=/run/own/$place:/usr/$place" overlay "/usr/$place"; done
cp /etc/passwd /etc/group /run/own
echo 'hacluster:x:64021:64021::/var/lib/pacemaker:/bin/false' >> /run/own/passwd
echo 'haclient:x:64021:' >> /run/own/group
for file in passwd group; do mount --bind "/run/own/$file" "/etc/$file"; done
mv /run/own/corosync.conf /etc/corosync/
mkdir -p /var/lib/pacemaker/cib /var/lib/pacemaker/pengine /var/lib/pacemaker/blackbox \\
    /var/lib/pacemaker/cores /run/crm
mv /run/own/cib.xml /var/lib/pacemaker/cib/
chmod 600 /var/lib/pacemaker/cib/cib.xml
chown -R hacluster:haclient /var/lib/pacemaker /run/crm /var/log/pacemaker
ip link add br1 type bridge forward_delay 0
ip addr flush dev "$1"
ip link set "$1" master br1
ip addr add "$2/24" dev br1
ip link set br1 up
ip link add center0 type veth peer name center1
ip link set center0 master br1 up
ip link set center1 up
"""
# What a host's boot begins.
ON = """\
ip link set "$1" up
setsid corosync -f > /run/own/corosync.out 2>&1 &
n=0; until corosync-cmapctl -g runtime.config.totem.token > /dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || exit 1; sleep 0.1; done
export TZ=UTC
setsid pacemakerd -f > /run/own/pacemaker.out 2>&1 &
"""
OFF = """\
ip link set "$1" down
for name in corosync pacemaker linux.uml virsh VirtualDomain; do pkill -KILL "^$name"; done
rm -rf /run/resource-agents /dev/shm/qb-* /run/crm/*
"""
# The management board: it lives although the host has no power.
BOARD = """\
cd /run/own/wire
echo ready
while :; do
    for what in off on; do
        [ -e "$what-$2" ] || continue
        sh "/run/own/$what" "$1" > /run/own/board 2>&1
        mv "$what-$2" "done-$what-$2"
    done
    sleep 0.2
done
"""
FENCE = """\
#!/bin/sh
action= node=
while read -r line; do
    case $line in action=*) action=${line#*=} ;; port=* | nodename=*) node=${line#*=} ;; esac
done
[ "$1" != -o ] || action=$2
case $action in
    off | reboot)
        touch "/run/own/wire/off-$node"
        n=0; until [ -e "/run/own/wire/done-off-$node" ]; do
            n=$((n + 1)); [ "$n" -lt 50 ] || exit 1; sleep 0.1; done
        rm -f "/run/own/wire/done-off-$node"
        ;;
    metadata)
        cat << XML
<?xml version="1.0"?>
<resource-agent name="fence_board" shortdesc="A board"><longdesc>A board</longdesc><parameters>
<parameter name="action" unique="0" required="0"><content type="string" default="off"/>
<shortdesc lang="en">What</shortdesc></parameter>
<parameter name="port" unique="0" required="0"><content type="string"/>
<shortdesc lang="en">Host</shortdesc></parameter></parameters>
<actions><action name="off"/><action name="reboot"/><action name="on" automatic="0"/>
<action name="status"/><action name="monitor"/><action name="list"/><action name="metadata"/>
</actions></resource-agent>
XML
        ;;
esac
"""
COROSYNC = """\
totem {{
  version: 2
  cluster_name: own
  transport: udpu
  token: 3000
  secauth: off
}}
nodelist {{
  node {{
    ring0_addr: {first.address}
    name: {names[0]}
    nodeid: 1
  }}
  node {{
    ring0_addr: {second.address}
    name: {names[1]}
    nodeid: 2
  }}
}}
quorum {{
  provider: corosync_votequorum
  two_node: 1
  wait_for_all: 0
}}
logging {{
  to_stderr: yes
  to_syslog: no
}}
"""
CIB = """\
<cib validate-with="pacemaker-3.0" admin_epoch="1" epoch="1" num_updates="0"><configuration>
<crm_config><cluster_property_set id="options">
<nvpair id="o1" name="stonith-enabled" value="true"/>
<nvpair id="o2" name="stonith-action" value="off"/>
<nvpair id="o3" name="stonith-timeout" value="10s"/>
<nvpair id="o4" name="dc-deadtime" value="2s"/>
<nvpair id="o5" name="no-quorum-policy" value="ignore"/>
</cluster_property_set></crm_config><nodes/><resources>
<primitive id="fence" class="stonith" type="fence_board"><instance_attributes id="f1">
<nvpair id="f2" name="pcmk_host_list" value="{names[0]} {names[1]}"/>
</instance_attributes></primitive>
<primitive id="center" class="ocf" provider="heartbeat" type="VirtualDomain">
<instance_attributes id="c1">
<nvpair id="c2" name="config" value="{shared}/center.xml"/>
<nvpair id="c3" name="hypervisor" value="qemu:///system"/>
<nvpair id="ca" name="autoset_utilization_cpu" value="false"/>
<nvpair id="cb" name="autoset_utilization_hv_memory" value="false"/>
</instance_attributes>
<meta_attributes id="c4"><nvpair id="c5" name="resource-stickiness" value="100"/></meta_attributes>
<operations><op id="c6" name="monitor" interval="10s" timeout="30s"/>
<op id="c7" name="start" interval="0s" timeout="90s"/>
<op id="c8" name="stop" interval="0s" timeout="90s"/></operations>
</primitive></resources><constraints/></configuration><status/></cib>
"""
DOMAIN = """\
<domain type='kvm'>
<name>center-vm</name>
<memory unit='MiB'>512</memory>
</domain>
"""
VIRSH = f"""\
#!/bin/sh
while :; do
    case $1 in -q | --quiet | --connect=*) shift ;; -c) shift 2 ;; *) break ;; esac
done
runs() {{ read -r pid < /run/own/machine.pid && [ -d "/proc/$pid" ]; }} 2> /dev/null
what="error: failed to get domain '$2'"
case $1 in
    uri) echo qemu:///system ;;
    list) ! runs || echo center-vm ;;
    domstate) if runs; then echo running; else echo "$what" >&2; exit 1; fi ;;
    dumpxml) if runs; then cat {SHARED}/center.xml; else echo "$what" >&2; exit 1; fi ;;
    create)
        ! runs || {{ echo "error: domain 'center-vm' already exists" >&2; exit 1; }}
        setsid env -i HOME=/tmp TMPDIR=/tmp PATH="$PATH" LD_PRELOAD=/run/own/waking.so \
            linux.uml mem=512M root=/dev/root rootfstype=hostfs rootflags=/ ro init=/run/own/init \
            con=null con0=null,fd:1 ssl=null quiet initcall_blacklist=raid6_select_algo \
            pty.legacy_count=0 ubda={SHARED}/center.disk \
            uml_dir=/run/own/uml/ umid=center \
            vec0:transport=raw,ifname=center1,depth=128,gro=1,mac=52:54:00:00:01:01 \
            > /run/own/console 2>&1 < /dev/null &
        echo $! > /run/own/machine.pid
        ;;
    destroy) runs && pkill -KILL -x linux.uml ;;
    *) echo "error: unknown command: '$1'" >&2; exit 1 ;;
esac
"""
INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
insmod /usr/lib/uml/modules/*/kernel/fs/overlayfs/overlay.ko
mount -t tmpfs tmpfs /mnt
mkdir /mnt/disk /mnt/root
mount -t ext4 /dev/ubda /mnt/disk
mkdir -p /mnt/disk/upper /mnt/disk/work
mount -t overlay -o lowerdir=/,upperdir=/mnt/disk/upper,workdir=/mnt/disk/work none /mnt/root
if [ ! -e /mnt/disk/made ]; then
    rm -rf /mnt/root/etc/systemd/system/*.wants /mnt/root/lib/systemd/system/*.wants
    rm -f /mnt/root/etc/fstab
    cp -r /run/own/machine/. /mnt/root/etc/
    : > /mnt/disk/made
fi
ip link set vec0 up; ip addr add ADDRESS/24 dev vec0
exec switch_root /mnt/root /lib/systemd/systemd --unit=multi-user.target
"""
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
SSHD = """\
HostKey /etc/own_host_key
AuthorizedKeysFile /etc/own_keys
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PidFile none
MaxStartups 100
MaxSessions 100
"""
CENTER = """\
[hosts.center]
control = "{address}"
user = "root"
key = "{key}"
resource = "center"
"""
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


def lacking():
    """Why there can be no such hosts here; empty when there can."""
    return worlds.lacking(*PROGRAMS)


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
    rows = ['known_hosts = "known_hosts"', 'ssh_config = "ssh_config"',
            f"tolerates = {json.dumps(list(gate.NAMES))}"]  # fmt: skip
    for role in ("client", *PAIR, "guest", "guest2"):
        rows.append(row(role, box.host(role), "br1" if role in PAIR else ""))
    rows.append(CENTER.format(address=address, key=client.transport.at.key))
    rows += [POWER.format(role=role, node=node) for role, node in zip(PAIR, names, strict=True)]
    (folder / "lab.toml").write_text("\n".join(rows))
    return folder / "lab.toml"


@contextmanager
def opened_lab(box, folder):
    """The lab of that file."""
    with guarded(box, folder) as file, opened(file) as lab:
        yield lab
