# programs: ip mount tar
# The first process of a box host: makes what the host sees its own, then becomes its sshd.
# `disks` is the folder of this machine with the disks of guests, empty where there are none;
# `scratch` the one on a disk that is this host's to write to, empty where it has none;
# `backed` the one that the memory of guests is on, empty where none is on a disk.
# The files for /run arrive on standard input once the links are ready; without them the host ends.
set -e

for knob in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
    [ ! -e "$knob" ] || echo 1 > "$knob"
done
# Each address answers on its own link only, or test traffic would take another way than it says.
echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore
echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce
[ ! -e /proc/sys/net/bridge ] || echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables

# The disks of guests stay in the folder of the box; until /run is the host's own they wait here.
[ -z "$disks" ] || mount --bind "$disks" /tmp
# What a host writes must not stay on the machine.
mount -o remount,bind,ro /
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=0755 tmpfs /run
if [ -n "$disks" ]; then
    mkdir -p /run/labkit/disks
    mount --move /tmp /run/labkit/disks
fi
# A guest whose memory cannot be there has it where others have theirs.
if [ -n "$backed" ]; then
    mkdir -p /run/labkit/backed
    mount --bind "$backed" /run/labkit/backed && mount -o remount,bind,rw /run/labkit/backed || true
fi
if [ -n "$scratch" ]; then
    mkdir -p /run/labkit/scratch
    mount --bind "$scratch" /run/labkit/scratch
    mount -o remount,bind,rw /run/labkit/scratch
fi
for place in /tmp /var/tmp; do
    mount -t tmpfs -o mode=1777 tmpfs "$place"
done
for place in /root /var/log; do
    mount -t tmpfs -o mode=0700 tmpfs "$place"
done
echo ready

tar -x -f - -C /run
ip -batch /run/labkit/links
mkdir /run/sshd
hostname=$(cat /run/labkit/etc/hostname)
# In a user namespace the file may be the machine's root's only.
hostname "$hostname" 2> /dev/null || echo "$hostname" > /proc/sys/kernel/hostname
for file in /run/labkit/etc/*; do
    target=/etc/${file##*/}
    [ ! -e "$target" ] || mount --bind "$file" "$target"
done

# The machine's node for taps may be for its root only; guests run as someone else.
if [ -d /run/labkit/guests ] && [ ! -w /dev/net/tun ]; then
    echo "no /dev/net/tun" >&2
    exit 1
fi
if [ -d /run/labkit/guests ] && mknod -m 666 /run/labkit/tun c 10 200 2> /dev/null; then
    mount --bind /run/labkit/tun /dev/net/tun
fi

exec "$(command -v sshd)" -D -e -f /run/labkit/sshd_config < /dev/null > /dev/null
