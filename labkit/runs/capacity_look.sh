echo "cpus $(nproc)"
nodes=0
for node in /sys/devices/system/node/node[0-9]*; do [ ! -d "$node" ] || nodes=$((nodes + 1)); done
echo "nodes $nodes"
sed -n 's/^Cpus_allowed_list:[[:space:]]*/may /p' /proc/self/status
sed -n 's/^MemTotal: *\([0-9]*\) kB/total \1/p; s/^MemAvailable: *\([0-9]*\) kB/free \1/p' \
    /proc/meminfo
for limit in memory.max memory/memory.limit_in_bytes; do
    [ ! -r "/sys/fs/cgroup/$limit" ] || echo "limit $(cat "/sys/fs/cgroup/$limit")"
done
for cache in /sys/devices/system/cpu/cpu*/cache/index*; do
    [ -r "$cache/size" ] || continue
    [ "$(cat "$cache/type")" = Instruction ] ||
        echo "cache $(cat "$cache/level") $(cat "$cache/size") $(cat "$cache/shared_cpu_list")"
done
echo "huge $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo none)"
for folder; do [ ! -w "$folder" ] || break; done
echo "folder $folder"
df -Pk "$folder" 2>/dev/null | sed -n '2s/^.* \([0-9][0-9]*\)  *[0-9][0-9]*% .*$/disk \1/p'
