told() {
    for file in dm/uuid wwid device/wwid serial device/serial loop/backing_file; do
        id=$(cat "/sys/block/$1/$file" 2>/dev/null)
        [ -z "$id" ] || { echo "$id"; return; }
    done
    at=$(cd -P "/sys/block/$1/device" 2>/dev/null && pwd) || { echo software; return; }
    at=${at%/virtio*}
    echo "${at##*/}"
}
