#!/bin/sh
# programs: busybox insmod ip mkfs.ext4 mount ping
# The first process of a guest of QEMU, whose root is in its memory: what it writes is gone with it.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
echo "labkit-kernel-is-up"

while read -r module; do
    insmod "/lib/modules/$module" 2> /dev/null || busybox insmod "/lib/modules/$module"
done < /lib/modules/order

cp /run/labkit/etc/* /etc/
chmod 600 /etc/shadow
read -r hostname < /run/labkit/etc/hostname
echo "$hostname" > /proc/sys/kernel/hostname
for knob in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
    [ ! -e "$knob" ] || echo 1 > "$knob"
done
ip link set eth0 name vec0
ip link set eth1 name vec1
ip -batch /run/labkit/links

# Its folder on a disk is new each time that the guest starts.
if read -r scratch < /run/labkit/scratch_disk; then
    mkdir /run/labkit/scratch
    mkfs.ext4 -q -F "$scratch" && mount -t ext4 "$scratch" /run/labkit/scratch
fi 2> /dev/null

known() { ping -n -q -c 1 -i 0.02 -w 5 "$1" > /dev/null || echo "labkit: $1 does not answer"; }
known root-control &
known "$(cat /run/labkit/peer)"
wait

# One who may be asked for exactly one thing: to go on until the guest is ended.
/bin/sshd -D -e -f /run/labkit/sshd_config
echo "labkit: its sshd ended"
sleep infinity
