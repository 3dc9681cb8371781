read -r online < /sys/devices/system/cpu/online || exit
cpus= IFS=,
for part in $online; do
    cpu=${part%-*}
    while [ "$cpu" -le "${part#*-}" ]; do cpus="$cpus $cpu" cpu=$((cpu + 1)); done
done
unset IFS
