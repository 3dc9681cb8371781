#!/bin/sh
# programs: ip mkfs.ext4 mount ping
# The first process of the guest. Its root is the server's root, read-only; /run becomes its own.
# To start a program takes ten times as long here as on the host, so that few are started. It is that of
# a guest of QEMU that has its host's files, too (qemu_loader.sh).
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# In a box without root the machine's files are another user's here, whom a setuid program becomes.
if ! [ -O /bin/sh ] && [ -z "$again" ]; then
    exec env again=yes setpriv --no-new-privs "$0"
fi
unset again

# What /run hides from now on is still where this process is.
cd "${0%/*}/run/labkit" || exit
mount -t proc proc /proc
mount -a -T ../../mounts
mkdir /run/sshd
cp -r ../labkit /run/labkit
cd /

for file in /run/labkit/etc/*; do
    target=/etc/${file##*/}
    [ ! -e "$target" ] || echo "$file $target none bind"
done > /run/binds
mount -a -T /run/binds
read -r hostname < /run/labkit/etc/hostname
echo "$hostname" > /proc/sys/kernel/hostname

for knob in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
    [ ! -e "$knob" ] || echo 1 > "$knob"
done
ip -batch /run/labkit/links

[ ! -e /run/labkit/hotplug ] || /run/labkit/hotplug &

# Its folder on a disk is new each time that the guest starts.
if read -r scratch < /run/labkit/scratch_disk; then
    mkdir /run/labkit/scratch
    mkfs.ext4 -q -F "$scratch" && mount -t ext4 "$scratch" /run/labkit/scratch
fi 2> /dev/null

# The switch has to learn which of its ports the guest is at now, on both networks. One announcement
# is not enough: a bridge drops what arrives before it has noticed that its port is in use.
known() { ping -n -q -c 1 -i 0.02 -w 5 "$1" > /dev/null || echo "labkit: $1 does not answer"; }
read -r peer < /run/labkit/peer
known root-control & control=$!
known "$peer"
wait "$control"

exec "$(command -v sshd)" -D -e -f /run/labkit/sshd_config
