# programs: mount
[ -w /run/labkit/tun ] || {
    mknod -m 666 /run/labkit/tun c 10 200 && mount --bind /run/labkit/tun /dev/net/tun
} || exit
cd "/run/labkit/guests/$1" && rm -f ready lock initrd run/qmp || exit
sed -i "s/^cpus=.*/cpus=$2/" description running
