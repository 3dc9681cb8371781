# programs: esxtop pgrep
if command -v esxtop >/dev/null; then
    for one; do echo "esxtop ${one%%=*} ${one#*=}"; done
    exit
fi
pids_of() {
    if command -v guest >/dev/null; then guest "@$1" pids
    elif [ -r "/run/libvirt/qemu/$1.pid" ]; then cat "/run/libvirt/qemu/$1.pid"
    else pgrep -f -- "-name (guest=)?$1[, ]"; fi
}
all=
for one; do
    guest=${one%%=*} pids=$(pids_of "${one#*=}")
    [ -n "$pids" ] || { echo "$guest: no process of it is here" >&2; exit 1; }
    for pid in $pids; do
        for each in "$pid" $(command -v pgrep >/dev/null && pgrep "^vhost-$pid\$"); do
            all="$all $guest:$each"; done; done
done
sed -n 's/^Cpus_allowed_list:[[:space:]]*/cpus /p' /proc/1/status
date '+at %s.%N'
for one in $all; do
    for task in /proc/"${one#*:}"/task/[0-9]*; do
        read -r counted < "$task/schedstat" && echo "task ${one%%:*} ${task##*/} $counted"
    done 2>/dev/null
done
grep '^cpu[0-9]' /proc/stat
