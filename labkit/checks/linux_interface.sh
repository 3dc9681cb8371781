# programs: ip
cd "/sys/class/net/$1" 2>/dev/null || { echo absent; ls /sys/class/net; exit 0; }
driver=$(readlink device/driver 2>/dev/null); speed=$(cat speed 2>/dev/null)
echo "$(cat operstate) $(cat flags) $(cat mtu) ${driver##*/} ${speed:-}"
ip -o addr show dev "$1" | awk '{ sub("/.*", "", $4); print $4 }'
