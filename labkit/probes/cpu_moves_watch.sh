# programs: pgrep
seconds=$1; shift
[ -r /proc/self/sched ] || { sleep "$seconds"; exit; }
pids_of() {
    if command -v guest >/dev/null; then guest "@$1" pids
    elif [ -r "/run/libvirt/qemu/$1.pid" ]; then cat "/run/libvirt/qemu/$1.pid"
    else pgrep -f -- "-name (guest=)?$1[, ]"; fi
}
case $1 in
process) pids=$(pgrep -x "$2") ;;
*) pids=; shift; for one; do pids="$pids $(pids_of "$one")"; done ;;
esac
tasks=
for pid in $pids; do
    for task in /proc/"$pid"/task/[0-9]*; do tasks="$tasks $task"; done; done
# Where a thread ran since the last look: the CPU that it is or was on, if its time has grown.
awk -v seconds="$seconds" -v tasks="$tasks" '
function ran(task,  line, part) {
    line = ""; getline line < (task "/schedstat"); close(task "/schedstat")
    split(line, part, " "); return part[1] + 0
}
function cpu_of(task,  line, part) {
    line = ""; getline line < (task "/stat"); close(task "/stat")
    sub(/.*\) /, "", line); split(line, part, " "); return part[37]
}
function moves(task,  line, found) {
    found = ""
    while ((getline line < (task "/sched")) > 0)
        if (line ~ /nr_migrations /) { found = line; sub(/.*: */, "", found) }
    close(task "/sched"); return found
}
function now(  line, part) {
    getline line < "/proc/uptime"; close("/proc/uptime"); split(line, part, " "); return part[1]
}
BEGIN {
    many = split(tasks, each, " ")
    for (n = 1; n <= many; n++) {
        first[n] = last[n] = ran(each[n]); before[n] = moves(each[n]) }
    begun = now()
    do {
        system("sleep 0.05")
        for (n = 1; n <= many; n++)
            if ((time = ran(each[n])) > last[n]) {
                last[n] = time; cpu = cpu_of(each[n])
                if (index(" " on[n] " ", " " cpu " ") == 0) on[n] = on[n] (on[n] == "" ? "" : " ") cpu }
    } while (now() - begun < seconds)
    printf "seconds %.2f\n", now() - begun
    for (n = 1; n <= many; n++) {
        name = each[n]; sub(/.*\//, "", name)
        printf "task %s ns %.0f moves %s %s on %s\n", name, last[n] - first[n], before[n], moves(each[n]), on[n] }
}'
