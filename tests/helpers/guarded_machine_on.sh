# programs: corosync-cmapctl ip setsid
ip link set "$1" up
setsid corosync -f > /run/own/corosync.out 2>&1 &
n=0; until corosync-cmapctl -g runtime.config.totem.token > /dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || exit 1; sleep 0.1; done
export TZ=UTC
setsid pacemakerd -f > /run/own/pacemaker.out 2>&1 &
