date "+date:%s.%N"
grep -HE "^([0-9]|cpu|pswp|Tcp:)" /proc/uptime /proc/loadavg \
    /sys/class/net/*/statistics/*_errors \
    /sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count \
    /proc/stat /proc/vmstat /proc/net/snmp /proc/[0-9]*/stat
limits() {
    group=$2
    while [ "$group" ]; do
        group=${group%/}
        [ ! -r "$1$group/cpu.stat" ] || grep -H throttled "$1$group/cpu.stat"
        group=${group%/*}
    done
}
while IFS=: read -r number kinds group; do
    case $number,$kinds, in
        0,,) limits /sys/fs/cgroup "$group" ;;
        *,cpu,*) limits /sys/fs/cgroup/cpu "$group" ;;
    esac
done < /proc/self/cgroup
echo "end:"
