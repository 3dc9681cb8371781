# programs: ethtool
told() {
    at=$(cd -P "/sys/class/net/$1/device" 2>/dev/null && pwd) || { echo software; return; }
    at=${at%/virtio*} mac=$(ethtool -P "$1" 2>/dev/null)
    echo "${at##*/} ${mac##*: }"
}
