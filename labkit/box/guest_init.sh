#!/bin/sh
# The first process of the guest. Its root is the server's root, read-only; /run becomes its own.
place=${0%/*}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# In a box without root the machine's files are another user's here, whom a setuid program becomes.
if [ "$(stat -c %u /bin/sh)" != 0 ] && [ -z "$again" ]; then
    exec env again=yes setpriv --no-new-privs "$0"
fi
unset again

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=0755 tmpfs /tmp
cp -r "$place/run/labkit" /tmp/labkit
mkdir /tmp/sshd
chmod 600 /tmp/labkit/host_key
mount -n --move /tmp /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=0700 tmpfs /root
mount -t tmpfs -o mode=0700 tmpfs /var/log
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
mount -t devtmpfs devtmpfs /dev 2> /dev/null
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts

for file in /run/labkit/etc/*; do
    target=/etc/${file##*/}
    [ ! -e "$target" ] || mount --bind "$file" "$target"
done
read -r hostname < /run/labkit/etc/hostname
echo "$hostname" > /proc/sys/kernel/hostname

for knob in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
    [ ! -e "$knob" ] || echo 1 > "$knob"
done
ip -batch /run/labkit/links

# The switch has to learn which of its ports the guest is at now, on both networks. One announcement
# is not enough: a bridge drops what arrives before it has noticed that its port is in use.
known() { ping -n -q -c 1 -i 0.02 -w 5 "$1" > /dev/null || echo "labkit: $1 does not answer"; }
known root-control &
known "$(cat /run/labkit/peer)"
wait
[ ! -e /sys/kernel/uevent_helper ] || echo /run/labkit/hotplug > /sys/kernel/uevent_helper

exec "$(command -v sshd)" -D -e -f /run/labkit/sshd_config
