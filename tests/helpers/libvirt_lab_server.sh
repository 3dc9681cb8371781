# programs: ip libvirtd mount virsh
set -e
for place in /var/lib /var/cache /etc/libvirt; do mount -t tmpfs tmpfs "$place"; done
mkdir -p /run/lab /var/log/libvirt
printf '%s\n' 'auth_unix_rw = "none"' > /etc/libvirt/libvirtd.conf
printf '%s\n' 'user = "root"' 'group = "root"' 'security_driver = "none"' 'remember_owner = 0' \
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
