#!/bin/sh
# programs: busybox insmod mount switch_root
# The first process of a guest of QEMU that has its host's files, read-only: loads drivers, and goes on as a
# guest of User-Mode Linux does.
export PATH=/bin
lists='LISTS'
for list in $lists; do
    while read -r module; do
        insmod "/lib/modules/$module" 2> /dev/null || busybox insmod "/lib/modules/$module"
    done < "/lib/modules/$list"
done
mkdir /host
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=262144 host /host
exec switch_root /host /run/labkit/guests/GUEST/init
