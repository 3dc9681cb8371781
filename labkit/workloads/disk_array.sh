# programs: blkid busybox dmsetup fio insmod mdadm modprobe perl
# An array of disks that hold nothing, a volume on it that a load may use, and what else is allocated.
#   disk_array look USED_MIB DISK...      names the first disk that is not free, and why
#   disk_array make KIND USED_MIB VOLUME_MIB PERCENT IMAGE DISK...
#   disk_array slow LATENCY_MS DISK...    from now on each request of a disk takes so much longer
#   disk_array unmake USED_MIB DISK...    takes it down; what was written is overwritten with zeros
# The volume is filled with what IMAGE holds, if there is such a file.
# KIND is raid (volumes are pieces of a RAID 5) or pool (of a thin pool on the same RAID 5).
# A disk is written to only through a mapping of ours, which is made of it once it was seen to be free.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" MDADM_NO_UDEV=1 DM_DISABLE_UDEV=1
array=/dev/md94 mapped=/dev/mapper/labkit
head=16384 # sectors that a pool has its metadata in; a RAID group leaves them free
verb=$1; shift

name_of() { name=$(readlink -f "$1"); echo "${name##*/}"; }

sectors() { cat "/sys/class/block/$(name_of "$1")/size"; }

# To compare is faster than to count, which matters where the CPU is emulated.
blank() {
    perl -e 'sysopen my $disk, $ARGV[0], 0 or die "$ARGV[0]: $!\n";
        sysseek $disk, $ARGV[1] << 20, 0; my ($left, $zeros, $piece) = ($ARGV[2], "\0" x (1 << 20));
        while ($left-- > 0) {
            1 << 20 == sysread $disk, $piece, 1 << 20 or die "$ARGV[0]: $!\n";
            exit 1 if $piece ne $zeros;
        }' "$@"
}

held() {
    [ -b "$1" ] || { echo "is no disk"; return; }
    disk=$(readlink -f "$1") name=$(name_of "$1")
    [ ! -e "/sys/class/block/$name/partition" ] || { echo "is a partition"; return; }
    if grep -q "^${disk}[0-9p]* " /proc/mounts; then echo "is mounted"; return; fi
    if grep -q "^${disk}[0-9p]* " /proc/swaps; then echo "is swap space"; return; fi
    for holder in "/sys/class/block/$name/holders/"*; do
        [ ! -e "$holder" ] || { echo "is a part of ${holder##*/}"; return; }
    done
    for part in "/sys/class/block/$name/$name"*; do
        [ ! -e "$part" ] || { echo "has a partition ${part##*/}"; return; }
    done
    mebibytes=$(($(sectors "$1") / 2048))
    if [ "$mebibytes" -le "$used" ]; then echo "has $mebibytes MiB, and $((used + 1)) are needed"; return; fi
    sign=$(blkid -p -o value -s TYPE -s PTTYPE "$1" | head -n 1)
    if [ "$sign" ]; then echo "holds $sign"; return; fi
    if ! blank "$1" 0 "$used" || ! blank "$1" $((mebibytes - 1)) 1; then echo "holds data"; fi
}

# Whether a mapping of ours is of this disk and of no other.
ours() { dmsetup table "labkit-$1" | grep -q " $(cat "/sys/class/block/$1/dev" || echo none) "; }

clear_disk() { dd if=/dev/zero of="$1" bs=1M count="$used" oflag=direct 2> /dev/null; }

# What a killed run of ours has left: nobody else's names begin so.
take_down() {
    for name in volume others pool data metadata; do
        [ ! -e "$mapped-$name" ] || dmsetup remove --retry "labkit-$name"
    done
    if grep -qs '^labkit-' "/sys/block/${array##*/}/slaves/"*/dm/name; then mdadm --quiet --stop "$array"; fi
    for disk; do
        name=$(name_of "$disk") written=no
        [ -e "$mapped-$name" ] || continue
        if ours "$name"; then written=yes; fi
        dmsetup remove --retry "labkit-$name"
        if [ "$written" = yes ]; then clear_disk "$disk" & fi
    done
    wait
}

piece() { dmsetup create "labkit-$1" --table "0 $4 linear $2 $3"; }

fill() {
    set --
    [ ! -e "$mapped-others" ] || set -- --name=others --filename="$mapped-others"
    if [ -e "$image" ]; then
        dd if="$image" of="$mapped-volume" bs=1M oflag=direct
    else
        set -- "$@" --name=volume --filename="$mapped-volume"
    fi
    [ "$#" = 0 ] || fio --rw=write --bs=1m --iodepth=4 --ioengine=libaio --direct=1 --thread \
        --refill_buffers --buffer_compress_percentage=0 --minimal "$@" > /dev/null
}

make_pool() {
    piece metadata "$array" 0 "$head"
    piece data "$array" "$head" "$1"
    dmsetup create labkit-pool --table \
        "0 $1 thin-pool $mapped-metadata $mapped-data 128 0 1 skip_block_zeroing"
    dmsetup message labkit-pool 0 "create_thin 0"
    dmsetup create labkit-volume --table "0 $volume thin $mapped-pool 0"
    [ "$2" -gt 0 ] || return 0
    dmsetup message labkit-pool 0 "create_thin 1"
    dmsetup create labkit-others --table "0 $2 thin $mapped-pool 1"
}

# Requests that wait one by one are not joined, and filling would take long: so this comes after it.
slow_down() {
    dmsetup suspend "labkit-$1"
    dmsetup load "labkit-$1" --table "0 $(sectors "$2") delay $2 0 $latency"
    dmsetup resume "labkit-$1"
}

case $verb in
    look)
        used=$1; shift
        # What cannot be asked must not look free.
        blkid -V > /dev/null 2>&1 || { echo "blkid is missing, which knows signatures" >&2; exit 1; }
        if [ -r /lib/modules/arrays ]; then
            while read -r module; do
                insmod "/lib/modules/$module" 2> /dev/null || busybox insmod "/lib/modules/$module" 2> /dev/null || :
            done < /lib/modules/arrays
        else
            modprobe -a raid456 dm_thin_pool dm_delay
        fi
        take_down "$@"
        taken=$(for disk; do held "$disk" | sed "s|^|$disk |" & done; wait)
        [ -z "$taken" ] || { echo "$taken" | head -n 1; exit 3; }
        [ ! -e "$array" ] || { echo "$array is there already"; exit 3; }
        ;;
    make)
        kind=$1 used=$2 volume=$(($3 * 2048)) percent=$4 image=$5; shift 5
        members=
        for disk; do
            dmsetup create "labkit-$(name_of "$disk")" --table "0 $(sectors "$disk") linear $disk 0"
            members="$members $mapped-$(name_of "$disk")"
        done
        # All is zero there, and so is its parity: there is nothing to synchronize.
        # shellcheck disable=SC2086
        mdadm --create "$array" --run --level=5 --raid-devices="$#" --chunk=64 --metadata=1.2 \
            --bitmap=none --data-offset=1M --size=$(((used - 2) * 1024)) --assume-clean $members 2>&1
        room=$(($(sectors "$array") - head))
        others=$((room * percent / 100 / 2048 * 2048 - volume))
        if [ "$kind" = raid ]; then
            piece volume "$array" "$head" "$volume"
            [ "$others" -le 0 ] || piece others "$array" $((head + volume)) "$others"
        else
            make_pool "$room" "$others"
        fi
        fill
        ;;
    slow)
        latency=$1; shift
        sync
        [ "$latency" = 0 ] || for disk; do slow_down "$(name_of "$disk")" "$disk"; done
        ;;
    unmake) used=$1; shift; take_down "$@" ;;
esac
