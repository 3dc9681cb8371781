# programs: mount
for place in /lib /lib64 /usr/lib; do
    [ ! -e "$place" ] || { mkdir -p "$1$place" && mount --rbind "$place" "$1$place"; } || exit; done
mount -t proc proc "$1/proc" && mount -t sysfs sys "$1/sys" && mount --rbind /dev "$1/dev" || exit
root=$1; shift; exec chroot "$root" "$@"
