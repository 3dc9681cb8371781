# programs: ip
# Of an interface its state, flags and addresses; or all that there are. ESXi has no such folder.
[ -d /sys/class/net ] || exit 0
cd "/sys/class/net/$1" 2>/dev/null || { echo absent; ls /sys/class/net; exit 0; }
echo "$(cat operstate) $(cat flags)"
ip -o addr show dev "$1" | awk '{ sub("/.*", "", $4); print $4 }'
