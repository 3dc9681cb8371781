#!/bin/sh
# programs: insmod ip mount switch_root
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
