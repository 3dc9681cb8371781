# programs: ip pgrep
# Takes the power from what `_cluster_node` began on this host: its link is down and all of it has
# ended when this does. Says when it did so.
#   _cluster_off FOLDER INTERFACE
folder=$1 interface=$2
read -r holder < "$folder/pid" || exit 0
first=$(pgrep -P "$holder")
date +%s.%N
[ -z "$interface" ] || ip link set "$interface" down
kill -KILL "$holder" "$first" 2> /dev/null
for pid in $holder $first; do
    while [ -d "/proc/$pid" ]; do sleep 0.005; done
done
