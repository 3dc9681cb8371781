# programs: grep seq setsid taskset
grep -aoHs "$1" /proc/[0-9]*/cmdline | while IFS=/: read -r _ _ pid _; do
    kill -s KILL -- "-$pid"
done 2>/dev/null
[ "$2" != none ] || exit 0
case $3 in
    all | rest)
        all=$(host_cpus)
        cpus=$(IFS=,; for part in $all; do seq "${part%-*}" "${part#*-}"; done) ;;
    *) cpus=$3 ;;
esac
[ "$3" != rest ] || cpus=$(echo "$cpus" | head -n "-$owned")
mark=labkit-neighb mark=${mark}our work='printf labkit-neighb > /proc/self/comm; while :; do :; done'
[ "$2" != memory ] || work='dd if=/dev/zero of=/dev/null bs=64M; :'
for cpu in $cpus; do
    taskset -c "$cpu" setsid -f sh -c "$work" "$mark-$2" </dev/null >/dev/null 2>&1
done
