# programs: dmsetup mkfs.ext4 mount umount
# The file system that the servers of tiles have on a volume of an array.
#   tiles_place new|up|down|counts VOLUME FOLDER
#   tiles_place keep VOLUME FOLDER IMAGE    for arrays that are made later; images of other content go
set -eu
export PATH="$PATH:/usr/sbin:/sbin"
volume=$2 folder=$3
# What a killed run has left there works in its folders.
leave() {
    grep -q " $folder " /proc/mounts || return 0
    if umount "$folder" 2> /dev/null; then rm -d "$folder"; return; fi
    for process in /proc/[0-9]*; do
        case $(readlink "$process/cwd") in "$folder"/*) kill -9 "${process#/proc/}" || : ;; esac
    done 2> /dev/null
    n=0
    until umount "$folder"; do
        n=$((n + 1))
        [ "$n" -lt 50 ] || exit 1
        sleep 0.2
    done
    rm -d "$folder"
}
case $1 in
    new) mkfs.ext4 -q -F -E nodiscard "/dev/mapper/$volume" ;;
    keep)
        umask 077
        rm -f "${4%-*}"-*
        dd if="/dev/mapper/$volume" of="$4-part" bs=1M iflag=direct
        mv "$4-part" "$4"
        ;;
    up)
        mkdir -m 711 "$folder"
        mount -t ext4 "/dev/mapper/$volume" "$folder"
        ;;
    down) leave ;;
    # What is read comes from the disks, and not from the memory that the servers' files fill.
    counts)
        sync
        echo 3 > /proc/sys/vm/drop_caches
        cat "/sys/dev/block/$(dmsetup info -c --noheadings --separator : -o major,minor "$volume")/stat"
        cat /sys/block/md94/md/degraded
        ;;
esac
